"""Receivers of pull requests: what fetch, the pull buffer, ordered consumers and classic fetch share.

A receiver has the inbox of its requests, reads the statuses that end them, and leaves without losing messages
that are on their way. The modules that import this one decide what to do with the messages.

Other clients may publish to an inbox: only messages of the consumer are taken, by the names in their replies,
and no more of them than were asked for.
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, RemoteProtocolError
from jetspark.jetstream.message.foreign import Foreign
from jetspark.jetstream.message.status import OnFetch, Status, classify, is_status
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.options import default_heartbeat
from jetspark.jetstream.pull.pin import Pin
from jetspark.jetstream.pull.request import PullTarget
from jetspark.wire import MsgFrame, redeliveries, total_size

__all__ = [
    "BatchReceiver",
    "Leftover",
    "PullReceiver",
    "RequestState",
    "request_token",
    "sort_frames",
]

#: Seconds without a message after which nothing more is on its way from the server.
_MOMENT: Final = 0.05
#: Seconds without a message after which the server is not in the middle of a batch.
_LONG: Final = 1.0


def request_token(status: MsgFrame) -> int:
    """The token of the request that a status answers; 0 when it has none."""
    token = status.subject.rpartition(b".")[2]
    return int(token) if token.isdigit() else 0


def sort_frames(
    frames: list[MsgFrame], names: bytes, foreign: Foreign
) -> tuple[list[MsgFrame], list[tuple[MsgFrame, Status]]]:
    """The messages of the consumer with these `names`, and the statuses. Other frames are dropped."""
    messages: list[MsgFrame] = []
    statuses: list[tuple[MsgFrame, Status]] = []
    for frame in frames:
        if redeliveries([frame], names) >= 0:
            messages.append(frame)
        elif is_status(frame):
            with suppress(RemoteProtocolError):
                statuses.append((frame, classify(frame.header)))
    if dropped := len(frames) - len(messages) - len(statuses):
        foreign.drop(dropped, f"that {names.decode() or 'JetStream'} did not send")
    return messages, statuses


class PullReceiver(Receiver):
    """Receives the messages of pull requests, and leaves without losing any."""

    def __init__(self, target: PullTarget, subject_filter: bytes) -> None:
        self._session = target.connection.session
        super().__init__(self._session.new_sid(), subject_filter)
        self.target = target
        self._loop = asyncio.get_running_loop()
        #: When a request was last sent, or a frame last arrived.
        self._last_seen = 0.0

    async def _withdraw(self) -> None:
        """Unsubscribe, and return when nothing is on its way any more.

        The server counts messages as delivered before it looks for subscribers, and drops those that are in
        flight to an inbox that no longer exists. So the inbox stays while messages arrive: until the request
        is served, or the server has answered and none arrived for a moment.
        """
        silent = await self._silent()
        self._session.unsubscribe(self)
        if silent and self._session.attached:
            with suppress(Error):  # The connection broke, so nothing is on its way.
                await self._flush()
        self._session.forget(self)

    async def _silent(self) -> bool:
        """Wait until no more messages arrive. False if the server does not answer.

        A busy server may pause in the middle of a batch. So after a silent moment it is sent a PING, and has
        to be silent for another moment after its PONG, unless nothing arrived for long.
        """
        answered = math.nan
        while self._session.attached and self._expecting():
            now = self._loop.time()
            if (moment := self._last_seen + _MOMENT - now) > 0:
                await asyncio.sleep(moment)
            elif answered == self._last_seen:
                break
            else:
                idle = now - self._last_seen > _LONG
                try:
                    await self._flush()
                except Error:
                    return False
                answered = self._loop.time()
                if idle and answered - now < _MOMENT:
                    answered = self._last_seen
                else:
                    self._last_seen = answered
        return True

    async def _flush(self) -> None:
        await self._session.flush(self.target.connection.options.request_timeout)

    def _expecting(self) -> bool:
        """Whether a request is open."""
        raise NotImplementedError


class Leftover:
    """Messages that fetches of one consumer received after they had ended; the next fetch returns them."""

    def __init__(self) -> None:
        self.frames: deque[MsgFrame] = deque()
        self._retiring: set[asyncio.Task[None]] = set()

    def listen(self, last: Coroutine[object, None, None]) -> None:
        """A fetch has ended and still listens, until `last` is done."""
        task = asyncio.get_running_loop().create_task(last)
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def settle(self, timeout: float) -> None:
        """Wait until no fetch adds anything, as a rule for no longer than a round trip."""
        if self._retiring:
            await asyncio.wait(self._retiring, timeout=timeout)

    def take(self, max_messages: int, max_bytes: int | None) -> list[MsgFrame]:
        """Remove and return the oldest messages, within both limits."""
        taken: list[MsgFrame] = []
        while self.frames and len(taken) < max_messages:
            if max_bytes is not None:
                max_bytes -= self.frames[0].size
                if max_bytes < 0:
                    break
            taken.append(self.frames.popleft())
        return taken


class RequestState(enum.Enum):
    """Where a request for one batch stands."""

    #: Messages may arrive, and the caller waits for them.
    OPEN = enum.auto()
    #: All messages arrived, or the server or the connection ended the request.
    ENDED = enum.auto()
    #: The caller left; messages may still arrive.
    LEFT = enum.auto()
    #: The caller left, and the request has ended.
    CLOSED = enum.auto()


_ENDED: Final = {RequestState.OPEN: RequestState.ENDED, RequestState.LEFT: RequestState.CLOSED}
_LEFT: Final = {RequestState.OPEN: RequestState.LEFT, RequestState.ENDED: RequestState.CLOSED}


class BatchReceiver(PullReceiver):
    """Gathers the messages of one batch in its own inbox.

    Messages arrive under the subject of the stream and do not say which request they answer. A receiver
    that leaves before its request ends (cancelled, or past its deadline) listens until the server has seen
    that; messages that arrive meanwhile are left over for the next fetch of the same consumer.
    """

    def __init__(self, target: PullTarget, wanted: int, leftover: Leftover | None) -> None:
        super().__init__(target, target.connection.new_inbox().encode())
        self._wanted = wanted
        # None when there is no next fetch: messages that arrive too late go back to the server.
        self._leftover = leftover
        self._foreign = Foreign(target.connection.report)
        self._state = RequestState.OPEN
        self._changed = Signal()
        self._deadline = math.inf
        # Seconds of silence after which the request is lost.
        self._silence = math.inf
        # How many messages and bytes may arrive: a request that was repeated may still be answered.
        self._room = 0
        self._room_bytes = math.inf
        # Requests that may still be answered: more than one when a lost one was repeated.
        self._open = 0
        #: The messages that arrived.
        self.frames: list[MsgFrame] = []
        #: The error that ended it, if any.
        self.error: Error | None = None
        #: The pin of the client in the group of the request, if there is one.
        self.pin: Pin | None = None

    async def _receive(self) -> None:
        """Subscribe, send the request, and gather its messages until it ends or the deadline passes.

        After a cancellation, the messages that arrived are left over for the next fetch.
        """
        self._session.add(self)
        self._ask_again()
        try:
            await self._gather()
        except BaseException:
            self._leave(self.frames)
            raise
        if self._over():
            if not self._unsubscribed():
                self._session.unsubscribe(self)
            self._session.forget(self)
        else:
            self._leave([])

    def _unsubscribed(self) -> bool:
        """Whether the server has ended the subscription itself."""
        return False

    async def _gather(self) -> None:
        """Wait until the request ends, at the latest until the deadline."""
        while self._state is RequestState.OPEN:
            now = self._loop.time()
            due = self._deadline
            if self._session.attached:
                due = min(due, self._last_seen + self._silence)
            if now < due:
                await self._changed.wait(None if due == math.inf else due - now)
            elif now >= self._deadline or not await self._on_silence():
                return

    async def _on_silence(self) -> bool:
        """No message or heartbeat arrived in time: ask again. False to stop waiting."""
        seen = self._last_seen
        presence = self.target.presence
        refusal = None if presence is None else await presence.refusal(self._deadline - self._loop.time())
        # Otherwise it was only late: its messages arrived before the answer to this question.
        if self._state is RequestState.OPEN and self._last_seen == seen:
            if refusal is None:
                self._ask_again()
            else:
                self._finish(refusal)
        return True

    def _ask_again(self) -> None:
        """Send the request again, for the missing messages."""
        raise NotImplementedError

    def _heartbeat(self, expires: float) -> float | None:
        """Seconds between the heartbeats that a request asks for, to notice that it is lost."""
        if self.target.loses_requests:
            lost = self.target.timing.request_lost
            return lost / 2 if expires >= lost else None
        return default_heartbeat(expires) if expires > 30 else None

    def _expect(self, request: PullRequest) -> None:
        """Count a request that is sent: how much may arrive, and when silence means that it is lost."""
        self._last_seen = self._loop.time()
        self._open += 1
        self._room += request.batch or 1
        if request.max_bytes is not None:
            # Twice: the server counts before it adds the headers of a pinned client.
            known = 0 if self._room_bytes == math.inf else self._room_bytes
            self._room_bytes = known + 2 * request.max_bytes
        if request.idle_heartbeat:
            self._silence = 2 * request.idle_heartbeat
        elif request.no_wait and self.target.loses_requests:
            self._silence = self.target.timing.request_lost
        else:
            self._silence = math.inf

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Gather messages; a status may end the request. The waiting task is woken only then."""
        self._last_seen = self._loop.time()
        statuses: list[tuple[MsgFrame, Status]] = []
        again = redeliveries(frames, self.target.names)
        if again < 0:
            frames, statuses = sort_frames(frames, self.target.names, self._foreign)
            again = redeliveries(frames, self.target.names)
        self._session.tally.consumer(self.target.names).add(len(frames), again)
        if len(frames) > self._room or self._room_bytes != math.inf:
            frames = self._fitting(frames)
        self._room -= len(frames)
        if self.pin is not None:
            self.pin.read(frames)
        if self._state is RequestState.LEFT or self._state is RequestState.CLOSED:
            self._keep(frames)
        else:
            self.frames += frames
            if len(self.frames) >= self._wanted:
                if self._state is RequestState.OPEN:
                    self._open -= 1
                self._finish(None)
                self._keep(self.frames[self._wanted :])
                del self.frames[self._wanted :]
        for _, status in statuses:
            # A status without pending messages follows the last message of a request, which counted already.
            if status.on_fetch is not OnFetch.CONTINUE and status.pending_messages != 0:
                self._open -= 1
            self._on_status(status, len(self.frames))

    def _fitting(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        """The messages that were asked for. The server does not send more."""
        fitting = frames[: self._room]
        while fitting and total_size(fitting) > self._room_bytes:
            fitting.pop()
        self._room_bytes -= total_size(fitting)
        if dropped := len(frames) - len(fitting):
            self._foreign.drop(dropped, "that were not asked for")
        return fitting

    def closed(self, error: Error | None) -> None:
        """The connection is closed, or the server refused the subscription."""
        self._open = 0
        self._finish(error or ConnectionClosed("the connection was closed during a fetch"))

    # --- ending

    def _on_status(self, status: Status, received: int) -> None:
        if status.on_fetch is not OnFetch.CONTINUE:
            self._finish(status.fetch_error(received))

    def _finish(self, error: Error | None) -> None:
        self._state = _ENDED.get(self._state, self._state)
        self.error = self.error or error
        self._changed.wake()

    def _leave(self, unread: list[MsgFrame]) -> None:
        """Withdraw the request; keep messages that are unread or on their way for the next fetch."""
        self._state = _LEFT.get(self._state, self._state)
        leftover = Leftover() if self._leftover is None else self._leftover
        leftover.frames.extendleft(reversed(unread))
        leftover.listen(self._withdraw())

    def _keep(self, frames: list[MsgFrame]) -> None:
        if self._leftover is None:
            self.target.give_back(frames)
        else:
            self._leftover.frames.extend(frames)

    def _over(self) -> bool:
        """Whether the request has ended, and no repeated one is open."""
        return self._state is RequestState.ENDED and (self._open <= 0 or not self._session.attached)

    def _expecting(self) -> bool:
        waiting = self._state is RequestState.OPEN or self._state is RequestState.LEFT
        return self._room > 0 and (waiting or self._open > 0)
