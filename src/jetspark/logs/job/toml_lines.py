"""Where a key stands in the text of a TOML file. Pure.

`tomllib` tells the values and forgets the lines. People want the line, so the text is looked through again:
headers of tables, keys with dots, and keys inside of inline tables, which have the line of the table. Strings
of several lines are blanked first, because they may look like anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["line_of"]

_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY: Final = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
#: Strings of several lines, and everything else that may have quotes.
_STRING: Final = re.compile(
    r"""(\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5})|#[^\n]*|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL
)
_PART: Final = re.compile(r""""[^"]*"|'[^']*'|[^.\s"']+""")


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The number of the line of a key, counted from 1; of the nearest table around it when it has none."""
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    for number, line in enumerate(_STRING.sub(_blank, text).split("\n"), 1):
        if found := _TABLE.match(line):
            table = here = _parts(found[1])
        elif found := _KEY.match(line):
            here = (*table, *_parts(found[1]))
        else:
            continue
        if here == tuple(path[: len(here)]) and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return None if best is None else best[1]


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else '""' + "\n" * found[1].count("\n")


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(key))
