"""Publishing in bulk: many messages, one result for all of them.

The caller builds the header blocks, and there is no future per message: acknowledgements are counted, and the
first failure is raised. The messages in flight are bounded in number and in bytes. `in_flight.py` does
everything else, repeating above all, as it does for `Publisher`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.core.message import too_large
from jetspark.errors import Timeout
from jetspark.jetstream.publish.ack_window import AckWindow
from jetspark.jetstream.publish.in_flight import InFlight
from jetspark.wire import hpub
from jetspark.wire.subjects import encode_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["BulkPublisher", "Outgoing"]

#: How many messages are added before the event loop runs and reads acknowledgements.
_TURN: Final = 256


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to publish. It holds only text and bytes, so the garbage collector skips it."""

    subject: str
    msg_id: str
    #: The encoded header block, which includes `Nats-Msg-Id`.
    block: bytes
    data: bytes


class BulkPublisher:
    """Publishes with up to `max_pending` messages, and about `max_bytes` of them, in flight.

    Create it in the event loop, and call `finish` or `abandon` at the end.
    """

    def __init__(self, api: API, max_pending: int, *, max_bytes: int, timeout: float) -> None:
        self._connection = api.connection
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._window = AckWindow(max_pending, 0, ack_timeout=5.0)
        self._in_flight = InFlight(api, self._window, timeout=timeout)
        # The chunks that were sent: the number of the last message of each, and its bytes.
        self._chunks: deque[tuple[int, int]] = deque()
        self._bytes = 0

    @property
    def acked(self) -> int:
        """How many messages the stream has."""
        return self._in_flight.acked

    @property
    def published(self) -> int:
        """How many messages were accepted, settled or not. The next one has the number after this."""
        return self._in_flight.published

    @property
    def stored(self) -> int:
        """The number of the message up to which the stream has all messages, itself included."""
        oldest = self._window.oldest() or self._in_flight.published + 1
        return min(oldest, self._in_flight.lowest_failed or oldest) - 1

    @property
    def duplicates(self) -> int:
        """How many of them the stream had already."""
        return self._in_flight.duplicates

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Publish messages; returns when the last one is in flight.

        Raises `PublishError` as soon as one has failed, `MaxPayloadError`, and `Timeout` when nothing is
        acknowledged for `timeout` seconds.
        """
        for start in range(0, len(messages), _TURN):
            await self._send(messages[start : start + _TURN])
            await asyncio.sleep(0)

    async def _send(self, messages: Sequence[Outgoing]) -> None:
        in_flight, window = self._in_flight, self._window
        limit, prefix = self._connection.max_payload, in_flight.reply_prefix
        chunk = 0
        for message in messages:
            block, data = message.block, message.data
            size = len(block) + len(data)
            if size > limit:
                raise too_large(size, limit)
            if not (in_flight.open and window.has_room) or self._bytes + size > self._max_bytes:
                # End the chunk here, so that its bytes are released before all of `messages` are sent.
                self._chunks.append((in_flight.published, chunk))
                chunk = 0
                await self._room(size)
            reply = b"%b%d" % (prefix, in_flight.published + 1)
            frame = hpub(encode_subject(message.subject), reply, block, data)
            in_flight.add(message.subject, message.msg_id, frame, None)
            self._bytes += size
            chunk += size
        self._chunks.append((in_flight.published, chunk))

    async def _room(self, size: int) -> None:
        in_flight, window = self._in_flight, self._window

        def ready() -> bool:
            if in_flight.ended is not None or in_flight.first_failed:
                return True
            oldest = window.oldest()
            while self._chunks and (oldest is None or self._chunks[0][0] < oldest):
                self._bytes -= self._chunks.popleft()[1]
            # One message always fits when nothing else is in flight.
            fits = self._bytes + size <= self._max_bytes or oldest is None
            return in_flight.open and window.has_room and fits

        if not await in_flight.until(ready, self._timeout):
            raise Timeout(
                f"nothing was acknowledged for {self._timeout:g} s",
                hint="The server does not answer, or the connection is down",
            )
        self.check()

    async def settled(self, timeout: float) -> bool:
        """Wait until nothing is in flight: True, or False after `timeout` seconds."""
        return await self._in_flight.until(lambda: self._window.oldest() is None, timeout)

    async def finish(self) -> None:
        """Wait for all acknowledgements. Raises `PublishError`; its `first` is the first failed message."""
        try:
            in_flight, window = self._in_flight, self._window
            await in_flight.until(lambda: window.oldest() is None or bool(in_flight.first_failed))
            self.check()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Stop without waiting for the messages in flight."""
        self._in_flight.end(None)

    def check(self) -> None:
        """Raise `PublishError` if a message has failed, or the error that ended the connection."""
        if self._in_flight.ended is not None:
            raise self._in_flight.ended.with_traceback(None)
        self._in_flight.raise_failures()
