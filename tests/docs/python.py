"""Runs the Python blocks of a page, in order and statement by statement, with names that all blocks share."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import jetspark
from tests.docs.console import ROOT

__all__ = ["Names", "PythonPage", "blocks"]

Names = dict[str, Any]
#: Seconds; only a hang takes so long.
LONG = 60.0


def blocks(page: Path, kind: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@dataclasses.dataclass
class PythonPage:
    """A page, and what its blocks need that the page does not show."""

    name: str
    #: By a text of the page: what is run in its place. Ends loops that go on for ever, above all.
    replaced: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: By the beginning of a statement: awaited before it runs.
    before: Mapping[str, Callable[[Names], Awaitable[object]]] = dataclasses.field(default_factory=dict)
    #: Awaited after each statement.
    afterwards: Callable[[Names], Awaitable[object]] | None = None

    async def run(self, names: Names) -> None:
        """Run every block. `names` is what the page takes for granted; the names that it makes are added."""
        for name in vars(jetspark)["__all__"]:
            names.setdefault(name, getattr(jetspark, name))
        names["jetspark"] = jetspark
        text = (ROOT / self.name).read_text()
        for each in (*self.replaced, *self.before):
            assert each in text, f"{self.name} has no {each!r}"
        opened: dict[int, jetspark.Connection] = {}
        try:
            async with asyncio.timeout(LONG):
                for block in blocks(ROOT / self.name, "python"):
                    for old, new in self.replaced.items():
                        block = block.replace(old, new)  # noqa: PLW2901
                    await self._run_block(block, names, opened)
        finally:
            for connection in opened.values():
                await connection.close()

    async def _run_block(self, block: str, names: Names, opened: dict[int, jetspark.Connection]) -> None:
        for statement in ast.parse(block).body:
            source = ast.get_source_segment(block, statement) or ""
            for beginning, prepare in self.before.items():
                if source.startswith(beginning):
                    await prepare(names)
            code = compile(
                ast.Module([statement], []), self.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            outcome = eval(code, names)
            if inspect.isawaitable(outcome):
                await outcome
            connection = names.get("nc")
            if isinstance(connection, jetspark.Connection):
                opened[id(connection)] = connection
            if self.afterwards is not None:
                await self.afterwards(names)
