"""A small plot as a PNG file, with nothing but zlib: lines over time, one panel each."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["Panel", "write_plot"]

_WIDTH: Final = 720
_HEIGHT: Final = 180
_MARGIN: Final = 12
_WHITE: Final = (255, 255, 255)
_GRID: Final = (225, 228, 232)

Color = tuple[int, int, int]
#: Seconds and values of a line, and its colour.
Panel = tuple[Sequence[tuple[float, float]], Color]


class _Canvas:
    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._pixels = bytearray(bytes(_WHITE) * (width * height))

    def dot(self, x: int, y: int, color: Color) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            at = (y * self.width + x) * 3
            self._pixels[at : at + 3] = bytes(color)

    def line(self, start: tuple[int, int], end: tuple[int, int], color: Color) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step // steps
            y = start[1] + (end[1] - start[1]) * step // steps
            self.dot(x, y, color)
            self.dot(x, y + 1, color)

    def png(self) -> bytes:
        stride = self.width * 3
        rows = b"".join(b"\0" + self._pixels[row * stride : (row + 1) * stride] for row in range(self.height))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_plot(path: Path, panels: Sequence[Panel]) -> None:
    """Draw panels below each other, all over the same time; each from 0 to its largest value."""
    canvas = _Canvas(_WIDTH, _HEIGHT * len(panels))
    last = max((points[-1][0] for points, _ in panels if points), default=0.0) or 1.0
    for index, (points, color) in enumerate(panels):
        top, bottom = index * _HEIGHT + _MARGIN, (index + 1) * _HEIGHT - _MARGIN
        for quarter in range(5):
            y = top + (bottom - top) * quarter // 4
            canvas.line((_MARGIN, y), (_WIDTH - _MARGIN, y), _GRID)
        most = max((value for _, value in points), default=0.0) or 1.0
        places = [
            (
                _MARGIN + round((_WIDTH - 2 * _MARGIN) * seconds / last),
                bottom - round((bottom - top) * value / most),
            )
            for seconds, value in points
        ]
        for start, end in itertools.pairwise(places):
            canvas.line(start, end, color)
    path.write_bytes(canvas.png())
