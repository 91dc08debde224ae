"""The optimised fetch of one message: a wildcard inbox, subscribed once, for one request after the other.

Messages arrive under the subject of their stream, so one request is under way at a time; statuses tell by
their subject which request they answer. What comes too late is kept for the next fetch.
"""

from __future__ import annotations

import asyncio
from typing import Final

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error
from jetspark.jetstream.message.status import OnFetch, classify
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.fetch import Leftover, PullTarget, is_status
from jetspark.wire import MsgFrame

__all__ = ["PullOne"]

_NOW: Final = PullRequest(batch=1, no_wait=True)


class PullOne(Receiver):
    """The request handler of one pull subscription."""

    def __init__(self, target: PullTarget, leftover: Leftover) -> None:
        connection = target.connection
        self._prefix = connection.new_inbox().encode()
        super().__init__(connection.session.new_sid(), self._prefix + b".*")
        self._target = target
        self._session = connection.session
        self._leftover = leftover
        self._turn = asyncio.Lock()
        self._number = 0
        # The request that waits for its answer, and the answer.
        self._reply = b""
        self._found: MsgFrame | None = None
        self._error: Error | None = None
        self._changed = Signal()
        self._session.add(self)

    async def ask(self, deadline: float) -> MsgFrame | None:
        """A message that is there now; None when there is none, or nobody to ask.

        Raises what the server says is wrong, and `TimeoutError` at `deadline`, in the loop's time.
        """
        async with asyncio.timeout_at(deadline), self._turn:
            if not self._session.attached:
                return None
            self._number += 1
            self._reply = b"%b.%d" % (self._prefix, self._number)
            self._found = self._error = None
            try:
                self._target.send(_NOW, self._reply)
                while self._reply and self._session.attached:
                    await self._changed.wait(None)
                found, self._found = self._found, None
            finally:
                self._reply = b""
                if self._found is not None:
                    self._leftover.frames.appendleft(self._found)
            if self._error is not None:
                raise self._error
            return found

    def end(self, error: Error) -> None:
        """Unsubscribe."""
        self._session.unsubscribe(self)
        self._session.forget(self)
        self.closed(error)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Whatever message comes first is the answer: requests are all the same, and ask for one each."""
        for frame in frames:
            if not is_status(frame):
                if self._reply:
                    self._answered(frame, None)
                else:
                    self._leftover.frames.append(frame)
            elif frame.subject == self._reply:
                status = classify(frame.header)
                if status.on_fetch is not OnFetch.CONTINUE:
                    self._answered(None, None if status.on_fetch is OnFetch.END else status.error)

    def disconnected(self) -> None:
        """The request is gone with the connection."""
        self._changed.wake()

    def closed(self, error: Error | None) -> None:
        """Nothing will come any more."""
        self._answered(None, error or ConnectionClosed("the connection was closed during a fetch"))

    def _answered(self, frame: MsgFrame | None, error: Error | None) -> None:
        self._reply = b""
        self._found, self._error = frame, error
        self._changed.wake()
