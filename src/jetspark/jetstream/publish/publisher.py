"""The windowed publisher, as users see it: many messages under way at once, none lost silently.

Messages go out in the order of the calls; what has to be repeated goes first (`in_flight.py` does both). What
can still break the order in the stream is a leader that changes with several messages under way: some may be
lost, and later ones stored before they are repeated. Who cannot live with that uses `max_pending=1` or an
expected sequence.

Every message has an id, and is repeated under it. The stream drops duplicates of the last `duplicate_window`
seconds (2 minutes by default): keep `timeout` below that.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from jetspark.core.headers import block_pieces, header_block
from jetspark.core.message import as_bytes, too_large
from jetspark.errors import (
    ConnectionClosed,
    ConnectionDraining,
    Error,
    HeadersNotSupported,
    Timeout,
    UsageError,
)
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.ack_window import Window
from jetspark.jetstream.publish.headers import MSG_ID, Expectations, check_seconds, compose_headers
from jetspark.jetstream.publish.in_flight import Flight
from jetspark.wire import encode
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import check_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["MAX_BUFFERED_BYTES", "Publisher"]

#: What may wait in front of the window by default.
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
#: How many `send` in a row before the loop turns and acknowledgements are read.
_TURN: Final = 256


class Publisher:
    """Publishes with up to `max_pending` messages under way. Made by `js.publisher`; a context manager.

    Leaving the context waits for all acknowledgements, and raises `PublishError` if messages failed. After an
    exception in the body it waits too, and the exception goes on; when the body is cancelled it does not
    wait.

    A message without an answer after `ack_timeout` seconds is published again, likewise after a reconnect and
    while a stream has no leader. It fails `timeout` seconds after the call that published it. Flush before
    closing or draining the connection: what has no answer then fails.
    """

    def __init__(
        self,
        api: API,
        max_pending: int = 4096,
        *,
        timeout: float = 30.0,
        ack_timeout: float = 5.0,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> None:
        check_seconds("timeout", timeout)
        check_seconds("ack_timeout", ack_timeout)
        _check_count("max_pending", max_pending, least=1)
        _check_count("max_buffered_bytes", max_buffered_bytes, least=0)
        connection = api.connection
        if connection.closed:
            raise ConnectionClosed("the connection is closed")
        if not connection.server_info.headers:
            raise HeadersNotSupported("the server does not support headers, so messages could have no ids")
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._window = Window(max_pending, max_buffered_bytes, ack_timeout)
        self._flight = Flight(api, self._window, timeout=timeout)
        self._block_start, self._block_end = block_pieces({MSG_ID: self._flight.id_prefix}, MSG_ID)
        self._sends = 0

    # --- counts

    @property
    def pending(self) -> int:
        """How many messages have no outcome yet."""
        return self._flight.published - self._flight.acked - self._flight.failed

    @property
    def acked(self) -> int:
        """How many messages a stream has, duplicates included."""
        return self._flight.acked

    @property
    def duplicates(self) -> int:
        """How many of them the stream had already; messages that were repeated here may be among them."""
        return self._flight.duplicates

    @property
    def failed(self) -> int:
        """How many messages failed."""
        return self._flight.failed

    def __repr__(self) -> str:
        counts = f"{self.pending} pending, {self.acked} acknowledged, {self.failed} failed"
        return f"<{type(self).__name__} {counts}>"

    # --- publishing

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        """Publish a message and return the future of its acknowledgement, which may be ignored.

        What does not fit into the window waits here, up to `max_buffered_bytes`. A loop that publishes much
        uses `send`. Cancelling the future does not take the message back. Without a `msg_id` the message gets
        one of its own.

        Raises `UsageError` for what cannot be sent, `MaxPayloadError`, `OutboundBufferFull`,
        `ConnectionDraining` and `ConnectionClosed`; nothing was taken then.
        """
        flight = self._flight
        if flight.ended is not None or self._connection.draining:
            raise self._refusal()
        future: asyncio.Future[PubAck] = asyncio.Future(loop=self._loop)
        number = flight.published + 1
        _, msg_id, token, frame = self.frame(number, subject, data, headers, msg_id, expectations)
        flight.add(subject, msg_id, token, frame, future)
        return future

    def frame(  # noqa: PLR0917 - keywords cost a tenth of the rate
        self,
        number: int,
        subject: str,
        data: bytes,
        headers: HeadersLike | None,
        msg_id: str | None,
        expectations: Expectations,
    ) -> tuple[str, str | None, bytes, bytes]:
        """Subject, id, token and bytes of a message; raises what `publish` raises. Safe in threads."""
        flight = self._flight
        token = b"%d" % number
        if headers is None and msg_id is None and not expectations:
            block = b"%b%b%b" % (self._block_start, token, self._block_end)
        else:
            fields = compose_headers(headers, msg_id, expectations)
            msg_id = fields.setdefault(MSG_ID, [flight.id_prefix + token.decode()])[0]
            block = header_block(fields)
        if type(data) is not bytes:
            data = as_bytes(data)
        size = len(block) + len(data)
        if size > self._connection.max_payload:
            raise too_large(size, self._connection.max_payload)
        frame = encode.hpub(check_subject(subject), flight.reply_prefix + token, block, data)
        return subject, msg_id, token, frame

    async def send(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        """Wait for room in the window, then `publish`; returns the future of the acknowledgement.

        A `send` that is cancelled has published nothing. Raises what `publish` raises, and `Timeout` if there
        is no room for `timeout` seconds.
        """
        self._sends += 1
        if self._sends >= _TURN:
            self._sends = 0
            await asyncio.sleep(0)
        window = self._window
        if not self._flight.open or window.waiting or len(window.sent) >= window.max_pending:
            await self._room()
        if headers is None and msg_id is None and not expectations:
            return self.publish(subject, data)  # keywords cost a tenth of the rate
        return self.publish(subject, data, headers=headers, msg_id=msg_id, **expectations)

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything published so far is acknowledged.

        Raises `PublishError` if messages have failed since the last time that it was said, with the first
        error as its cause, and `Timeout` after `timeout` seconds. Without one it takes as long as the last
        message may take.
        """
        if timeout is not None:
            check_seconds("timeout", timeout, least=0.0)
        last = self._flight.published

        def settled() -> bool:
            oldest = self._window.oldest()
            return oldest is None or oldest > last

        if not await self._flight.until(settled, timeout):
            raise Timeout(f"{self.pending} messages are not acknowledged after {timeout} s")
        self._flight.tell_failures()

    async def close(self) -> None:
        """Flush, then release the inbox. Raises as `flush` does. Closing twice does nothing."""
        try:
            await self.flush()
        finally:
            self._flight.end(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            try:
                await self.close()
            except Error as failure:
                error.add_note(str(failure))
        else:
            self._flight.end(None)

    async def _room(self) -> None:
        flight, window = self._flight, self._window

        def ready() -> bool:
            return flight.ended is not None or (flight.open and window.has_room)

        if not await flight.until(ready, self._timeout):
            raise Timeout(
                f"no room in the window of {window.max_pending} messages within {self._timeout} s",
                hint="The server does not acknowledge, or the connection is down",
            )

    def _refusal(self) -> Error:
        ended = self._flight.ended
        return (
            ConnectionDraining("the connection is draining") if ended is None else ended.with_traceback(None)
        )


def _check_count(option: str, value: object, *, least: int) -> None:
    if type(value) is not int or value < least:
        raise UsageError(f"{option} must be a whole number of at least {least}, not {value!r}")
