"""The pull buffer, which refills itself: behind `messages()` and `consume()`.

It sends the requests that `accounting.py` computes, buffers the messages, acts on statuses by the table in
`message/status.py`, and watches the heartbeats. A lost connection or leader, silence and refusals are
reported, and it asks again. Only errors that are final end it, such as a deleted consumer.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Final

from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, ExceededLimit, MissedHeartbeat, NoResponders
from jetspark.jetstream.heartbeat import HeartbeatMonitor
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.message.foreign import Foreign
from jetspark.jetstream.message.status import Exceeded, OnConsume, Status
from jetspark.jetstream.on_error import OnError, Reporter
from jetspark.jetstream.pull.accounting import Accounting
from jetspark.jetstream.pull.options import PullOptions
from jetspark.jetstream.pull.pacing import Pacing
from jetspark.jetstream.pull.pin import Pin
from jetspark.jetstream.pull.receiver import PullReceiver, request_token, sort_frames
from jetspark.jetstream.pull.request import PullTarget
from jetspark.wire import MsgFrame, redeliveries, total_size

__all__ = ["BufferState", "OnError", "PullBuffer"]

#: Actions after which a request has brought nothing.
_REFUSALS: Final = (OnConsume.BACK_OFF, OnConsume.END)
#: Seconds; a consumer that allows only very short requests has heartbeats as short.
_SHORTEST_ALARM: Final = 1.0
#: Seconds by which answers to forgotten requests may be late, after these must have expired.
_LATE: Final = 5.0


class BufferState(enum.Enum):
    """Where a pull buffer stands."""

    #: It asks for messages.
    RUNNING = enum.auto()
    #: It asks for no more; buffered messages and those on their way can still be taken.
    DRAINING = enum.auto()
    #: It was stopped; messages that are not taken go back to the server.
    STOPPING = enum.auto()
    #: Nothing arrives any more; buffered messages can still be taken.
    OVER = enum.auto()


class PullBuffer(PullReceiver):
    """A buffer that refills itself. One reader or several take messages out of it."""

    def __init__(
        self,
        target: PullTarget,
        options: PullOptions,
        on_error: OnError | None = None,
        pin: Pin | None = None,
    ) -> None:
        connection = target.connection
        super().__init__(target, connection.new_inbox().encode() + b".*")
        self.options = options
        self.notify = Reporter(connection, on_error).notify
        self._by_bytes = options.max_bytes is not None
        # The limit that `narrow` set.
        self._narrowed = options.limit
        # Twice the bytes: the server counts before it adds the headers of a pinned client.
        most = 2 * options.wanted if self._by_bytes else options.wanted
        self._accounting = Accounting(options.limit, options.threshold, most)
        self._foreign = Foreign(self.notify)
        # The target may change, these do not.
        self._connection = connection
        self._settled = target.settled
        self._message = connection.class_of(JetStreamMsg)
        #: Stream and consumer in the replies of its messages.
        self.names = target.names
        self._counts = connection.session.tally.consumer(target.names)
        #: Messages that arrived and were not taken.
        self.frames: deque[MsgFrame] = deque()
        # The amount that was taken and still counts as buffered: counting it in steps is cheaper.
        self._taken = 0
        self._step = max(options.threshold // 64, 1)
        # The amount that `take` returned and that still counts as buffered.
        self._lent = 0
        self._arrived = Signal()
        self._pin = pin
        # The id that requests carry, and the token of the first that did.
        self._sent_id: str | None = None
        self._sent_since = 0
        self._heartbeat = HeartbeatMonitor(
            max(2 * options.heartbeat, _SHORTEST_ALARM),
            checks=2,
            is_expected=lambda: self._session.attached and self._accounting.requested > 0,
            on_missed=self._on_missed_heartbeat,
        )
        self._pacing = Pacing(target.timing, target.presence, self._ask, self.finish)
        # The next message did not fit into the rest of a request: the next request has the whole limit.
        self._cramped = False
        self._ending: asyncio.Task[None] | None = None
        # Messages that were not taken when it was stopped, until they go back to the server.
        self._unread: list[MsgFrame] = []
        self.state = BufferState.RUNNING
        #: The error that ended it, if any.
        self.error: Error | None = None

    # --- for the reader

    async def start(self) -> None:
        """Subscribe and ask for the first time. Raises `ConnectionClosed`."""
        self.target.check_open()
        self._session.add(self)
        self._ask()
        self._heartbeat.start()

    async def next(self, timeout: float | None = None) -> JetStreamMsg | None:
        """The next message; None when `timeout` seconds passed, or nothing arrives any more."""
        if not self.frames:
            deadline = None if timeout is None else self._loop.time() + timeout
            while not self.frames:
                if self.state is BufferState.OVER or self.state is BufferState.STOPPING:
                    return None
                wait = None if deadline is None else deadline - self._loop.time()
                if not await self._arrived.wait(wait) and not self.frames:
                    return None
        return self.pop()

    def pop(self) -> JetStreamMsg:
        """The next message, when `frames` has one: `next` without the await."""
        frames = self.frames
        frame = frames.popleft()
        self._taken += frame.size if self._by_bytes else 1
        if self._taken >= self._step or not frames:
            self._count_taken()
        return self._message(frame, self._connection, self._settled)

    def _count_taken(self) -> None:
        taken, self._taken = self._taken, 0
        if self._accounting.taken(taken):
            self._ask()

    async def take(self, timeout: float | None = None) -> list[MsgFrame]:
        """The buffered messages, up to half of the limit; an empty list where `next` returns None.

        For readers that pass messages to a thread: all but the first count as buffered until the next call.
        """
        self._accounting.taken(self._lent + self._taken)
        self._lent = self._taken = 0
        self._ask()
        first = await self.next(timeout)
        if first is None:
            return []
        self._count_taken()
        frames = [first._frame]
        room = self.options.limit // 2 - 1
        if self._accounting.buffered <= room:  # All of them, and their size is known.
            frames += self.frames
            self.frames.clear()
            self._lent = self._accounting.buffered
        while self.frames and self._lent < room:
            frame = self.frames.popleft()
            self._lent += frame.size if self._by_bytes else 1
            frames.append(frame)
        return frames

    def narrow(self, limit: int) -> None:
        """Lower the limit, because little is left to read; that of the options still holds."""
        self._narrowed = limit
        self._apply_limits()

    def _apply_limits(self) -> None:
        """Count by the limits that hold now: those of the options, of the consumer, and the narrow one."""
        options, accounting = self.options, self._accounting
        accounting.limit = limit = min(self._narrowed, options.limit)
        accounting.threshold = options.threshold
        if limit < options.limit:
            accounting.threshold = min((limit + 1) // 2, options.threshold)

    def put_back(self, frames: list[MsgFrame]) -> None:
        """Put back messages that were taken last and not handed out."""
        self.frames.extendleft(reversed(frames))

    def stop(self) -> asyncio.Future[None]:
        """End at once; messages that were not taken go back to the server. Resolves when that was sent."""
        self._unread += self.frames
        self.frames.clear()
        if self.state is BufferState.OVER:
            self._give_back()
        else:
            self.state = BufferState.STOPPING
        self._arrived.wake()
        return self.drain()

    def drain(self) -> asyncio.Future[None]:
        """Ask for no more; messages that are buffered or on their way can still be taken."""
        if self.state is BufferState.RUNNING:
            self.state = BufferState.DRAINING
        self._cancel_timers()
        if self._ending is None:
            self._ending = self._loop.create_task(self._wait_for_the_last())
        return asyncio.shield(self._ending)

    async def join(self) -> None:
        """After `stop` or `drain`: wait until it has ended."""
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _wait_for_the_last(self) -> None:
        if self.state is not BufferState.OVER:
            await self._withdraw()
        # Not earlier: the server would deliver them again, to requests that are still open here.
        self._give_back()
        self.finish(None)

    def _give_back(self) -> None:
        self.target.give_back(self._unread)
        self._unread.clear()

    def finish(self, error: Error | None) -> None:
        """End: nothing arrives any more, because of `error` if there is one."""
        if self.state is not BufferState.OVER:
            self.state = BufferState.OVER
            self.error = error
        self._session.unsubscribe(self)
        self._session.forget(self)
        self._cancel_timers()
        self._arrived.wake()

    def _cancel_timers(self) -> None:
        self._heartbeat.stop()
        self._pacing.cancel()

    def _expecting(self) -> bool:
        return self._accounting.requested > 0

    # --- asking

    def _ask(self) -> None:
        if self.state is not BufferState.RUNNING or not self._session.attached or self._pacing.waiting:
            return
        if self._cramped and self._accounting.pending:
            return
        idle = not self._accounting.requested
        ask = self._accounting.ask()
        if ask is None:
            return
        self._cramped = False
        if idle:
            self._last_seen = self._heartbeat.seen()
        pin_id = None if self._pin is None else self._pin.id
        if pin_id != self._sent_id:
            self._sent_id, self._sent_since = pin_id, ask.token
        request = self.options.request(ask.amount, pin_id)
        self.target.send(request, b"%b%d" % (self.subject_filter[:-1], ask.token))

    def _forget(self) -> None:
        """All requests are lost, or may be answered late."""
        self._accounting.forget()
        self._accounting.forgotten_at = self._loop.time()

    def _restart(self) -> None:
        """All requests are lost: ask again."""
        self._forget()
        self._ask()

    def _on_missed_heartbeat(self, allowed: float) -> None:
        """The server was silent while a request was open: the request is lost, whatever the reason."""
        self._forget()
        self.notify(MissedHeartbeat(f"the server was silent for {allowed} s", hint="Pulling again"))
        self._pacing.look()
        self._restart()

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Buffer messages, wake the readers once, act on statuses."""
        self._last_seen = self._heartbeat.seen()
        statuses: list[tuple[MsgFrame, Status]] = []
        again = redeliveries(frames, self.names)
        if again < 0:
            frames, statuses = sort_frames(frames, self.names, self._foreign)
            again = redeliveries(frames, self.names)
        if frames:
            self._counts.add(len(frames), again)
            self._take_in(frames)
        # After the messages, which may belong to the requests that end here.
        for frame, status in statuses:
            self._on_status(status, request_token(frame))

    def _take_in(self, frames: list[MsgFrame]) -> None:
        amount = total_size(frames) if self._by_bytes else len(frames)
        if amount > self._accounting.room:
            frames = self._fitting(frames)
            amount = total_size(frames) if self._by_bytes else len(frames)
        if self._pin is not None:
            self._pin.read(frames)
        self._accounting.arrived(amount)
        self._pacing.answered()
        if self.state is BufferState.STOPPING:
            self._unread += frames
        else:
            self.frames.extend(frames)
            self._arrived.wake()

    def _fitting(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        """The frames that the server may have sent. Others are dropped: another client sent them."""
        if self._loop.time() - self._accounting.forgotten_at > 2 * self.options.expires + _LATE:
            self._accounting.overdue = 0
        fitting: list[MsgFrame] = []
        room = self._accounting.room
        for frame in frames:
            room -= frame.size if self._by_bytes else 1
            if room < 0:
                self._foreign.drop(len(frames) - len(fitting), "that were not asked for")
                break
            fitting.append(frame)
        return fitting

    def disconnected(self) -> None:
        """The requests are lost with the connection; silence means nothing until it is back."""
        self._forget()

    def reconnected(self) -> None:
        """Ask again. The consumer is looked up (ADR-37 does not) only if there is no answer."""
        self._last_seen = self._heartbeat.seen()
        self._pacing.end()
        self._pacing.unanswered = 1
        self._restart()

    def closed(self, error: Error | None) -> None:
        """Nothing arrives any more, and messages that need an acknowledgement cannot get one."""
        if not self.target.settled:
            self.frames.clear()
        if error is None and self.state is BufferState.RUNNING:
            error = ConnectionClosed("the connection was closed: no more messages arrive")
        self.finish(error)

    def _on_status(self, status: Status, token: int) -> None:
        action = status.on_consume
        if action is OnConsume.CONTINUE:
            self._pacing.answered()
            return
        undelivered = status.pending_bytes if self._by_bytes else status.pending_messages
        known = self._accounting.ended(token, undelivered, refused=action in _REFUSALS)
        if self.state is BufferState.STOPPING or (not known and action is not OnConsume.END):
            return
        if action is OnConsume.END:
            self.finish(status.error)
        elif action is OnConsume.PULL:
            self._ask()
        elif action is OnConsume.TOO_LARGE:
            self._on_too_large(status.pending_bytes)
        elif action is OnConsume.RESTART:
            self.notify(status.error)
            self._restart()
        elif action is OnConsume.UNPIN:
            self._on_wrong_pin(token)
        elif isinstance(status.error, NoResponders):
            self.notify(status.error)
            self._pacing.no_responders()
        else:
            self.notify(status.error)
            if status.exceeded is not None:
                self._shrink(status.exceeded)
            self._pacing.refused()

    def _on_wrong_pin(self, token: int) -> None:
        """Another client is pinned: wait in line without an id. That is not reported (ADR-37)."""
        if self._pin is None or self._sent_id is None:
            self._pacing.refused()  # The server does not refuse a request that has no id.
            return
        if token >= self._sent_since:  # Otherwise it was sent before this id was gained.
            self._pin.lost(self._sent_id)
        self._ask()

    def _shrink(self, exceeded: Exceeded) -> None:
        """The consumer takes smaller requests only: ask for less from now on."""
        largest = self.options.request(self._accounting.limit, None)
        self.options.bounds.learn(exceeded, largest)
        self._apply_limits()

    def _on_too_large(self, left: int | None) -> None:
        """The next message did not fit: ask with the whole limit when nothing else is pending."""
        if left is not None and left < self.options.most_bytes:
            self._cramped = True
            self._accounting.limit = self._narrowed = self.options.limit
            self._ask()
            return
        self.notify(
            ExceededLimit(
                f"the next message is larger than max_bytes={self.options.most_bytes}",
                status=409,
                description="Message Size Exceeds MaxBytes",
                hint="Raise max_bytes",
            )
        )
        self._pacing.refused()
