"""A line of a log: what the agent reads and a message carries. No I/O."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Line"]


class Line(NamedTuple):
    """A line, or a piece of one that was too long."""

    #: Where it begins in the file.
    offset: int
    #: Without the line feed. A carriage return stays.
    data: bytes
    #: Whether the line continues in the next piece.
    cut: bool = False
    #: Whether it ended with a line feed. One without may be longer when it is read again.
    ended: bool = True

    @property
    def size(self) -> int:
        """Its bytes in the file."""
        return len(self.data) + (self.ended and not self.cut)
