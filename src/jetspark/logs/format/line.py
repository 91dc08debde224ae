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
    #: Its bytes in the file, if they are not those of `data`: 0 if its lines alternate with those of the next
    #: event, which takes the bytes of both.
    taken: int | None = None

    @property
    def size(self) -> int:
        """Its bytes in the file."""
        if self.taken is not None:
            return self.taken
        return len(self.data) + (self.ended and not self.cut)
