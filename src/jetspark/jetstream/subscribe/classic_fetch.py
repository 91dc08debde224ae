"""One fetch of a pull subscription: what is there at once, then what comes until the time is up.

The first request has `no_wait`; the second one lingers, asks for what is still missing, and expires before
the client stops listening. The subscription ends by itself when everything has come (UNSUB with a number),
and is ended when the fetch leaves earlier, so that nothing is sent to an inbox that nobody reads.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error
from jetspark.jetstream.message.status import OnFetch, classify
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.fetch import Leftover, PullReceiver, PullTarget, is_status
from jetspark.wire import MsgFrame, encode

__all__ = ["ClassicFetch", "lingering_time"]

#: Seconds by which a lingering request ends before the client does.
_MARGIN: Final = 0.1

_header = attrgetter("header")


def lingering_time(seconds: float) -> float:
    """How long a request may linger when the client waits for `seconds`: a little less."""
    return seconds - min(_MARGIN, seconds / 2)


class ClassicFetch(PullReceiver):
    """A fetch with an inbox of its own. With `at_once=False` only the lingering request is made."""

    def __init__(self, target: PullTarget, wanted: int, leftover: Leftover, *, at_once: bool) -> None:
        connection = target.connection
        super().__init__(target, connection.session.new_sid(), connection.new_inbox().encode())
        self._wanted = wanted
        self._leftover = leftover
        self._at_once = at_once
        self._expiry = 0.0
        #: What came.
        self.frames: list[MsgFrame] = []
        #: What ended it, if not the time.
        self.error: Error | None = None
        self._changed = Signal()
        # Frames that came in over this subscription, statuses too: that is how the server counts.
        self._received = 0
        self._limited = False
        self._over = False
        self._stopped = False
        self._retired = False

    async def run(self, deadline: float) -> list[MsgFrame]:
        """Ask, and return what came until `deadline`, in the loop's time. The error is `error`."""
        now = self._loop.time()
        self._expiry = now + lingering_time(deadline - now)
        self._session.add(self)
        if self._at_once:
            self._send(no_wait=True)
        else:
            self._linger()
        try:
            while not self._over and not self._stopped:
                left = deadline - self._loop.time()
                if left <= 0:
                    break
                await self._changed.wait(left)
        except BaseException:
            self._retire(self.frames)
            raise
        if self._over:
            self._leave()
        else:
            self._retire([])
        return self.frames

    def end(self, error: Error) -> None:
        """Nobody waits any longer; what is on its way goes to the others."""
        self._stopped = True
        self.error = self.error or error
        self._changed.wake()

    @property
    def _missing(self) -> int:
        return self._wanted - len(self.frames)

    # --- asking

    def _send(self, *, no_wait: bool) -> None:
        self._last_seen = self._loop.time()
        if not self._session.attached:
            return  # It is asked when the connection is back.
        expires = None if no_wait else self._expiry - self._loop.time()
        if expires is not None and expires <= 0:
            self._finish(None)
            return
        request = PullRequest(batch=self._missing, no_wait=no_wait, expires=expires)
        self.target.send(request, self.subject_filter)

    def _linger(self) -> None:
        """Wait for what is missing; the server ends the subscription when it has sent that."""
        self._at_once = False
        if self._session.attached:
            self._limited = True
            self._session.outbox.write_control(encode.unsub(self.sid, self._received + self._missing))
        self._send(no_wait=False)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Gather messages; statuses say what comes next."""
        self._last_seen = self._loop.time()
        self._received += len(frames)
        if any(map(_header, frames)):
            frames = self._without_statuses(frames)
        if self._retired:
            self._leftover.frames.extend(frames)
            self._wanted -= len(frames)
            return
        self.frames += frames
        if self._missing <= 0:
            self._finish(None)

    def remaining(self) -> int | None:
        """What the server may still send, after a reconnect too."""
        return self._missing if self._limited and self._missing > 0 else None

    def reconnected(self) -> None:
        """The request is gone with the connection: ask again for what is missing."""
        self._received = 0
        if not self._over and not self._retired:
            self._limited = False
            self._linger()

    def closed(self, error: Error | None) -> None:
        """Nothing will come any more."""
        self._finish(error or ConnectionClosed("the connection was closed during a fetch"))

    def _without_statuses(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        messages: list[MsgFrame] = []
        for frame in frames:
            if not is_status(frame):
                messages.append(frame)
                continue
            status = classify(frame.header)
            if status.on_fetch is OnFetch.CONTINUE or self._retired:
                continue
            received = len(self.frames) + len(messages)
            if status.on_fetch is OnFetch.END and self._at_once:
                # Nothing more is there now (404); what came before it in this read counts already.
                self.frames += messages
                messages = []
                if self._missing > 0:
                    self._linger()
            elif status.on_fetch is OnFetch.END:
                self._finish(None)
            elif status.on_fetch is OnFetch.ERROR or not received:
                self._finish(status.error)
            else:
                self._finish(None)
        return messages

    # --- ending

    def _finish(self, error: Error | None) -> None:
        self._over = True
        self.error = self.error or error
        self._changed.wake()

    def _leave(self) -> None:
        if not (self._limited and self._missing <= 0):
            self._session.unsubscribe(self)
        self._session.forget(self)

    def _retire(self, unread: list[MsgFrame]) -> None:
        """Withdraw the request; keep what is unread or on its way for the next fetch."""
        self._retired = True
        self._wanted -= len(self.frames)
        self._leftover.frames.extendleft(reversed(unread))
        self._leftover.listen(self._withdraw())

    def _expecting(self) -> bool:
        return not self._over and self._wanted > 0
