"""What an agent has under way, and what that means for the files it came from.

Lines of many files go out in one row. When the stream has everything up to a place in that row, each file is
stored up to its last line before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.jetstream.bulk import BulkPublisher, Outgoing
from jetspark.jetstream.context import JetStream
from jetspark.shipper.options import ShipOptions
from jetspark.shipper.tail import TailedFile

__all__ = ["Outbound"]

#: Seconds. A publisher gives no message up before: it repeats, through reconnects and elections. Lines that
#: are under way may be gone from their file, so they must not be given up because a server is away.
_FOR_EVER: Final = 30 * 86400.0


class _Mark(NamedTuple):
    #: Number of the last message of a piece.
    number: int
    #: The file it is of; None for standard input.
    file: TailedFile | None
    #: Where the next line begins, and the bytes before it.
    offset: int
    tail: bytes
    lines: int
    bytes: int


class Outbound:
    """A row of lines on their way to the stream."""

    def __init__(self, js: JetStream, options: ShipOptions) -> None:
        self._publisher = BulkPublisher(
            js.api, options.window, max_bytes=options.window_bytes, timeout=_FOR_EVER
        )
        self._marks: deque[_Mark] = deque()
        self.lines = 0
        self.bytes = 0
        #: Whether more is stored than when somebody last set it to False.
        self.progressed = False

    @property
    def under_way(self) -> int:
        """How many messages have no answer yet."""
        return self._publisher.published - self._publisher.stored

    @property
    def duplicates(self) -> int:
        """How many the stream had already."""
        return self._publisher.duplicates

    async def send(self, messages: Sequence[Outgoing], file: TailedFile | None, data: bytes) -> None:
        """Send the messages that `data`, the next bytes of `file`, are; waits for room.

        Raises `PublishError` and others when the stream does not take them.
        """
        if file is not None:
            file.advance(data)
        number = self._publisher.published + len(messages)
        offset, tail = (file.offset, file.tail) if file is not None else (0, b"")
        self._marks.append(_Mark(number, file, offset, tail, len(messages), len(data)))
        await self._publisher.send(messages)

    def check(self) -> None:
        """Raise `PublishError` and others when the stream did not take something."""
        self._publisher.check()

    async def quiet(self, timeout: float) -> None:
        """Wait until nothing is under way, at most `timeout` seconds."""
        await self._publisher.settled(timeout)

    def settle(self) -> None:
        """Note what is stored by now."""
        stored, marks = self._publisher.stored, self._marks
        while marks and marks[0].number <= stored:
            mark = marks.popleft()
            if mark.file is not None:
                mark.file.store(mark.offset, mark.tail)
            self.lines += mark.lines
            self.bytes += mark.bytes
            self.progressed = True

    async def finish(self) -> None:
        """Wait until everything is stored. Raises `PublishError`."""
        try:
            await self._publisher.finish()
        finally:
            self.settle()

    def abandon(self) -> None:
        """Let go of what is under way, after what is stored was noted."""
        self.settle()
        self._publisher.abandon()
