"""Splits bytes into lines. No I/O.

The cuts depend on the bytes alone, never on how they were read: reading again from the start of a line, or of
a piece of one, gives the same lines at the same offsets.
"""

from __future__ import annotations

from jetspark.logs.format.line import Line

__all__ = ["split_lines"]


def split_lines(data: bytes, offset: int, limit: int, *, final: bool = False) -> tuple[list[Line], int]:
    """The lines of `data`, which begins at `offset`, and how many bytes they take.

    A line longer than `limit` is split into pieces. A last line without a line feed is kept for later, unless
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
        # Keep the last piece, even a full one: it is unknown whether the line continues.
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
