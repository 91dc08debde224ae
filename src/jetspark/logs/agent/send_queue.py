"""The send queue of an agent, and the positions that follow from its acknowledgements.

Lines of all files go through one queue, in order. When the stream has stored everything up to a message, each
file is stored up to its last line before that message. Lines that the stream is known to have are not sent.
"""

from __future__ import annotations

import bisect
import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.logs.agent.file import TailedFile, tail_of
from jetspark.logs.agent.journal import Journal
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.stored_ids import StoredIds
from jetspark.logs.format.line import Line

__all__ = ["SendQueue", "Source"]

#: Seconds that the publisher retries a message, through reconnects and elections. It must outlast any outage,
#: because lines in flight may no longer be in their file.
_FOREVER: Final = 30 * 86400.0

#: A source of lines that has a position.
Source: TypeAlias = TailedFile | Journal


class _Piece(NamedTuple):
    """Lines of one file that were sent together."""

    lines: Sequence[Line]
    #: For each line, the number of the message whose acknowledgement covers it.
    numbers: Sequence[int]
    #: The file; None for standard input. Where the piece begins in it, the bytes before that, its own bytes.
    file: Source | None
    offset: int
    tail: bytes
    data: bytes
    #: Ids that were not sent because the stream has them.
    skipped: Sequence[str]
    #: When it was sent, in seconds since 1970.
    sent: float


class SendQueue:
    """Publishes lines, and keeps them until the stream has stored them. A restart keeps the counts."""

    def __init__(self, js: JetStream, options: ShipOptions, known: StoredIds) -> None:
        self._js = js
        self._options = options
        self._publisher = self._new_publisher()
        self._stored_ids = known
        #: Whether the next line is sent alone.
        self._careful = False
        self._sending = False
        self._pieces: deque[_Piece] = deque()
        self.lines = 0
        self.bytes = 0
        # Duplicates of earlier publishers.
        self._duplicates = 0
        #: Lines that were not sent because the stream has them.
        self.skipped = 0
        #: Whether lines were stored since the agent set this to False.
        self.progressed = False

    @property
    def in_flight(self) -> int:
        return self._publisher.published - self._publisher.stored

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight or about to be sent."""
        return not (self.in_flight or self._sending)

    @property
    def duplicates(self) -> int:
        return self._duplicates + self._publisher.duplicates + self.skipped

    @property
    def since(self) -> float | None:
        """When the oldest line that is not stored was sent; None if all are stored."""
        return self._pieces[0].sent if self._pieces else None

    async def send(
        self, lines: Sequence[Line], messages: Sequence[Outgoing], file: Source | None, data: bytes
    ) -> None:
        """Send lines, whose bytes in `file` are `data`. Waits for room in the queue. Raises like `check`."""
        self._sending = True
        try:
            if self._careful:
                for number, line in enumerate(lines):
                    one, data = data[: line.size], data[line.size :]
                    await self._send(lines[number : number + 1], messages[number : number + 1], file, one)
                    if self._publisher.published:
                        await self._publisher.settled(_FOREVER)
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
        self, lines: Sequence[Line], messages: Sequence[Outgoing], file: Source | None, data: bytes
    ) -> None:
        offset, tail = (file.offset, file.tail) if file is not None else (0, b"")
        if file is not None:
            file.advance(data)
        first = self._publisher.published + 1
        numbers: Sequence[int] = range(first, first + len(messages))
        skipped: Sequence[str] = ()
        if self._stored_ids.ids:
            is_new = [message.msg_id not in self._stored_ids.ids for message in messages]
            numbers = list(itertools.accumulate(is_new, initial=first - 1))[1:]
            skipped = [message.msg_id for message, new in zip(messages, is_new, strict=True) if not new]
            messages = [message for message, new in zip(messages, is_new, strict=True) if new]
            self.skipped += len(skipped)
        self._pieces.append(_Piece(lines, numbers, file, offset, tail, data, skipped, time.time()))
        if messages:
            await self._publisher.send(messages)

    def check(self) -> None:
        """Raise `PublishError` and others if the stream rejected a message."""
        self._publisher.check()

    async def quiet(self, timeout: float) -> bool:
        """Wait until nothing is in flight. Returns False after `timeout` seconds."""
        return await self._publisher.settled(timeout)

    def settle(self) -> None:
        """Advance the positions past all stored lines."""
        stored, pieces = self._publisher.stored, self._pieces
        while pieces and pieces[0].numbers[-1] <= stored:
            piece = pieces.popleft()
            self._store(piece, len(piece.lines))
            self._stored_ids.discard(piece.skipped)

    def _store(self, piece: _Piece, number: int) -> _Piece:
        """Advance past the first `number` lines of a piece, and return the rest of it."""
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
        """Drop the messages in flight, after advancing the positions to the last stored line."""
        self._publisher.abandon()
        self.settle()
        if self._pieces:
            whole = bisect.bisect_right(self._pieces[0].numbers, self._publisher.stored)
            if whole:
                self._pieces[0] = self._store(self._pieces[0], whole)

    def restart(self) -> None:
        """Begin anew after `abandon`, without the lines that are not stored.

        The first line is sent alone, and its acknowledgement awaited. Otherwise a full stream could keep
        rejecting a large line and storing the small ones after it.
        """
        self._duplicates += self._publisher.duplicates
        self._publisher = self._new_publisher()
        self._pieces.clear()
        self._careful = True

    def _new_publisher(self) -> BulkPublisher:
        options = self._options
        return BulkPublisher(self._js.api, options.window, max_bytes=options.window_bytes, timeout=_FOREVER)
