"""One pull: ask once, gather what comes, give it back as a list.

Every fetch has an inbox of its own, because messages arrive under the subject of the stream and do not
say which request they answer. A fetch that ends before its request does (cancelled, or past its
deadline) goes on listening until the server has heard of it; what comes meanwhile is kept for the next
fetch of the same consumer, which waits for it, so that nothing is lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, MissedHeartbeat
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.message.status import OnFetch, Status, classify
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.options import default_heartbeat
from jetspark.wire import MsgFrame, encode
from jetspark.wire.headers import has_status

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Fetch", "Leftover", "PullReceiver", "PullTarget", "is_status", "shortened", "size_of"]

#: Seconds that a fetch waits for the server's word that the request expired, after it should have come.
_GRACE: Final = 0.5
#: Seconds after which a server that sends messages would have sent the next one.
_MOMENT: Final = 0.05

_header = attrgetter("header")


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

    def check_open(self) -> None:
        """Raise `ConnectionClosed` where nothing could ever come."""
        if self.connection.closed:
            raise ConnectionClosed("the connection is closed")

    def send(self, request: PullRequest, reply: bytes) -> None:
        """Ask. The request belongs to the session: after a reconnect it has to be made anew."""
        payload = self.verb + request.to_json()
        self.connection.session.outbox.write_control(encode.pub(self.subject.encode(), reply, payload))

    def messages(self, frames: list[MsgFrame]) -> list[JetStreamMsg]:
        """What users get."""
        return list(map(JetStreamMsg, frames, repeat(self.connection), repeat(self.settled)))

    def give_back(self, frames: list[MsgFrame]) -> None:
        """Tell the server that nobody handles these, where it is possible to say so of single messages."""
        if frames and self.ack_policy == AckPolicy.EXPLICIT:
            naks = b"".join([b"PUB %b 4\r\n-NAK\r\n" % frame.reply for frame in frames if frame.reply])
            with suppress(Error):  # Closed, or more waits than may: they come again after `ack_wait`.
                self.connection.write(naks)


def is_status(frame: MsgFrame) -> bool:
    """Whether the server speaks. A payload makes it a user's message, whatever its headers say.

    So does a reply: what a stream stores can be acknowledged, and anybody may publish a status line into it.
    """
    return not frame.data and not frame.reply and has_status(frame.header)


def size_of(frame: MsgFrame) -> int:
    """A message's size as the server counts it."""
    return len(frame.subject) + len(frame.reply) + len(frame.header) + len(frame.data)


def shortened(request: PullRequest, expires: float) -> dict[str, object]:
    """The changes that let a request expire earlier; the heartbeat must fit into half of the time."""
    heartbeat = request.idle_heartbeat
    return {
        "expires": expires,
        "idle_heartbeat": min(heartbeat, default_heartbeat(expires)) if heartbeat else None,
    }


class PullReceiver(Receiver):
    """Receives what pull requests bring, and ends without losing some of it."""

    def __init__(self, target: PullTarget, sid: bytes, subject_filter: bytes) -> None:
        super().__init__(sid, subject_filter)
        self.target = target
        self._session = target.connection.session
        self._loop = asyncio.get_running_loop()
        #: When something was last asked for or arrived.
        self._last_seen = 0.0

    async def _withdraw(self) -> None:
        """Unsubscribe, and return when nothing is on its way any more.

        The server counts messages as delivered before it looks who subscribes, and drops those that it has
        under way to an inbox that is gone. So the inbox stays while they come: until the request is served,
        or nothing came for a moment.
        """
        while self._session.attached and self._expecting():
            moment = self._last_seen + _MOMENT - self._loop.time()
            if moment <= 0:
                break
            await asyncio.sleep(moment)
        self._session.unsubscribe(self)
        if self._session.attached:
            with suppress(Error):  # Then nothing is on its way any more.
                await self._session.flush(self.target.connection.options.request_timeout)
        self._session.forget(self)

    def _expecting(self) -> bool:
        """Whether a request is open."""
        raise NotImplementedError


class Leftover:
    """What fetches of one consumer received after they had ended; the next one hands it out."""

    def __init__(self) -> None:
        self.frames: deque[MsgFrame] = deque()
        self._retiring: set[asyncio.Task[None]] = set()

    def listen(self, last: Coroutine[object, None, None]) -> None:
        """A fetch has ended and still listens, until `last` is done."""
        task = asyncio.get_running_loop().create_task(last)
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def settle(self, timeout: float) -> None:
        """Wait until nobody adds anything, as a rule for no longer than a round trip."""
        if self._retiring:
            await asyncio.wait(self._retiring, timeout=timeout)

    def take(self, max_messages: int, max_bytes: int | None) -> list[MsgFrame]:
        """As much as may be handed out, oldest first."""
        taken: list[MsgFrame] = []
        while self.frames and len(taken) < max_messages:
            if max_bytes is not None:
                max_bytes -= size_of(self.frames[0])
                if max_bytes < 0:
                    break
            taken.append(self.frames.popleft())
        return taken


class Fetch(PullReceiver):
    """One request and what it brings."""

    def __init__(self, target: PullTarget, request: PullRequest, *, leftover: Leftover | None = None) -> None:
        connection = target.connection
        super().__init__(target, connection.session.new_sid(), connection.new_inbox().encode())
        self._request = request
        self._wanted = request.batch or 1
        # None when there is no next fetch: what comes too late goes back to the server.
        self._leftover = leftover
        self._frames: list[MsgFrame] = []
        self._changed = Signal()
        self._over = False
        self._retired = False
        self._error: Error | None = None
        self._expiry = 0.0

    async def run(self, timeout: float | None = None) -> Batch:
        """Send the request and return what came, at the latest half a second after it expired.

        `timeout` is for requests without `expires`. Raises an `Error` when the request failed and nothing
        had come; otherwise the error is on the batch.
        """
        seconds = self._request.expires or timeout or 0.0
        self._expiry = self._loop.time() + seconds
        if self._leftover is not None:
            await self._leftover.settle(seconds)
            self._frames = self._leftover.take(self._wanted, self._request.max_bytes)
            if len(self._frames) == self._wanted or self._leftover.frames:
                return Batch(self.target.messages(self._frames))
        self.target.check_open()
        self._session.add(self)
        self._send()
        try:
            await self._gather(self._expiry + _GRACE)
        except BaseException:
            self._retire(self._frames)
            raise
        if self._over:
            self._session.unsubscribe(self)
            self._session.forget(self)
        else:
            self._retire([])
        if self._error is not None and not self._frames:
            raise self._error
        return Batch(self.target.messages(self._frames), self._error)

    async def _gather(self, deadline: float) -> None:
        while not self._over:
            now = self._loop.time()
            due = deadline
            heartbeat = self._request.idle_heartbeat
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
        if self._request.max_bytes is not None:
            changes["max_bytes"] = left = self._request.max_bytes - sum(map(size_of, self._frames))
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

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Gather messages; a status may end the fetch. The waiting task is woken only then."""
        self._last_seen = self._loop.time()
        if any(map(_header, frames)):
            frames = self._without_statuses(frames)
        if self._retired:
            self._keep(frames)
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
        messages: list[MsgFrame] = []
        for frame in frames:
            if is_status(frame):
                self._on_status(classify(frame.header), len(self._frames) + len(messages))
            else:
                messages.append(frame)
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

    def _retire(self, unread: list[MsgFrame]) -> None:
        """Withdraw the request; keep what is unread or on its way for the next fetch."""
        self._retired = True
        self._wanted -= len(self._frames)
        late = Leftover() if self._leftover is None else self._leftover
        late.frames.extendleft(reversed(unread))
        late.listen(self._withdraw())

    def _keep(self, frames: list[MsgFrame]) -> None:
        self._wanted -= len(frames)
        if self._leftover is None:
            self.target.give_back(frames)
        else:
            self._leftover.frames.extend(frames)

    def _expecting(self) -> bool:
        return not self._over and self._wanted > 0
