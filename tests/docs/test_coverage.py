"""Every command, program and output in the pages has a test that runs it, or a reason why none does."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.console import ROOT, commands
from tests.docs.python import blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: The tests of pages with console blocks that have commands.
COMMANDS = {
    "README.md": "tests/docs/test_console.py",
    "docs/cli.md": "tests/docs/test_console.py",
    "docs/console.md": "tests/docs/test_console.py",
    "docs/consume-logs.md": "tests/docs/test_console.py",
    "docs/demo.md": "tests/logs/job/test_demo.py compares a shorter one; that of the page takes minutes",
    "docs/pause.md": "tests/docs/test_console.py",
    "docs/pipeline.md": "tests/logs/job/test_guide.py",
    "docs/ship.md": "tests/docs/test_console.py",
    "docs/spark.md": "none: pip, which scripts/try-wheels tries, and spark-submit on a cluster",
}
#: The tests of pages with Python blocks; each runs all of the page.
PROGRAMS = {
    "README.md": "tests/docs/test_python.py",
    "docs/blocking.md": "tests/docs/test_python.py",
    "docs/connecting.md": "tests/docs/test_python.py",
    "docs/console.md": "tests/docs/test_python.py",
    "docs/consuming.md": "tests/docs/test_python.py",
    "docs/kv.md": "tests/docs/test_python.py",
    "docs/managing.md": "tests/docs/test_python.py",
    "docs/metrics.md": "tests/spark/test_guide_messages.py",
    "docs/migrating-from-nats-py.md": "tests/rules/test_migration_guide.py",
    "docs/objects.md": "tests/docs/test_python.py",
    "docs/pipeline.md": "tests/logs/job/sinks/test_queries.py",
    "docs/publishing.md": "tests/docs/test_python.py",
    "docs/server.md": "tests/docs/test_python.py",
    "docs/spark.md": "tests/spark/test_guide.py, tests/spark/test_guide_messages.py",
    "docs/subscribe.md": "tests/docs/test_python.py",
    "docs/tracing.md": "tests/docs/test_python.py",
}
#: The tests of console blocks that have only output, by page and beginning.
OUTPUTS = {
    "README.md": {
        "stored as ORDERS#1": "tests/docs/test_python.py",
        "+--": "tests/spark/test_examples.py",
        "Lines written": "tests/logs/job/test_demo.py",
    },
    "docs/spark.md": {
        "+--": "tests/spark/test_guide.py",
        "----": "none: the output of Spark's console sink; tests/spark/test_guide.py runs the query",
        "jetspark.errors.": "tests/spark/test_guide_messages.py",
        "read up to": "tests/spark/test_guide_messages.py",
        "26/11/16": "tests/spark/write: lines in the log of Spark's processes",
    },
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_commands_are_run() -> None:
    assert {name(page) for page in PAGES if commands(page)} == set(COMMANDS)


def test_programs_are_run() -> None:
    assert {name(page) for page in PAGES if blocks(page, "python")} == set(PROGRAMS)


def test_outputs_are_compared() -> None:
    met: set[tuple[str, str]] = set()
    for page in PAGES:
        for block in blocks(page, "console"):
            if not block.startswith("$ "):
                known = [each for each in OUTPUTS.get(name(page), ()) if block.startswith(each)]
                assert known, f"{name(page)}: no test compares the block that begins {block[:50]!r}"
                met.update((name(page), each) for each in known)
    assert met == {(page, each) for page, known in OUTPUTS.items() for each in known}


def test_blocks_of_code_have_a_language_that_a_test_knows() -> None:
    """A block of another language, like `sh`, would be run by no test."""
    known = {"", "conf", "console", "json", "python", "python nats-py", "sql", "toml", "yaml"}
    for page in PAGES:
        fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
        assert set(fences) <= known, name(page)


def test_targets_of_make_exist() -> None:
    targets = {"test-spark-"} | set(
        re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    for page in PAGES:
        named = re.findall(r"(?:^|\$ |`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, name(page)
