"""Bytes into lines. No I/O.

Where lines are cut depends on the bytes alone, never on how they were read: whoever reads again from a
place where a line began, or a piece of one, finds the same lines at the same offsets.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Line", "split_lines"]


class Line(NamedTuple):
    """A line, or a piece of one that was too long."""

    #: Where it begins.
    offset: int
    #: Without the line feed. A carriage return stays.
    data: bytes
    #: Whether the line goes on in the next piece.
    cut: bool = False
    #: Whether its line feed was there. One that never had it may be longer when it is read again.
    ended: bool = True

    @property
    def size(self) -> int:
        """Bytes that it takes in its file."""
        return len(self.data) + (self.ended and not self.cut)


def split_lines(data: bytes, offset: int, limit: int, *, final: bool = False) -> tuple[list[Line], int]:
    """The lines of `data`, which begins at `offset`, and how many bytes they take.

    Lines longer than `limit` come in pieces. A last line without a line feed is left for later, unless it is
    `final`.
    """
    end = data.rfind(b"\n")
    lines: list[Line] = []
    add = lines.append
    if end >= 0:
        for text in data[:end].split(b"\n"):
            if len(text) <= limit:
                add(Line(offset, text))
            else:
                _cut(text, offset, limit, lines)
            offset += len(text) + 1
    rest = data[end + 1 :]
    used = end + 1
    if final and rest:
        _cut(rest, offset, limit, lines)
        lines[-1] = lines[-1]._replace(ended=False)
        used = len(data)
    elif len(rest) > limit:
        # The last piece, which may be a whole one, waits: whether the line goes on behind it is not known.
        whole = (len(rest) - 1) // limit * limit
        for start in range(0, whole, limit):
            add(Line(offset + start, rest[start : start + limit], cut=True))
        used += whole
    return lines, used


def _cut(text: bytes, offset: int, limit: int, lines: list[Line]) -> None:
    last = (len(text) - 1) // limit * limit
    lines.extend(
        Line(offset + start, text[start : start + limit], cut=start < last)
        for start in range(0, last + 1, limit)
    )
