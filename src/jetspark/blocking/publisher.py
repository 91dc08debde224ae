"""The windowed publisher, as blocking programs see it. Twin of `jetstream/publish/publisher.py`.

Threads encode and number messages under a lock; the loop moves them into the window, many at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from sys import getrefcount
from typing import TYPE_CHECKING, Final, Self, Unpack
from weakref import getweakrefcount

import msgspec

from jetspark.blocking.mirror import Twin, calls, mirrors
from jetspark.errors import Error, OutboundBufferFull, Timeout
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish import publisher as aio
from jetspark.jetstream.publish.headers import Expectations
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Publisher"]


class _Acknowledgement(Future[PubAck]):
    """A future that cannot be cancelled, like its message. Its callbacks run in the thread for events."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self._bridge = bridge
        #: Whether it has callbacks.
        self.watched = False

    def cancel(self) -> bool:
        return False

    def add_done_callback(self, fn: Callable[[Future[PubAck]], object]) -> None:
        self.watched = True
        super().add_done_callback(self._bridge.aside("fn", fn))


class _Submitted(msgspec.Struct, gc=False):
    subject: str
    msg_id: str | None
    frame: bytes
    #: None if no caller has it.
    future: _Acknowledgement | None


def _references() -> int:
    """The reference count, as `publish` sees it, of a future that only its message refers to."""
    message = _Submitted("", None, b"", object())  # type: ignore[arg-type]
    future = message.future
    return getrefcount(future)


_UNSHARED: Final = _references()


@mirrors(aio.Publisher)
class Publisher(Twin[aio.Publisher]):
    def __init__(self, bridge: Bridge, inner: aio.Publisher) -> None:
        super().__init__(bridge, inner)
        self._in_flight = inner._in_flight
        self._lock = threading.Lock()
        # Numbered messages, in order, that the loop has not taken yet.
        self._submitted: list[_Submitted] = []
        self._submitted_bytes = 0
        self._published = 0
        self._scheduled = False

    @property
    def pending(self) -> int:
        return self._published - self._inner.acked - self._inner.failed

    @property
    def acked(self) -> int:
        return self._inner.acked

    @property
    def duplicates(self) -> int:
        return self._inner.duplicates

    @property
    def failed(self) -> int:
        return self._inner.failed

    # --- publishing

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> Future[PubAck]:
        if not self._bridge.portal.alive:
            raise self._bridge.portal.refusal()
        in_flight = self._in_flight
        with self._lock:
            if in_flight.ended is not None or self._bridge.connection.draining:
                raise self._inner._refusal()
            number = self._published + 1
            msg_id, frame = self._inner.frame(number, subject, data, headers, msg_id, expectations)
            if number - in_flight.acked - in_flight.failed > in_flight.window.max_pending:
                self._check_room(len(frame))
            future = self._future()
            self._submitted.append(_Submitted(subject, msg_id, frame, future))
            self._submitted_bytes += len(frame)
            self._published = number
            wake = not self._scheduled
            self._scheduled = True
        if wake:
            self._bridge.portal.post(self._move)
        return future

    def send(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> Future[PubAck]:
        in_flight = self._in_flight
        if self._published - in_flight.acked - in_flight.failed >= in_flight.window.max_pending:
            self._bridge.run(self._room())
        if headers is None and msg_id is None and not expectations:
            return self.publish(subject, data)  # keywords cost a tenth of the rate
        return self.publish(subject, data, headers=headers, msg_id=msg_id, **expectations)

    flush = calls(aio.Publisher.flush)
    close = calls(aio.Publisher.close)

    def __enter__(self) -> Self:
        return self

    __exit__ = calls(aio.Publisher.__aexit__)

    def _future(self) -> _Acknowledgement:
        """A future for the next message: that of the last one, if no caller can ever look at it there.

        The loop must not have taken the last message: it could settle the future now. See also the twin.
        """
        if self._submitted:
            last = self._submitted[-1]
            future = last.future
            if (
                future is not None
                and getrefcount(future) == _UNSHARED
                and not (future.watched or getweakrefcount(future))
            ):
                last.future = None
                return future
        return _Acknowledgement(self._bridge)

    def _check_room(self, size: int) -> None:
        """Bound the bytes beyond the window, in the loop and here."""
        window = self._in_flight.window
        waiting = window.waiting_bytes + self._submitted_bytes
        if waiting + size > window.max_buffered_bytes:
            raise OutboundBufferFull(
                f"{waiting} bytes wait for the ack window, limit {window.max_buffered_bytes}",
                hint="Use `send(...)`, which waits for room, or raise `max_buffered_bytes`",
            )

    # --- in the loop

    def _move(self) -> None:
        with self._lock:
            submitted, self._submitted = self._submitted, []
            self._submitted_bytes = 0
            self._scheduled = False
        in_flight = self._in_flight
        for message in submitted:
            try:
                if in_flight.ended is not None:
                    raise in_flight.ended
                in_flight.add(message.subject, message.msg_id, message.frame, message.future)
            except Error as error:
                in_flight.reject(message.subject, message.future, error)

    async def _room(self) -> None:
        # Wait for half the window, so that a thread faster than the server does not cross for each message.
        window = self._in_flight.window
        enough = window.max_pending // 2
        in_flight = self._in_flight

        def ready() -> bool:
            return in_flight.ended is not None or self.pending <= enough

        if not await in_flight.until(ready, self._inner._timeout):
            raise Timeout(
                f"no room in the ack window of {window.max_pending} messages within {self._inner._timeout} s",
                hint="The server does not acknowledge, or the connection is down",
            )
