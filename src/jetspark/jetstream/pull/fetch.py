"""One fetch: send a request, gather the messages that come, return them as a batch.

A fetch that reconnects asks again for the missing messages. `request.py` says how it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from jetspark.core.connection import Connection
from jetspark.errors import MissedHeartbeat
from jetspark.jetstream.message import delivered
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.request import (
    BatchReceiver,
    Leftover,
    PullTarget,
    RequestState,
    shortened,
)
from jetspark.wire import total_size

__all__ = ["Fetch"]

#: Seconds that a fetch waits for the status of an expired request, after it should have come.
_GRACE: Final = 0.5


class Fetch(BatchReceiver):
    """One request and the messages that it brings."""

    def __init__(self, target: PullTarget, request: PullRequest, *, leftover: Leftover | None = None) -> None:
        super().__init__(target, request.batch or 1, leftover)
        self._request = request
        self._expiry = 0.0

    async def run(self, timeout: float | None = None) -> Batch:
        """Send the request and return the messages, at the latest half a second after it expired.

        `timeout` is for requests without `expires`. Raises an `Error` when the request failed and no message
        had come; otherwise the error is on the batch.
        """
        seconds = self._request.expires or timeout or 0.0
        self._expiry = self._loop.time() + seconds
        if self._leftover is not None:
            await self._leftover.settle(seconds)
            self.frames = self._leftover.take(self._wanted, self._request.max_bytes)
            if len(self.frames) == self._wanted or self._leftover.frames:
                return Batch(self.target.messages(self.frames))
        self.target.check_open()
        self._session.add(self)
        self._send()
        try:
            await self._gather(self._expiry + _GRACE)
        except BaseException:
            self._leave(self.frames)
            raise
        if self._state is RequestState.ENDED:
            self._session.unsubscribe(self)
            self._session.forget(self)
        else:
            self._leave([])
        if self.error is not None and not self.frames:
            raise self.error
        return Batch(self.target.messages(self.frames), self.error)

    async def _gather(self, deadline: float) -> None:
        while self._state is RequestState.OPEN:
            now = self._loop.time()
            due = deadline
            heartbeat = self._request.idle_heartbeat
            if heartbeat and self._session.attached:
                due = min(deadline, self._last_seen + 2 * heartbeat)
                if now >= due and due < deadline:
                    self.error = MissedHeartbeat(
                        f"the server was silent for {2 * heartbeat} s during a fetch"
                    )
                    return
            if now >= due:
                return
            await self._changed.wait(due - now)

    def _send(self) -> None:
        """Ask for the missing messages, for as long as is left; later, when there is no connection now."""
        self._last_seen = now = self._loop.time()
        if not self._session.attached:
            return
        changes: dict[str, object] = {"batch": self._wanted - len(self.frames)}
        if self._request.max_bytes is not None:
            changes["max_bytes"] = left = self._request.max_bytes - total_size(self.frames)
            if left <= 0:
                self._finish(None)
                return
        if self._request.expires is not None:
            remaining = self._expiry - now
            if remaining <= 0:
                self._finish(None)
                return
            changes |= shortened(self._request, remaining)
        self.target.send(self._request.replace(**changes), self.subject_filter)

    # --- for the session

    def disconnected(self) -> None:
        """The request is gone with the connection; the messages that came stay."""
        self._changed.wake()

    def reconnected(self) -> None:
        """Ask again for the missing messages."""
        if self._state is RequestState.OPEN:
            self._send()
            self._changed.wake()


def _fetch_next(connection: Connection, ack_subject: str, expires: float) -> Awaitable[JetStreamMsg | None]:
    target = PullTarget(connection, ack_subject, AckPolicy.EXPLICIT, verb=delivered.NEXT + b" ")
    return _first(Fetch(target, PullRequest(batch=1, expires=expires)))


async def _first(fetch: Fetch) -> JetStreamMsg | None:
    batch = await fetch.run()
    return batch[0] if batch else None


delivered.fetch_next = _fetch_next
