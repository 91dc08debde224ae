"""Publishing in bulk: for code that has many messages at hand and wants one answer for all of them.

Messages are given with their header blocks made, and there is no future for each: they are counted, and the
first that fails is told. What is under way is bounded in messages and in bytes. Everything else, repeating
above all, is the work of `in_flight.py`, as it is for `Publisher`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.core.message import too_large
from jetspark.errors import Timeout
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.ack_window import Window
from jetspark.jetstream.publish.in_flight import Flight
from jetspark.wire import encode
from jetspark.wire.subjects import check_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["BulkPublisher", "Outgoing"]

#: How many messages are added before the loop turns and acknowledgements are read.
_TURN: Final = 256


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to publish. It holds text and bytes, so it is none of the collector's work."""

    subject: str
    msg_id: str
    #: The header block as it goes on the wire, with `Nats-Msg-Id` in it.
    block: bytes
    data: bytes


class BulkPublisher:
    """Publishes with up to `max_pending` messages, and about `max_bytes` of them, under way.

    Made in the event loop. `finish` or `abandon` must be called in the end.
    """

    def __init__(self, api: API, max_pending: int, *, max_bytes: int, timeout: float) -> None:
        self._connection = api.connection
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._window = Window(max_pending, 0, ack_timeout=5.0)
        self._flight = Flight(api, self._window, timeout=timeout)
        # What was sent: the number of the last message of each piece, and its bytes.
        self._pieces: deque[tuple[int, int]] = deque()
        self._bytes = 0
        # Where acknowledgements go that nobody waits for: it has an outcome already.
        self._nobody: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()
        self._nobody.cancel()

    @property
    def acked(self) -> int:
        """How many messages the stream has."""
        return self._flight.acked

    @property
    def published(self) -> int:
        """How many messages were taken, whatever came of them. The next one has the number after this."""
        return self._flight.published

    @property
    def stored(self) -> int:
        """How many messages, counted from the first, the stream has without exception: up to and with this
        number nothing is under way and nothing has failed.
        """
        oldest = self._window.oldest() or self._flight.published + 1
        return min(oldest, self._flight.lowest_failed or oldest) - 1

    @property
    def duplicates(self) -> int:
        """How many of them it had already."""
        return self._flight.duplicates

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Publish messages; returns when the last one is under way.

        Raises `PublishError` as soon as one has failed, `MaxPayloadError`, and `Timeout` when nothing is
        acknowledged for too long.
        """
        for start in range(0, len(messages), _TURN):
            await self._send(messages[start : start + _TURN])
            await asyncio.sleep(0)

    async def _send(self, messages: Sequence[Outgoing]) -> None:
        flight, window = self._flight, self._window
        limit, prefix = self._connection.max_payload, flight.reply_prefix
        nobody = self._nobody
        piece = 0
        for message in messages:
            block, data = message.block, message.data
            size = len(block) + len(data)
            if size > limit:
                raise too_large(size, limit)
            if not (flight.open and window.has_room) or self._bytes + size > self._max_bytes:
                # What was added is a piece: its bytes are to be free again before all of `messages` are sent.
                self._pieces.append((flight.published, piece))
                piece = 0
                await self._room(size)
            token = b"%d" % (flight.published + 1)
            frame = encode.hpub(check_subject(message.subject), prefix + token, block, data)
            flight.add(message.subject, message.msg_id, token, frame, nobody)
            self._bytes += size
            piece += size
        self._pieces.append((flight.published, piece))

    async def _room(self, size: int) -> None:
        flight, window = self._flight, self._window

        def ready() -> bool:
            if flight.ended is not None or flight.first_failed:
                return True
            self._forget_settled()
            # One message always fits, when nothing else is under way.
            fits = self._bytes + size <= self._max_bytes or window.oldest() is None
            return flight.open and window.has_room and fits

        if not await flight.until(ready, self._timeout):
            raise Timeout(
                f"nothing was acknowledged for {self._timeout:g} s",
                hint="The server does not answer, or the connection is down",
            )
        self.check()

    def _forget_settled(self) -> None:
        oldest = self._window.oldest()
        while self._pieces and (oldest is None or self._pieces[0][0] < oldest):
            self._bytes -= self._pieces.popleft()[1]

    async def settled(self, timeout: float) -> bool:
        """Wait until nothing is under way: True, or False after `timeout` seconds."""
        return await self._flight.until(lambda: self._window.oldest() is None, timeout)

    async def finish(self) -> None:
        """Wait for all acknowledgements. Raises `PublishError`, which says by `first` what failed first."""
        try:
            await self._flight.until(lambda: self._window.oldest() is None or bool(self._flight.first_failed))
            self.check()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of what has no answer yet."""
        self._flight.end(None)

    def check(self) -> None:
        """Raise `PublishError` if a message has failed, or what ended the connection."""
        if self._flight.ended is not None:
            raise self._flight.ended.with_traceback(None)
        self._flight.tell_failures()
