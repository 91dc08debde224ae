"""Patterns as Java regular expressions: those of the formats, and those of the user. Pure.

Lines are untrusted. Repetitions in the patterns of the formats are possessive (`*+`), because Java's matcher
recurses for everything that it may have to backtrack over, and a long line would overflow its stack.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Pattern", "far_year", "in_python", "numbered", "read_pattern"]


class Pattern(NamedTuple):
    """A pattern without group names, and the number of each named group."""

    text: str
    groups: dict[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.groups)


def numbered(text: str, *names: str) -> Pattern:
    """A pattern whose groups get these names, in order."""
    return Pattern(text, {name: number for number, name in enumerate(names, 1)})


def in_python(text: str) -> str:
    """A pattern of the user with named groups as Python writes them."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", text)


def read_pattern(text: str) -> Pattern:
    """Parse a pattern of the user, with named groups `(?<name>...)` or `(?P<name>...)`.

    Java allows fewer names than Python, so names become numbers. Raises ValueError if Python cannot compile
    it, or if it has no named group.
    """
    python = in_python(text)
    try:
        compiled = re.compile(python)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"invalid regular expression: {error}") from None
    groups = dict(compiled.groupindex)
    if not groups:
        raise ValueError("needs named groups, such as (?<status>[0-9]+)")
    java = re.sub(r"\(\?P=(\w+)\)", lambda found: rf"\{groups[found[1]]}", python)
    java = re.sub(r"\(\?P<\w+>", "(", java)
    return Pattern(f"^(?:{java})$", groups)


def far_year(time_format: str) -> str:
    """A pattern for texts whose year may be out of Spark's range, for which it raises.

    `yyyy` accepts more than four digits after a sign. A `+` or `-` is a sign at the start, or after as many
    digits as the format has before the year; elsewhere it is a separator. Raises ValueError for a year
    without fixed width.
    """
    plain = re.sub(r"'[^']*'", "'", time_format)
    digits = 0
    for year in re.finditer(r"([A-Za-tv-xz]*)((y+)|(u+))", plain.replace("[", "").replace("]", "")):
        if len(year[2]) not in (2, 4):
            raise ValueError(f"must have the year as yyyy or yy, not {year[2]}")
        before = re.finditer(r"(.)\1*", year[1])
        digits = max(digits, sum(max(len(field[0]), 2) for field in before))
    return rf"(?<!\d)\d{{0,{digits}}}[+-]\d{{5}}"
