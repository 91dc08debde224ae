"""What an agent has under way, and what that means for the files it came from.

Lines of many files go out in one row. When the stream has everything up to a place in that row, each file is
stored up to its last line before it. Lines that the stream is known to have are not sent again.
"""

from __future__ import annotations

import bisect
import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.logs.agent.file import TailedFile, tail_of
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.split import Line
from jetspark.logs.agent.stored_ids import StoredIds

__all__ = ["Outbound"]

#: Seconds. A publisher gives no message up before: it repeats, through reconnects and elections. Lines that
#: are under way may be gone from their file, so they must not be given up because a server is away.
_FOR_EVER: Final = 30 * 86400.0


class _Piece(NamedTuple):
    """Lines of one file that were sent together."""

    lines: Sequence[Line]
    #: For each line the number of the last message that must be stored for it to be.
    numbers: Sequence[int]
    #: The file; None for standard input. Where the piece begins in it, the bytes before that, its own bytes.
    file: TailedFile | None
    offset: int
    tail: bytes
    data: bytes
    #: Ids that were not sent, because the stream has them.
    skipped: Sequence[str]
    #: When it was sent, in seconds since 1970.
    sent: float


class Outbound:
    """A row of lines on their way to the stream.

    A `careful` one, after a row that was refused, sends a single line and waits until it is taken: else a
    stream that is full would take the small ones behind it again and again.
    """

    def __init__(
        self, js: JetStream, options: ShipOptions, known: StoredIds, *, careful: bool = False
    ) -> None:
        self._publisher = BulkPublisher(
            js.api, options.window, max_bytes=options.window_bytes, timeout=_FOR_EVER
        )
        self._known = known
        self._careful = careful
        self._sending = False
        self._pieces: deque[_Piece] = deque()
        self.lines = 0
        self.bytes = 0
        #: How many lines the stream had, and were not sent.
        self.skipped = 0
        #: Whether more is stored than when somebody last set it to False.
        self.progressed = False

    @property
    def under_way(self) -> int:
        """How many messages have no answer yet."""
        return self._publisher.published - self._publisher.stored

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, or about to be."""
        return not (self.under_way or self._sending)

    @property
    def duplicates(self) -> int:
        """How many the stream had already."""
        return self._publisher.duplicates + self.skipped

    @property
    def since(self) -> float | None:
        """When the first of what is not stored was sent; None when everything is."""
        return self._pieces[0].sent if self._pieces else None

    async def send(
        self, lines: Sequence[Line], messages: Sequence[Outgoing], file: TailedFile | None, data: bytes
    ) -> None:
        """Send lines as messages, `data` being their bytes in `file`; waits for room.

        Raises `PublishError` and others when the stream does not take them.
        """
        self._sending = True
        try:
            if self._careful:
                for number, line in enumerate(lines):
                    one, data = data[: line.size], data[line.size :]
                    await self._send(lines[number : number + 1], messages[number : number + 1], file, one)
                    if self._publisher.published:
                        await self._publisher.settled(_FOR_EVER)
                        self._publisher.check()
                        self._careful = False
                        lines, messages = lines[number + 1 :], messages[number + 1 :]
                        break
                else:
                    return
            if lines:
                await self._send(lines, messages, file, data)
        finally:
            self._sending = False

    async def _send(
        self, lines: Sequence[Line], messages: Sequence[Outgoing], file: TailedFile | None, data: bytes
    ) -> None:
        offset, tail = (file.offset, file.tail) if file is not None else (0, b"")
        if file is not None:
            file.advance(data)
        first = self._publisher.published + 1
        numbers: Sequence[int] = range(first, first + len(messages))
        skipped: Sequence[str] = ()
        if self._known.ids:
            is_new = [message.msg_id not in self._known.ids for message in messages]
            numbers = list(itertools.accumulate(is_new, initial=first - 1))[1:]
            skipped = [message.msg_id for message, new in zip(messages, is_new, strict=True) if not new]
            messages = [message for message, new in zip(messages, is_new, strict=True) if new]
            self.skipped += len(skipped)
        self._pieces.append(_Piece(lines, numbers, file, offset, tail, data, skipped, time.time()))
        if messages:
            await self._publisher.send(messages)

    def check(self) -> None:
        """Raise `PublishError` and others when the stream did not take something."""
        self._publisher.check()

    async def quiet(self, timeout: float) -> bool:
        """Wait until nothing is under way: True, or False after `timeout` seconds."""
        return await self._publisher.settled(timeout)

    def settle(self) -> None:
        """Note what is stored by now."""
        stored, pieces = self._publisher.stored, self._pieces
        while pieces and pieces[0].numbers[-1] <= stored:
            piece = pieces.popleft()
            self._store(piece, len(piece.lines))
            self._known.discard(piece.skipped)

    def _store(self, piece: _Piece, number: int) -> _Piece:
        """So many lines of a piece are stored; the rest of it."""
        whole = piece.file is not None and number == len(piece.lines)
        size = len(piece.data) if whole else sum(line.size for line in piece.lines[:number])
        offset, tail = piece.offset + size, tail_of(piece.tail, piece.data[:size])
        if piece.file is not None:
            piece.file.store(offset, tail)
        self.lines += number
        self.bytes += size
        self.progressed = True
        return piece._replace(
            lines=piece.lines[number:],
            numbers=piece.numbers[number:],
            offset=offset,
            tail=tail,
            data=piece.data[size:],
        )

    async def finish(self) -> None:
        """Wait until everything is stored. Raises `PublishError`."""
        try:
            await self._publisher.finish()
        finally:
            self.settle()

    def abandon(self) -> None:
        """Let go of what is under way, after what is stored was noted, to the line."""
        self._publisher.abandon()
        self.settle()
        if self._pieces:
            whole = bisect.bisect_right(self._pieces[0].numbers, self._publisher.stored)
            if whole:
                self._pieces[0] = self._store(self._pieces[0], whole)
