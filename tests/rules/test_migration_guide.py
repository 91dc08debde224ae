"""The examples in the guide for those who come from nats-py run as they are."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

import jetspark
from jetspark import connect
from jetspark.server import Server
from tests.support.consuming import make_stream

GUIDE = Path(__file__).parents[2] / "docs" / "migrating-from-nats-py.md"


def blocks(kind: str) -> list[tuple[str, str]]:
    """The code blocks of a kind, each with the heading above it."""
    found = []
    heading = ""
    for part in re.split(r"^(## .*|```python.*\n(?:.*\n)*?```)$", GUIDE.read_text(), flags=re.MULTILINE):
        if part.startswith("## "):
            heading = part[3:]
        elif part.startswith(f"```{kind}\n"):
            found.append((heading, part.partition("\n")[2].removesuffix("```")))
    return found


EXAMPLES = blocks("python")


def test_the_guide_has_examples_of_both() -> None:
    assert len(EXAMPLES) >= 9
    assert len(blocks("python nats-py")) >= 8
    for _, text in blocks("python nats-py"):
        compile(text, "nats-py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(("heading", "text"), EXAMPLES, ids=[heading for heading, _ in EXAMPLES])
async def test_an_example_of_the_guide_runs(
    server: Server, heading: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = compile(text, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(60), connect(server.url) as nc:
        js = nc.jetstream()
        await make_stream(js, 10)
        names = {"nc": nc, "js": js, "url": server.url, "jetspark": jetspark}
        outcome = eval(code, names)
        if inspect.isawaitable(outcome):
            await outcome
    assert "Traceback" not in capsys.readouterr().err
