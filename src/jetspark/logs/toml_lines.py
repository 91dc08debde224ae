"""Line numbers of keys in a TOML file, for error messages. Pure.

`tomllib` returns values without lines, so this module scans the text again: table headers, dotted keys, and
keys in inline tables, which get the line of the table. Multi-line strings are blanked first, because their
text may look like keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jetspark.errors import UsageError

__all__ = ["Where", "check_each_once", "line_of", "there_are"]

_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY: Final = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
#: Multi-line strings (group 1), and everything else that may contain quotes.
_STRING: Final = re.compile(
    r"""(\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5})|#[^\n]*|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL
)
_PART: Final = re.compile(r""""[^"]*"|'[^']*'|[^.\s"']+""")


class Where:
    """A file, to make errors that name the line and the key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text

    def error(self, key: str | tuple[str, ...], what: str, hint: str | None = None) -> UsageError:
        """An error about a key: a dotted text, or its parts if one of them may contain a dot."""
        parts = tuple(key.split(".")) if isinstance(key, str) else key
        line = line_of(self._text, parts)
        place = f"{self.path.name}, line {line}" if line is not None else self.path.name
        return UsageError(f"{place}, {'.'.join(parts)}: {what}", hint=hint)


def check_each_once(names: Sequence[str], where: Where, key: str) -> None:
    """Raise `UsageError` if a list at a key has a name twice."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise where.error(key, f"has {name} twice")


def there_are(names: Sequence[str]) -> str:
    return f"There are: {', '.join(names)}"


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line of a key, counted from 1; if the key is missing, the line of the nearest table around it."""
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
