"""One fetch: send a request, gather the messages that arrive, return them as a batch.

A fetch asks again for the missing messages when the connection is back, when its request got lost in an
election, when it lost its pin, and when it waits longer than the consumer lets one request wait.
`receiver.py` says how it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable

from jetspark.core.connection import Connection
from jetspark.errors import MissedHeartbeat
from jetspark.jetstream.message import delivered
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.status import OnFetch, Status
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.bounds import Bounds
from jetspark.jetstream.pull.pin import Pin
from jetspark.jetstream.pull.receiver import BatchReceiver, Leftover, RequestState
from jetspark.jetstream.pull.request import PullTarget, shortened
from jetspark.wire import total_size

__all__ = ["Fetch"]


class Fetch(BatchReceiver):
    """One request and the messages that it brings."""

    def __init__(
        self,
        target: PullTarget,
        request: PullRequest,
        *,
        leftover: Leftover | None = None,
        bounds: Bounds | None = None,
        pin: Pin | None = None,
    ) -> None:
        self._bounds = Bounds() if bounds is None else bounds
        self._request = self._bounds.fit(request)
        super().__init__(target, self._request.batch or 1, leftover)
        self.pin = pin
        # The request that was sent last, and whether it expires before the fetch does.
        self._sent = self._request
        self._cut_short = False
        self._expiry = 0.0

    async def run(self, timeout: float | None = None) -> Batch:
        """Send the request and return the messages, at the latest half a second after it expired.

        `timeout` is for requests without `expires`. Raises an `Error` when the request failed and no message
        had arrived; otherwise the error is on the batch.
        """
        seconds = self._request.expires or timeout or 0.0
        self._expiry = self._loop.time() + seconds
        if self._leftover is not None:
            await self._leftover.settle(seconds)
            self.frames = self._leftover.take(self._wanted, self._request.max_bytes)
            if len(self.frames) == self._wanted or self._leftover.frames:
                return Batch(self.target.messages(self.frames))
        self.target.check_open()
        self._deadline = self._expiry + self.target.timing.fetch_grace
        await self._receive()
        if self.error is not None and not self.frames:
            raise self.error
        return Batch(self.target.messages(self.frames), self.error)

    async def _on_silence(self) -> bool:
        heartbeat = self._request.idle_heartbeat
        if heartbeat is None:
            return await super()._on_silence()
        self.error = MissedHeartbeat(f"the server was silent for {2 * heartbeat} s during a fetch")
        return False

    def _ask_again(self) -> None:
        """Ask for the missing messages, for the time that is left; without a connection, later."""
        self._last_seen = now = self._loop.time()
        if not self._session.attached:
            return
        changes: dict[str, object] = {"batch": self._wanted - len(self.frames)}
        if self.pin is not None:
            changes["id"] = self.pin.id
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
            expires = min(remaining, self._bounds.expires or remaining)
            self._cut_short = expires < remaining
            changes |= {"idle_heartbeat": self._heartbeat(expires)} | shortened(self._request, expires)
        self._sent = self._request.replace(**changes)
        self._expect(self._sent)
        self.target.send(self._sent, self.subject_filter)

    def _on_status(self, status: Status, received: int) -> None:
        if self._state is RequestState.OPEN and self._continues(status):
            self._ask_again()
            return
        self._bounds.learn(status.exceeded, self._sent)
        super()._on_status(status, received)

    def _continues(self, status: Status) -> bool:
        """Whether the fetch continues with another request after this status."""
        sent = self._sent
        if status.on_fetch is OnFetch.UNPIN and self.pin is not None and sent.id is not None:
            self.pin.lost(sent.id)
            return True
        return status.on_fetch is OnFetch.EXPIRED and self._cut_short and self._loop.time() < self._expiry

    # --- for the session

    def disconnected(self) -> None:
        """The request is lost with the connection; the messages that arrived stay."""
        self._changed.wake()

    def reconnected(self) -> None:
        """Ask again for the missing messages."""
        if self._state is RequestState.OPEN:
            self._ask_again()
            self._changed.wake()


def _fetch_next(connection: Connection, ack_subject: str, expires: float) -> Awaitable[JetStreamMsg | None]:
    metadata = parse_metadata(ack_subject.encode("utf-8", "surrogateescape"))
    names = f"{metadata.stream}.{metadata.consumer}".encode("utf-8", "surrogateescape")
    target = PullTarget(connection, ack_subject, AckPolicy.EXPLICIT, delivered.NEXT + b" ", names)
    return _first(Fetch(target, PullRequest(batch=1, expires=expires)))


async def _first(fetch: Fetch) -> JetStreamMsg | None:
    batch = await fetch.run()
    return batch[0] if batch else None


delivered.fetch_next = _fetch_next
