"""One pull: ask once, gather what comes, give it back as a list.

Every fetch has an inbox of its own, because messages arrive under the subject of the stream and do not
say which request they answer. A fetch that ends before its request does (cancelled, or past its
deadline) goes on listening until the server has heard of it; what comes meanwhile is kept for the next
fetch of the same consumer, so that nothing is lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, MissedHeartbeat
from jetspark.jetstream.consumer_config import AckPolicy
from jetspark.jetstream.message import Batch, JetStreamMsg
from jetspark.jetstream.requests import PullRequest
from jetspark.jetstream.status import OnFetch, Status, classify
from jetspark.wire import encode
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import has_status

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Fetch", "PullTarget", "is_status"]

#: Seconds that a fetch waits for the server's word that the request expired, after it should have come.
_GRACE: Final = 0.5

_header = attrgetter("header")
_retiring: set[asyncio.Task[None]] = set()


class PullTarget(NamedTuple):
    """Where pull requests go, and how what they bring is acknowledged."""

    connection: Connection
    subject: str
    ack_policy: AckPolicy | str
    #: What stands before the JSON of a request: `+NXT ` when it is sent to an acknowledgement subject.
    verb: bytes = b""

    @property
    def settled(self) -> bool:
        """Whether messages need no acknowledgement."""
        return self.ack_policy == AckPolicy.NONE

    def send(self, request: PullRequest, reply: bytes) -> None:
        """Ask. The request belongs to the session: after a reconnect it has to be made anew."""
        payload = self.verb + request.to_json()
        self.connection.session.outbox.write_control(encode.pub(self.subject.encode(), reply, payload))

    def messages(self, frames: list[MsgFrame]) -> list[JetStreamMsg]:
        """What users get."""
        return list(map(JetStreamMsg, frames, repeat(self.connection), repeat(self.settled)))


def is_status(frame: MsgFrame) -> bool:
    """Whether the server speaks. A payload makes it a user's message, whatever its headers say."""
    return not frame.data and has_status(frame.header)


class Fetch(Receiver):
    """One request and what it brings."""

    def __init__(
        self, target: PullTarget, request: PullRequest, *, leftover: deque[MsgFrame] | None = None
    ) -> None:
        self._session = target.connection.session
        self._loop = asyncio.get_running_loop()
        inbox = target.connection.new_inbox().encode()
        super().__init__(self._session.new_sid(), inbox)
        self._target = target
        self._request = request
        self._wanted = request.batch or 1
        self._leftover: deque[MsgFrame] = deque() if leftover is None else leftover
        self._frames: list[MsgFrame] = []
        self._changed = Signal()
        self._over = False
        self._retired = False
        self._error: Error | None = None
        self._last_seen = 0.0
        self._expiry = 0.0

    async def run(self, timeout: float | None = None) -> Batch:
        """Send the request and return what came, at the latest half a second after it expired.

        `timeout` is for requests without `expires`. Raises an `Error` when the request failed and nothing
        had come; otherwise the error is on the batch.
        """
        while self._leftover and len(self._frames) < self._wanted:
            self._frames.append(self._leftover.popleft())
        if len(self._frames) == self._wanted:
            return Batch(self._target.messages(self._frames))
        seconds = self._request.expires or timeout or 0.0
        self._expiry = self._loop.time() + seconds
        self._session.add(self)
        self._send()
        try:
            await self._gather(self._expiry + _GRACE)
        except BaseException:
            self._leftover.extendleft(reversed(self._frames))
            self._frames.clear()
            self._retire()
            raise
        if self._over:
            self._session.unsubscribe(self)
            self._session.forget(self)
        else:
            self._retire()
        if self._error is not None and not self._frames:
            raise self._error
        return Batch(self._target.messages(self._frames), self._error)

    async def _gather(self, deadline: float) -> None:
        heartbeat = self._request.idle_heartbeat
        while not self._over:
            now = self._loop.time()
            due = deadline
            if heartbeat and self._session.attached:
                due = min(deadline, self._last_seen + 2 * heartbeat)
                if now >= due and due < deadline:
                    self._error = MissedHeartbeat(
                        f"the server was silent for {2 * heartbeat} s during a fetch"
                    )
                    return
            if now >= due:
                return
            await self._changed.wait(due - now)

    def _send(self) -> None:
        """Ask for what is missing, for as long as is left; later, when there is no connection now."""
        self._last_seen = now = self._loop.time()
        if not self._session.attached:
            return
        changes: dict[str, object] = {"batch": self._wanted - len(self._frames)}
        if self._request.expires is not None:
            remaining = self._expiry - now
            if remaining <= 0:
                return
            changes["expires"] = remaining
            if self._request.idle_heartbeat and 2 * self._request.idle_heartbeat > remaining:
                changes["idle_heartbeat"] = None
        self._request = self._request.replace(**changes)
        self._target.send(self._request, self.subject_filter)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Gather messages; a status may end the fetch. The waiting task is woken only then."""
        self._last_seen = self._loop.time()
        if any(map(_header, frames)):
            frames = self._without_statuses(frames)
        if self._retired:
            self._leftover.extend(frames)
            return
        self._frames += frames
        if len(self._frames) >= self._wanted:
            self._finish(None)

    def disconnected(self) -> None:
        """The request is gone with the connection; what arrived stays."""
        self._changed.wake()

    def reconnected(self) -> None:
        """Ask again for what is missing."""
        if not self._over and not self._retired:
            self._send()
            self._changed.wake()

    def closed(self, error: Error | None) -> None:
        """Nothing will come any more."""
        self._finish(error or ConnectionClosed("the connection was closed during a fetch"))

    # --- ending

    def _without_statuses(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        messages = []
        for frame in frames:
            if not is_status(frame):
                messages.append(frame)
            elif not self._retired:
                self._on_status(classify(frame.header), len(self._frames) + len(messages))
        return messages

    def _on_status(self, status: Status, received: int) -> None:
        if status.on_fetch is OnFetch.END:
            self._finish(None)
        elif status.on_fetch is OnFetch.ERROR:
            self._finish(status.error)
        elif status.on_fetch is OnFetch.ERROR_IF_EMPTY:
            self._finish(None if received else status.error)

    def _finish(self, error: Error | None) -> None:
        self._over = True
        self._error = error
        self._changed.wake()

    def _retire(self) -> None:
        """Withdraw the request; keep what is on its way for the next fetch."""
        self._retired = True
        self._session.unsubscribe(self)
        task = self._loop.create_task(self._wait_for_the_last())
        _retiring.add(task)
        task.add_done_callback(_retiring.discard)

    async def _wait_for_the_last(self) -> None:
        try:
            if self._session.attached:
                await self._session.flush(self._target.connection.options.request_timeout)
        except Error:
            pass  # Then nothing is on its way any more.
        self._session.forget(self)
