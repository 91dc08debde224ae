"""The formats in the guide and in the examples, on the lines that they show; the output of `pipeline try`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark.logs.format.line import Line
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.trial import TrialLines, try_lines
from tests.cli.conftest import no_settings, process
from tests.cli.support import Cli, Process
from tests.docs.console import Page, commands
from tests.docs.logs import access_log
from tests.logs.conftest import cli
from tests.logs.job.support import config_of
from tests.spark.running import ADMISSION_CONTROL

__all__ = ["cli", "no_settings", "process"]

#: Seconds; Spark takes some to start, and on a busy machine many.
SLOW = 300.0
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/pipeline.md").read_text()


def shown() -> dict[str, str]:
    """What shows lines in its comments: sections `[parse]` of the guide, and examples."""
    sections = re.findall(r"```toml\n(# Lines:\n.*?)```", GUIDE, re.DOTALL)
    examples = {file.stem: file.read_text() for file in (ROOT / "examples/pipeline").glob("*.toml")}
    return {f"section {number}": section for number, section in enumerate(sections)} | {
        name: text for name, text in examples.items() if "# Lines:\n" in text
    }


def lines_of(text: str) -> list[str]:
    found = re.search(r"^# Lines:\n((?:#   .*\n)+)", text, re.MULTILINE)
    assert found is not None
    return [line.removeprefix("#   ") for line in found[1].splitlines()]


def test_the_formats_of_the_guide_and_the_examples_parse_their_lines(
    session: SparkSession, tmp_path: Path
) -> None:
    found = shown()
    assert len(found) == 5 + 4
    for name, text in found.items():
        if name.startswith("section"):
            config, where = config_of(tmp_path, text.partition("[parse]\n")[2])
        else:
            config, where = read_config(ROOT / f"examples/pipeline/{name}.toml")
        lines = lines_of(text)
        given = TrialLines([Line(0, line.encode()) for line in lines], "web1", "app.log")
        tried = try_lines(session, config, where, given)
        assert [each.reason for each in tried if each.reason is not None] == [], name
        headers = sum(line == getattr(config.parse, "header", None) for line in lines)
        assert len(tried) == len(lines) - headers, name


def test_lines_of_standard_input_are_joined_and_those_that_do_not_parse_shown_as_json(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    at = "2026-01-31T12:00:00.123456789Z"
    lines = [
        f'{at} stdout F {{"level": "info"}}',
        f'{at} stdout P {{"level": ',
        f'{at} stdout F "warn"}}',
        "poison \udcff",
        f'{at} stderr P {{"level',
    ]
    (tmp_path / "lines").write_text("\n".join(lines), errors="surrogateescape")
    file = ROOT / "examples/pipeline/containers_to_parquet.toml"
    with (tmp_path / "lines").open("rb") as stdin:
        ended = process("pipeline", "try", file, "-", "--failed", "--json", stdin=stdin, cwd=tmp_path).end(
            SLOW
        )
    assert (ended.code, ended.err) == (0, "")
    assert [each.name for each in tmp_path.iterdir()] == ["lines"]
    partial = "a partial line: its end is not in the message"
    assert ended.records == [
        {"number": 3, "line": "poison \ufffd", "row": None, "reason": "not a line of a CRI container"},
        {"number": 4, "line": lines[4], "row": None, "reason": partial},
    ]


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="the page shows the lag, which Spark reports from 4.2 on")
def test_the_commands_of_the_guide_print_what_it_shows(
    cli: Cli, one_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "logs").mkdir(parents=True)
    (scratch / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(scratch)
    access_log(scratch / "logs/access.log")
    access = (ROOT / "examples/pipeline/access_to_parquet.toml").read_text()
    service = (ROOT / "examples/pipeline/service_to_parquet.toml").read_text()

    def write(name: str, text: str) -> None:
        (scratch / name).write_text(text)

    def wrong(old: str, new: str) -> None:
        assert old in access
        write("wrong.toml", access.replace(old, new))

    def try_service() -> None:
        write("pipeline.toml", service)
        shown = next(each for each in commands(ROOT / "docs/pipeline.md") if " try " in each.text)
        write(
            "app.log",
            "".join(f"{line.partition(': ')[2]}\n" for line in shown.shown if re.match(r"\d+: ", line)),
        )

    def more_lines() -> None:
        write("pipeline.toml", access)
        access_log(scratch / "logs/more.log", 500)
        cli(
            "ship",
            "logs/more.log",
            "--host",
            "web1.example.com",
            "--once",
            "--positions",
            scratch / "more.json",
        )

    page = Page(
        "docs/pipeline.md",
        before={
            "jetspark pipeline check wrong.toml": lambda: wrong('"combined"', '"combind"'),
            "jetspark pipeline run wrong.toml": lambda: wrong('"dead.access"', '"dead"'),
            "jetspark pipeline explain wrong.toml": lambda: wrong("regexp_extract(", "regexp_extrct("),
            "jetspark pipeline try": try_service,
            "jetspark pipeline run pipeline.toml --once --json": more_lines,
        },
        not_run={
            "jetspark pipeline check slow.toml": "tests/logs/job/test_config.py",
            "find tables": "the number of files is that of the tasks",
        },
        place="/srv/logs",
    )
    page.run(cli, scratch)


def test_a_syslog_file_is_shipped_and_parsed_in_both_forms(
    cli: Cli, one_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = (
        "Nov 15 10:00:00 web1 sshd[1]: Accepted",
        "2026-11-15T10:00:01.123456+00:00 web1 systemd[1]: Started x.",
    )
    lines = [*written, *(f"<30>{line}" for line in written)]
    (tmp_path / "syslog").write_text("".join(f"{line}\n" for line in lines))
    cli("ship", "syslog", "--create", "LOGS", "--once")
    config = ROOT / "examples/pipeline/syslog_to_parquet.toml"
    for source in ([], ["syslog"]):
        tried = cli("pipeline", "try", config, *source, "--json").records
        assert [(each["line"], each["reason"]) for each in tried] == [(line, None) for line in lines]
        shown = [(each["row"]["app"], each["row"]["process"], each["row"].get("severity")) for each in tried]
        assert shown == [("sshd", "1", None), ("systemd", "1", None), ("sshd", "1", 6), ("systemd", "1", 6)]
