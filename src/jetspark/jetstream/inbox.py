"""A separate inbox: for requests with several answers, or to subjects that contain wildcards.

The multiplexed inbox of `core/request.py` takes one answer per request and refuses such subjects. This one
has one request in flight at a time; late answers to earlier requests are dropped.
"""

from __future__ import annotations

from jetspark.core.connection import Connection
from jetspark.core.receiver import Receiver
from jetspark.core.request import no_responders, not_sent
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, ConnectionLost, Error, Timeout
from jetspark.jetstream.message.stored import is_stored
from jetspark.wire import MsgFrame, hpub, pub
from jetspark.wire.subjects import check_filter

__all__ = ["Inbox"]


class Inbox(Receiver):
    """Subscribed inside its `with` block."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        self._prefix = connection.new_inbox().encode()
        super().__init__(self._session.new_sid(), self._prefix + b".*")
        self._number = 0
        self._reply = b""
        self._asked = ""
        self._frames: list[MsgFrame] = []
        self._error: Error | None = None
        self._changed = Signal()

    def __enter__(self) -> Inbox:
        self._session.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._withdraw()
        self._session.unsubscribe(self)
        self._session.forget(self)

    def ask(self, subject: str, payload: bytes, block: bytes = b"") -> None:
        """Send a request, with a header block if it is given, and forget the previous one.

        Raises `ConnectionClosed`, `UsageError`.
        """
        encoded = check_filter(subject)
        if self._connection.closed:
            raise ConnectionClosed("the connection is closed")
        self._withdraw()
        self._number += 1
        self._reply = b"%b.%d" % (self._prefix, self._number)
        self._asked = subject
        self._frames = []
        self._error = None
        # Written for this session only: after a reconnect the caller no longer waits for the answer.
        frame = hpub(encoded, self._reply, block, payload) if block else pub(encoded, self._reply, payload)
        self._session.outbox.write_control(frame)

    async def take(self, timeout: float) -> list[MsgFrame]:
        """The answers that have arrived since the last call, at least one frame.

        Raises `Timeout` after so many seconds, `NoResponders`, `ConnectionLost` when the connection broke
        after the request, `ConnectionClosed`, `PermissionsViolation`.
        """
        while not self._frames:
            if self._error is not None:
                raise self._error
            if not await self._changed.wait(timeout) and not self._frames:
                if self._withdraw():
                    raise not_sent(self._asked, timeout)
                raise Timeout(f"no answer on {self._asked!r} within {timeout:.3g} s")
        frames, self._frames = self._frames, []
        return frames

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Keep the answers to the latest request."""
        reply = self._reply
        if frames[0].subject != reply or frames[-1].subject != reply:
            frames = [frame for frame in frames if frame.subject == reply]
            if not frames:
                return
        error = no_responders(frames[0], self._asked)
        if error is not None and not is_stored(frames[0].header):
            self._fail(error)
            return
        self._frames += frames
        self._changed.wake()

    def disconnected(self) -> None:
        """The request will not be answered, or not completely."""
        self._fail(ConnectionLost(f"the connection broke while waiting for the answer on {self._asked!r}"))

    def publish_refused(self, subject: str, error: Error) -> None:
        """The server does not permit the request."""
        if subject == self._asked:
            self._fail(error)

    def closed(self, error: Error | None) -> None:
        """No more answers will arrive."""
        self._fail(error or ConnectionClosed("the connection was closed during a request"))

    def _withdraw(self) -> bool:
        """Drop the request if it waits for the connection: nobody waits for its answer any more."""
        return bool(self._reply) and self._session.outbox.withdraw(self._reply)

    def _fail(self, error: Error) -> None:
        self._error = error
        self._changed.wake()
