"""The windowed publisher, as users see it: many messages in flight at once, none lost silently.

Messages are sent in the order of the calls, repeated ones first (`in_flight.py` does both). One case can
still break the order in the stream: when the leader changes with several messages in flight, some may be
lost, and later ones stored before the lost ones are repeated. `max_pending=1` or an expected sequence
prevents that.

Every message has an id and is repeated with it. The stream drops duplicates of the last `duplicate_window`
seconds (2 minutes by default): keep `timeout` below that.
"""

from __future__ import annotations

import asyncio
from sys import getrefcount
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack
from weakref import getweakrefcount

from jetspark import errors
from jetspark.core.headers import block_pieces, header_block
from jetspark.core.message import as_bytes, too_large
from jetspark.core.numbers import check_count, check_seconds
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.ack_window import AckWindow, Message
from jetspark.jetstream.publish.headers import MSG_ID, Expectations, compose_headers
from jetspark.jetstream.publish.in_flight import InFlight
from jetspark.wire import hpub, hpub_numbered
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import check_subject, encode_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["MAX_BUFFERED_BYTES", "Publisher"]

#: Bytes that may wait for room in the ack window by default.
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
#: How many calls of `send` in a row before the event loop runs and reads acknowledgements.
_TURN: Final = 256


def _references() -> int:
    """The reference count, as `publish` sees it, of a future that only its message refers to."""
    message = Message(0, "", None, b"", object(), 0.0, 0.0)  # type: ignore[arg-type]
    future = message.future
    return getrefcount(future)


_UNSHARED: Final = _references()


class Publisher:
    """Publishes with up to `max_pending` messages in flight. Made by `js.publisher`; a context manager.

    Leaving the context waits for all acknowledgements, and raises `PublishError` if messages failed. After an
    exception in the body it waits too, then the exception propagates. When the body is cancelled it does not
    wait.

    A message without an answer after `ack_timeout` seconds is published again, likewise after a reconnect and
    while a stream has no leader. It fails `timeout` seconds after the call that published it. Flush before
    closing or draining the connection: messages without an answer fail then.
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
        check_count("max_pending", max_pending)
        check_count("max_buffered_bytes", max_buffered_bytes, least=0)
        connection = api.connection
        if connection.closed:
            raise errors.ConnectionClosed("the connection is closed")
        if not connection.server_info.headers:
            raise errors.HeadersNotSupported("the server does not support headers, which message ids need")
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._window = AckWindow(max_pending, max_buffered_bytes, ack_timeout)
        self._in_flight = InFlight(api, self._window, timeout=timeout)
        self._block_start, self._block_end = block_pieces({MSG_ID: self._in_flight.id_prefix}, MSG_ID)
        #: The most bytes that they make with a number between them.
        self._block_size = len(self._block_start) + 20 + len(self._block_end)
        self._last = Message(0, "", None, b"", None, 0.0, 0.0)
        self._sends = 0

    # --- counts

    @property
    def pending(self) -> int:
        """How many messages are neither acknowledged nor failed."""
        return self._in_flight.published - self._in_flight.acked - self._in_flight.failed

    @property
    def acked(self) -> int:
        """How many messages a stream has, duplicates included."""
        return self._in_flight.acked

    @property
    def duplicates(self) -> int:
        """How many of them the stream had already; messages repeated by this publisher may be among them."""
        return self._in_flight.duplicates

    @property
    def failed(self) -> int:
        """How many messages failed."""
        return self._in_flight.failed

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

        Messages that do not fit into the ack window wait, up to `max_buffered_bytes`. Use `send` in a loop
        that publishes many. Cancelling the future does not cancel the message. Without a `msg_id` the
        publisher generates one.

        Raises `UsageError` for an invalid argument, `MaxPayloadError`, `OutboundBufferFull`,
        `ConnectionDraining` and `ConnectionClosed`; the message was not accepted then.
        """
        if headers is None and msg_id is None and not expectations:
            return self._publish_plain(subject, data)
        self._raise_if_ended()
        number = self._in_flight.published + 1
        msg_id, frame = self.frame(number, subject, data, headers, msg_id, expectations)
        future: asyncio.Future[PubAck] = asyncio.Future(loop=self._loop)
        self._last = self._in_flight.add(subject, msg_id, frame, future)
        return future

    def _publish_plain(self, subject: str, data: bytes) -> asyncio.Future[PubAck]:
        """Publish a message without options: the fast path of `publish` and `send`."""
        in_flight = self._in_flight
        if in_flight.ended is not None or self._connection.draining:
            self._raise_if_ended()
        if not in_flight.scheduled:
            in_flight.schedule()
        number = in_flight.published + 1
        if (
            type(subject) is str
            and type(data) is bytes
            and len(data) + self._block_size <= in_flight.max_payload
        ):
            frame = hpub_numbered(
                encode_subject(subject),
                in_flight.reply_prefix,
                number,
                self._block_start,
                self._block_end,
                data,
            )
        else:
            _, frame = self.frame(number, subject, data, None, None, {})
        # Most callers ignore the future. One that only the last message refers to is taken from it and used
        # again: no caller can ever look at it, and a new one costs as much as all the rest.
        future: asyncio.Future[PubAck] = self._last.future  # type: ignore[assignment] # None is never unshared
        if getrefcount(future) == _UNSHARED and not (
            future._callbacks or future.done() or getweakrefcount(future)
        ):
            self._last.future = None
        else:
            future = asyncio.Future(loop=self._loop)
        self._last = in_flight.add(subject, None, frame, future)
        return future

    def frame(  # noqa: PLR0917 - keywords cost a tenth of the rate
        self,
        number: int,
        subject: str,
        data: bytes,
        headers: HeadersLike | None,
        msg_id: str | None,
        expectations: Expectations,
    ) -> tuple[str | None, bytes]:
        """Id, None for a generated one, and bytes of a message; raises what `publish` raises. Thread-safe."""
        in_flight = self._in_flight
        if headers is None and msg_id is None and not expectations:
            block = b"%b%d%b" % (self._block_start, number, self._block_end)
        else:
            fields = compose_headers(headers, msg_id, expectations)
            msg_id = fields.setdefault(MSG_ID, [f"{in_flight.id_prefix}{number}"])[0]
            block = header_block(fields)
        if type(data) is not bytes:
            data = as_bytes(data)
        size = len(block) + len(data)
        if size > self._connection.max_payload:
            raise too_large(size, self._connection.max_payload)
        return msg_id, hpub(check_subject(subject), b"%b%d" % (in_flight.reply_prefix, number), block, data)

    async def send(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        """Wait for room in the ack window, then `publish`; returns the future of the acknowledgement.

        A cancelled `send` has published nothing. Raises the errors of `publish`, and `Timeout` without
        room for `timeout` seconds.
        """
        self._sends += 1
        if self._sends >= _TURN:
            self._sends = 0
            await asyncio.sleep(0)
        window = self._window
        if not self._in_flight.open or window.waiting or len(window.sent) >= window.max_pending:
            await self._room()
        if headers is None and msg_id is None and not expectations:
            return self._publish_plain(subject, data)
        return self.publish(subject, data, headers=headers, msg_id=msg_id, **expectations)

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything published so far is acknowledged.

        Raises `PublishError` if messages have failed since the last `flush`, with the first error as its
        cause, and `Timeout` after `timeout` seconds. Without a `timeout` it waits until the last message is
        acknowledged or has failed.
        """
        if timeout is not None:
            check_seconds("timeout", timeout, zero=True)
        last = self._in_flight.published

        def settled() -> bool:
            oldest = self._window.oldest()
            return oldest is None or oldest > last

        if not await self._in_flight.until(settled, timeout):
            raise errors.Timeout(f"{self.pending} messages are not acknowledged after {timeout} s")
        self._in_flight.raise_failures()

    async def close(self) -> None:
        """Flush, then release the inbox. Raises as `flush` does. Closing twice does nothing."""
        try:
            await self.flush()
        finally:
            self._in_flight.end(None)

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
            except errors.Error as failure:
                error.add_note(str(failure))
        else:
            self._in_flight.end(None)

    async def _room(self) -> None:
        in_flight, window = self._in_flight, self._window

        def ready() -> bool:
            return in_flight.ended is not None or (in_flight.open and window.has_room)

        if not await in_flight.until(ready, self._timeout):
            raise errors.Timeout(
                f"no room in the ack window of {window.max_pending} messages within {self._timeout} s",
                hint="The server does not acknowledge, or the connection is down",
            )

    def _raise_if_ended(self) -> None:
        if self._in_flight.ended is not None or self._connection.draining:
            raise self._refusal()

    def _refusal(self) -> errors.Error:
        if self._in_flight.ended is None:
            return errors.ConnectionDraining("the connection is draining")
        return self._in_flight.ended.with_traceback(None)
