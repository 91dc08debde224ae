"""The examples in the guides to buckets run, from the first to the last."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import jetspark
from jetspark import connect
from jetspark.server import Server

DOCS = Path(__file__).parents[2] / "docs"
#: An example that goes on until it is stopped.
LIVE = "# each change from then on"


def examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)


async def run(text: str, names: dict[str, Any]) -> None:
    outcome = eval(compile(text, "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.parametrize("page", ["kv.md", "objects.md"])
async def test_the_examples_of_a_page_run(
    server: Server, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "model.bin").write_bytes(b"x" * 300_000)
    printed: list[object] = []
    async with asyncio.timeout(60), connect(server.url) as nc:
        names = {name: getattr(jetspark, name) for name in jetspark.__all__}
        names |= {"nc": nc, "source": iter([b"1", b"2"])}
        names["print"] = lambda *what: printed.append(what)
        for text in examples(page):
            running = asyncio.create_task(run(text, names))
            if LIVE in text:
                while not running.done() and not printed:
                    await names["kv"].put("eur.usd", b"1.12")
                    await asyncio.sleep(0.01)
                running.cancel()
                await asyncio.wait([running])
                assert printed, running
            else:
                await running
            printed.clear()
