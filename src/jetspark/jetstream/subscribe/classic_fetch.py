"""Classic fetch: messages that are available now, then those that arrive until the deadline.

`ClassicFetch` gets a batch. Its first request has `no_wait`; the second one waits for the missing messages,
and expires before the client stops listening. The server ends the subscription when everything was sent
(UNSUB with a number); a fetch that leaves earlier unsubscribes, so that nothing is sent to a dead inbox.

`FetchOne` gets a single available message, the common case, through a wildcard inbox that is subscribed
once for many requests.
"""

from __future__ import annotations

import asyncio
from typing import Final

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error
from jetspark.jetstream.message.foreign import Foreign
from jetspark.jetstream.message.status import OnFetch, Status
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.receiver import BatchReceiver, Leftover, RequestState, sort_frames
from jetspark.jetstream.pull.request import PullTarget, no_wait_request
from jetspark.wire import MsgFrame, encode

__all__ = ["ClassicFetch", "FetchOne", "lingering_time"]

#: Seconds by which a waiting request ends before the client stops listening.
_MARGIN: Final = 0.1
_ONE: Final = no_wait_request(1)
#: The effects of statuses that only say that nothing more is available now.
_OVER: Final = (OnFetch.END, OnFetch.EXPIRED)


def lingering_time(seconds: float) -> float:
    """How long a request may wait on the server when the client waits for `seconds`: a little less."""
    return seconds - min(_MARGIN, seconds / 2)


class ClassicFetch(BatchReceiver):
    """The fetch of one batch. With `at_once=False` only the waiting request is sent."""

    def __init__(self, target: PullTarget, wanted: int, leftover: Leftover, *, at_once: bool) -> None:
        super().__init__(target, wanted, leftover)
        self._at_once = at_once
        self._expiry = 0.0
        # Frames that arrived at this subscription, statuses included: the server counts the same way.
        self._received = 0
        # Whether the server ends the subscription after the last message.
        self._limited = False

    async def run(self, deadline: float) -> list[MsgFrame]:
        """Return the messages that arrive until `deadline`, in the loop's time; `error` holds the error."""
        now = self._loop.time()
        self._expiry = now + lingering_time(deadline - now)
        self._deadline = deadline
        await self._receive()
        return self.frames

    def _unsubscribed(self) -> bool:
        return self._limited and len(self.frames) >= self._wanted

    def end(self, error: Error) -> None:
        """Stop waiting, with this error; messages that are on their way are left over."""
        self._deadline = 0.0
        self.error = self.error or error
        self._changed.wake()

    # --- asking

    def _ask_again(self) -> None:
        missing = self._wanted - len(self.frames)
        if self._at_once:
            self._send(no_wait_request(missing))
        else:
            self._linger(missing)

    def _linger(self, missing: int) -> None:
        """Wait for the missing messages; the server ends the subscription after the last."""
        self._at_once = False
        expires = self._expiry - self._loop.time()
        if expires <= 0:
            self._finish(None)
            return
        request = PullRequest(batch=missing, expires=expires, idle_heartbeat=self._heartbeat(expires))
        # The server would count heartbeats as messages.
        if self._session.attached and not request.idle_heartbeat:
            self._limited = True
            self._session.outbox.write_control(encode.unsub(self.sid, self._received + missing))
        self._send(request)

    def _send(self, request: PullRequest) -> None:
        if self._session.attached:  # Otherwise it is sent when the connection is back.
            self._expect(request)
            self.target.send(request, self.subject_filter)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Gather messages; a status may end the request, or be answered with the second one."""
        self._received += len(frames)
        super().deliver(frames)

    def remaining(self) -> int | None:
        """How many messages the server may still send, after a reconnect too."""
        missing = self._wanted - len(self.frames)
        return missing if self._limited and missing > 0 else None

    def reconnected(self) -> None:
        """The request is lost with the connection: ask again for the missing messages."""
        self._received = 0
        if self._state is RequestState.OPEN:
            self._limited = False
            self._linger(self._wanted - len(self.frames))
            self._changed.wake()

    def _on_status(self, status: Status, received: int) -> None:
        if self._at_once and status.on_fetch in _OVER and self._state is RequestState.OPEN:
            # Nothing more is available now (404).
            if self._open <= 0:
                self._room = 0
            if received < self._wanted:
                self._linger(self._wanted - received)
        else:
            super()._on_status(status, received)


class FetchOne(Receiver):
    """Fetches single messages that are available now, for one pull subscription.

    Messages arrive under the subject of their stream, so one request is in flight at a time; the subject of a
    status says which request it answers. Messages that arrive too late are left over for the next fetch.
    """

    def __init__(self, target: PullTarget, leftover: Leftover) -> None:
        connection = target.connection
        self._inbox = connection.new_inbox().encode()
        super().__init__(connection.session.new_sid(), self._inbox + b".*")
        self._target = target
        self._session = connection.session
        self._leftover = leftover
        self._turn = asyncio.Lock()
        self._token = 0
        # The reply subject of the request in flight, empty without one; and the answer.
        self._reply = b""
        self._found: MsgFrame | None = None
        self._error: Error | None = None
        # Why nothing can be asked any more, if so.
        self._refusal: Error | None = None
        # The reply subjects of requests that were not answered, the oldest first; answers may be late.
        self._unanswered: dict[bytes, None] = {}
        self._foreign = Foreign(connection.report)
        self._changed = Signal()
        self._session.add(self)

    async def ask(self, deadline: float) -> MsgFrame | None:
        """A message that is available now; None without one, or without a connection.

        Raises the error of the server or the one that ended it, and `TimeoutError` at `deadline`, in the
        loop's time.
        """
        async with asyncio.timeout_at(deadline), self._turn:
            if self._refusal is not None:
                raise self._refusal
            if not self._session.attached:
                return None
            self._found = self._error = None
            silence = self._target.timing.request_lost if self._target.loses_requests else None
            try:
                self._send()
                while self._reply and self._session.attached:
                    if not await self._changed.wait(silence):
                        self._send()
                found, self._found = self._found, None
            finally:
                self._reply = b""
                if self._found is not None:
                    self._leftover.frames.appendleft(self._found)
            if self._error is not None:
                raise self._error
            return found

    def _send(self) -> None:
        self._token += 1
        self._reply = b"%b.%d" % (self._inbox, self._token)
        self._unanswered[self._reply] = None
        self._target.send(_ONE, self._reply)

    def end(self, error: Error) -> None:
        """Unsubscribe; calls of `ask` that wait raise this error."""
        self._session.unsubscribe(self)
        self._session.forget(self)
        self.closed(error)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Take the first message as the answer: all requests are the same, and ask for one each."""
        messages, statuses = sort_frames(frames, self._target.names, self._foreign)
        if dropped := max(len(messages) - len(self._unanswered), 0):
            self._foreign.drop(dropped, "that were not asked for")
        for frame in messages[: len(self._unanswered)]:
            del self._unanswered[next(iter(self._unanswered))]
            if self._reply:
                self._answered(frame, None)
            else:
                self._leftover.frames.append(frame)
        for frame, status in statuses:
            if status.on_fetch is not OnFetch.CONTINUE:
                self._unanswered.pop(frame.subject, None)
                if frame.subject == self._reply:
                    self._answered(None, status.fetch_error(0))

    def disconnected(self) -> None:
        """The request is lost with the connection."""
        self._changed.wake()

    def closed(self, error: Error | None) -> None:
        """The connection is closed, or the server refused the subscription."""
        self._refusal = error or ConnectionClosed("the connection was closed during a fetch")
        if self._reply:  # Otherwise the answer may be there already.
            self._answered(None, self._refusal)

    def _answered(self, frame: MsgFrame | None, error: Error | None) -> None:
        self._reply = b""
        self._found, self._error = frame, error
        self._changed.wake()
