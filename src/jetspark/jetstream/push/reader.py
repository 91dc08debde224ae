"""The reading side of a push subscription: messages in order, and what the server says in between.

Statuses never reach the user. Flow control is answered at its place among the messages, when the reader
gets there, and errors of the server are raised at theirs, or reported where there is a callback. Heartbeats
are looked at when they arrive: they end the silence and tell of gaps.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from jetspark.core.subscription import Subscription
from jetspark.errors import Error, MessageGap, NotJetStreamMessage, RemoteProtocolError, Timeout, UsageError
from jetspark.jetstream.heartbeat import HeartbeatMonitor
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.status import OnConsume, Status, classify
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.on_error import Reporter
from jetspark.jetstream.push.flow_control import FlowControl
from jetspark.jetstream.push.gaps import Gap, Gaps
from jetspark.jetstream.push.options import PushOptions
from jetspark.wire import MsgFrame, encode
from jetspark.wire.headers import has_status
from jetspark.wire.subjects import check_subject

if TYPE_CHECKING:
    from jetspark.core.connection import Connection
    from jetspark.jetstream.pull.iterate import Handler

__all__ = ["PushReader"]

_ACK: Final = b"$JS.ACK."
#: A callback that never awaits lets the loop turn after so many messages.
_TURN: Final = 256
#: What the table in `message/status.py` says of pull requests means nothing here.
_MEANINGLESS: Final = (OnConsume.CONTINUE, OnConsume.PULL, OnConsume.TOO_LARGE)

_header = attrgetter("header")


class PushReader(Subscription):
    """Takes what a push consumer delivers. Who the consumer is, and how it ends, is in `subscription.py`."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        config: ConsumerConfig,
        *,
        callback: Handler | None,
        options: PushOptions,
    ) -> None:
        if callback is not None and not callable(callback):
            raise UsageError(f"callback must be a function, not {type(callback).__name__}")
        self._stream = stream
        self._name = ""
        self._options = options
        #: Tells about an error that no call can raise.
        self.notify = Reporter(connection, options.on_error).notify
        self._loop = asyncio.get_running_loop()
        self._flow = FlowControl()
        # Errors of the server, each behind so many messages.
        self._troubles: deque[tuple[int, Error]] = deque()
        # A new consumer counts its deliveries from 1.
        self._gaps = Gaps(1)
        self._heartbeat: HeartbeatMonitor | None = None
        self._callback = callback
        # Whether a thread has taken messages, and did not come back yet.
        self._lent = False
        self._take_config(config)
        super().__init__(
            connection,
            b"",
            b"",
            b"",
            callback=None,
            max_msgs=None,
            pending_msgs_limit=options.pending_msgs_limit,
            pending_bytes_limit=options.pending_bytes_limit,
        )

    def _take_config(self, config: ConsumerConfig) -> None:
        self._config = config
        #: Whether messages need no acknowledgement.
        self.settled = config.ack_policy in (AckPolicy.NONE, AckPolicy.FLOW_CONTROL)
        #: Whether a callback that returned has acknowledged its message.
        self.acks_itself = not self._options.manual_ack and not self.settled

    # --- reading

    async def next(self, timeout: float | None = None) -> JetStreamMsg:
        """The next message.

        Raises `Timeout` after `timeout` seconds (by default the connection's `request_timeout`), what the
        server says is wrong, and `SubscriptionClosed`, or the error that closed it, when no more can come.
        """
        self._check_no_callback()
        seconds = self._connection.options.request_timeout if timeout is None else timeout
        deadline = self._loop.time() + seconds
        while True:
            self._reach()
            if self._pending:
                return self._take()
            if self._closed:
                await self._at_end()
                self._raise_if_closed()
            if not await self._arrived.wait(deadline - self._loop.time()) and not self._pending:
                self._reach()
                raise Timeout(f"no message of {self._stream} > {self._name} within {seconds} s")

    async def __anext__(self) -> JetStreamMsg:
        while True:
            self._reach()
            if self._pending:
                return self._take()
            if self._closed:
                await self._at_end()
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._arrived.wait(None)

    async def take(self, limit: int, timeout: float | None) -> list[MsgFrame]:
        """What waits, up to `limit` messages; none when none came within `timeout` seconds, or at the end.

        Whoever takes has handled what was taken before: what the server asked in between is answered now.
        """
        deadline = None if timeout is None else self._loop.time() + timeout
        self._lent = False
        while True:
            self._reach()
            if self._pending:
                break
            if self._closed:
                await self._at_end()
                if self._error is not None:
                    raise self._error
                return []
            wait = None if deadline is None else deadline - self._loop.time()
            if not await self._arrived.wait(wait) and not self._pending:
                return []
        marks = [self._flow.position, self._troubles[0][0] if self._troubles else None]
        limit = min([limit, len(self._pending), *(mark - self._taken for mark in marks if mark is not None)])
        self._lent = True
        frames = [self._pending.popleft() for _ in range(limit)]
        self._pending_bytes -= sum(len(frame.data) for frame in frames)
        return frames

    def _take(self) -> JetStreamMsg:
        frame = self._pending.popleft()
        self._pending_bytes -= len(frame.data)
        return JetStreamMsg(frame, self._connection, self.settled)

    @property
    def _taken(self) -> int:
        """How many of the messages that were kept are out of the queue."""
        return self._received - self._dropped - len(self._pending)

    def _reach(self) -> None:
        """The reader is here: answer what the server asks at this place, raise what is wrong from here on."""
        if self._flow.position is not None:
            for subject in self._flow.due(self._taken):
                self._connection.session.outbox.write_control(encode.pub(subject, b"", b""))
        if self._troubles and self._troubles[0][0] <= self._taken:
            error = self._troubles.popleft()[1]
            if self._task is None:
                raise error
            self.notify(error)

    def _start(self) -> None:
        """Call the callback from now on: whoever subscribes holds the subscription before it is called."""
        if self._callback is not None:
            self.hand_to(self._call(self._callback))

    async def _call(self, callback: Handler) -> None:
        handled = 0
        while True:
            self._reach()
            if not self._pending:
                if self._closed:
                    return
                await self._arrived.wait(None)
                continue
            message = self._take()
            try:
                outcome = callback(message)
                if outcome is not None and inspect.isawaitable(outcome):
                    await outcome
                if self.acks_itself:
                    await message.ack()
            except Exception as error:
                self.notify(error)
            handled += 1
            if handled % _TURN == 0:
                await asyncio.sleep(0)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Queue messages in order, act on what the server says in between."""
        if self._heartbeat is not None:
            self._heartbeat.heard()
        if not any(map(_header, frames)):
            self._queue(frames)
            return
        run: list[MsgFrame] = []
        for frame in frames:
            if _is_status(frame):
                self._queue(run)
                run = []
                self._on_status_frame(frame)
            else:
                run.append(frame)
        self._queue(run)

    def _queue(self, frames: list[MsgFrame]) -> None:
        if not frames:
            return
        if not all(frame.reply.startswith(_ACK) for frame in frames):
            frames = self._of_jetstream(frames)
        try:
            self._accept(frames)
        except NotJetStreamMessage:
            self._accept(self._of_jetstream(frames))

    def _accept(self, frames: list[MsgFrame]) -> None:
        if frames and not self._config.deliver_group:
            self._count(frames)
        super().deliver(frames)

    def _of_jetstream(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        kept: list[MsgFrame] = []
        strange: list[MsgFrame] = []
        for frame in frames:
            (kept if _is_acknowledgeable(frame) else strange).append(frame)
        subject = strange[0].subject.decode("utf-8", "replace")
        self.notify(
            NotJetStreamMessage(
                f"{len(strange)} messages on {subject!r} did not come from {self._name}, and were left out",
                hint="Somebody publishes to the deliver subject of the consumer",
            )
        )
        return kept

    def _count(self, frames: list[MsgFrame]) -> None:
        first, last = parse_metadata(frames[0].reply).sequence, parse_metadata(frames[-1].reply).sequence
        if not self._gaps.follows(first, last, len(frames)):
            sequences = [parse_metadata(frame.reply).sequence for frame in frames]
            for gap in self._gaps.delivered(sequences):
                self._report_gap(gap)

    # --- what the server says in between

    def _on_status_frame(self, frame: MsgFrame) -> None:
        try:
            status = classify(frame.header)
        except RemoteProtocolError as error:
            self.notify(error)
            return
        if status.code == 100:
            self._on_heartbeat(status, frame.reply)
        elif status.on_consume is OnConsume.END:
            self._finish(status.error)
        elif status.on_consume not in _MEANINGLESS:
            self._troubles.append((self._received - self._dropped, status.error))
            self._arrived.wake()

    def _on_heartbeat(self, status: Status, reply: bytes) -> None:
        """A heartbeat; or with a reply the question of flow control."""
        asked = reply
        if status.stalled:
            try:
                asked = check_subject(status.stalled, "Nats-Consumer-Stalled")
            except UsageError as error:
                self.notify(error)
        if asked:
            self._flow.asked(asked, self._received - self._dropped)
            self._arrived.wake()
        if status.last_consumer is not None and not self._config.deliver_group:
            self._on_last(status.last_consumer, status.last_stream or 0)

    def _on_last(self, consumer: int, stream: int) -> None:
        gap = self._gaps.heartbeat(consumer, stream)
        if gap is not None:
            self._report_gap(gap)

    def _report_gap(self, gap: Gap) -> None:
        self.notify(
            MessageGap(
                f"{gap.received - gap.expected} deliveries of {self._name} did not arrive, from its "
                f"{gap.expected}. on, before sequence {gap.stream_sequence} of {self._stream}",
                expected=gap.expected,
                received=gap.received,
                stream_sequence=gap.stream_sequence,
                hint="With acknowledgements they come again after ack_wait; ordered=True repairs it at once",
            )
        )

    def _finish(self, error: Error) -> None:
        """No more can come: readers get what is buffered, then the error."""
        self._leave()
        if self._task is not None:
            self.notify(error)
        self.closed(error)

    def _leave(self) -> None:
        self._connection.session.unsubscribe(self)
        self._connection.session.forget(self)

    async def _at_end(self) -> None:
        """The reader has read everything, and handled it: nothing is acknowledged after this."""


def _is_status(frame: MsgFrame) -> bool:
    """Whether the server speaks. What comes from a stream can be acknowledged, whatever it looks like."""
    return not frame.data and has_status(frame.header) and not frame.reply.startswith(_ACK)


def _is_acknowledgeable(frame: MsgFrame) -> bool:
    try:
        parse_metadata(frame.reply)
    except NotJetStreamMessage:
        return False
    return True
