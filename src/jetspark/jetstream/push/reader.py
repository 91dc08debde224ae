"""The reading side of a push subscription: the queue of messages, and the statuses between them.

Statuses never reach the user. Flow control requests and errors of the server have a position among the
messages: when the reader gets there, a request is answered, and an error is raised, or reported if there is a
callback. Heartbeats are handled when they arrive: they prove that the server is alive, and reveal gaps.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from typing import Final

from jetspark.core.callbacks import cancelled_inside
from jetspark.core.connection import Connection
from jetspark.core.subscription import Subscription
from jetspark.errors import Error, MessageGap, RemoteProtocolError, Timeout, UsageError
from jetspark.jetstream.heartbeat import HeartbeatMonitor
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.message.foreign import Foreign
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.status import OnPush, Status, classify
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.on_error import Reporter
from jetspark.jetstream.pull.iterate import Handler
from jetspark.jetstream.push.flow_control import FlowControl
from jetspark.jetstream.push.gaps import Gap, Gaps
from jetspark.jetstream.push.options import PushOptions
from jetspark.wire import MsgFrame, pub, redeliveries, total_size
from jetspark.wire.headers import has_status
from jetspark.wire.subjects import check_subject

__all__ = ["PushReader"]

_ACK: Final = b"$JS.ACK."
_FLOW_CONTROL: Final = b"$JS.FC."
#: Messages after which a callback that never awaits yields to the event loop.
_YIELD_EVERY: Final = 256
#: Errors of the server that wait for the reader; more are left out.
_MOST_ERRORS: Final = 64


class PushReader(Subscription):
    """Queues the messages of a push consumer. The life of the consumer is in `subscription.py`."""

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
        #: Reports an error that no call raises.
        self.notify = Reporter(connection, options.on_error).notify
        self._loop = asyncio.get_running_loop()
        self._flow = FlowControl()
        #: Stream and consumer in the replies of its messages; empty while they are not known.
        self.names = b""
        self._foreign = Foreign(self.notify)
        # Errors of the server, each with the number of messages before it.
        self._errors: deque[tuple[int, Error]] = deque()
        # A new consumer counts its deliveries from 1.
        self._gaps = Gaps(1)
        self._heartbeat: HeartbeatMonitor | None = None
        self._callback = callback
        self._message = connection.class_of(JetStreamMsg)
        # Whether a thread has taken messages and not yet asked for more.
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
        #: Whether a message is acknowledged when the callback returns.
        self.acks_itself = not self._options.manual_ack and not self.settled

    # --- reading

    async def next(self, timeout: float | None = None) -> JetStreamMsg:
        """The next message.

        Raises `Timeout` after `timeout` seconds (by default the connection's `request_timeout`), an error
        status of the server, and, after the last message, `SubscriptionClosed` or the error that closed it.
        """
        self._check_no_callback()
        seconds = self._connection.options.request_timeout if timeout is None else timeout
        deadline = self._loop.time() + seconds
        self._reach()
        if not self._pending and not await self._more(deadline):
            self._raise_if_closed()
            self._reach()
            raise Timeout(f"no message of {self._stream} > {self._name} within {seconds} s")
        return self._take()

    async def __anext__(self) -> JetStreamMsg:
        self._reach()
        if not self._pending and not await self._more(None):
            raise StopAsyncIteration
        return self._take()

    async def take(self, limit: int, timeout: float | None) -> list[MsgFrame]:
        """Up to `limit` queued messages; an empty list after `timeout` seconds without one, or at the end.

        The caller has handled those of the call before, so flow control requests after them are answered.
        """
        deadline = None if timeout is None else self._loop.time() + timeout
        self._lent = False
        self._reach()
        if not await self._more(deadline):
            return []
        marks = [self._flow.position, self._errors[0][0] if self._errors else None]
        limit = min([limit, len(self._pending), *(mark - self._taken for mark in marks if mark is not None)])
        self._lent = True
        frames = [self._pending.popleft() for _ in range(limit)]
        self._pending_bytes -= total_size(frames)
        return frames

    async def _more(self, deadline: float | None) -> bool:
        """Wait for a message. False at the deadline or the end; raises the error that closed it."""
        while not self._pending:
            if self._closed:
                await self._at_end()
                if self._error is not None:
                    raise self._error
                return False
            wait = None if deadline is None else deadline - self._loop.time()
            if not await self._arrived.wait(wait) and not self._pending:
                return False
            self._reach()
        return True

    def _take(self) -> JetStreamMsg:
        frame = self._pending.popleft()
        self._pending_bytes -= frame.size
        return self._message(frame, self._connection, self.settled)

    @property
    def _taken(self) -> int:
        """How many messages were taken out of the queue."""
        return self._received - self._dropped - len(self._pending)

    def _reach(self) -> None:
        """Answer the flow control requests, and raise the error, at the position of the reader."""
        if self._flow.position is not None:
            for subject in self._flow.due(self._taken):
                self._connection.session.outbox.write_control(pub(subject, b"", b""))
        if self._errors and self._errors[0][0] <= self._taken:
            error = self._errors.popleft()[1]
            if self._task is None:
                raise error
            self.notify(error)

    def _start(self) -> None:
        """Start the callback, which runs only after `subscribe` has returned the subscription."""
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
            except asyncio.CancelledError as error:
                self.notify(cancelled_inside(error))
            except Exception as error:
                self.notify(error)
            handled += 1
            if handled % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Queue messages in order, and act on the statuses between them."""
        if self._heartbeat is not None:
            self._heartbeat.seen()
        counts = self._connection.session.tally.consumer(self.names)
        again = redeliveries(frames, self.names)
        if again >= 0:
            counts.add(len(frames), again)
            self._accept(frames)
            return
        run: list[MsgFrame] = []
        foreign = 0
        for frame in frames:
            again = redeliveries([frame], self.names)
            if again >= 0:
                counts.add(1, again)
                run.append(frame)
            elif _is_status(frame):
                self._accept(run)
                run = []
                self._on_status_frame(frame)
            else:
                foreign += 1
        self._accept(run)
        if foreign:
            self._foreign.drop(foreign, f"on {self.subject!r} that {self._name} did not send")

    def _accept(self, frames: list[MsgFrame]) -> None:
        if not frames:
            return
        if not self._config.deliver_group:
            self._count(frames)
        super().deliver(frames)

    def _count(self, frames: list[MsgFrame]) -> None:
        first, last = parse_metadata(frames[0].reply).sequence, parse_metadata(frames[-1].reply).sequence
        if not self._gaps.follows(first, last, len(frames)):
            sequences = [parse_metadata(frame.reply).sequence for frame in frames]
            for gap in self._gaps.delivered(sequences):
                self._report_gap(gap)

    # --- statuses

    def _on_status_frame(self, frame: MsgFrame) -> None:
        try:
            status = classify(frame.header)
        except RemoteProtocolError as error:
            self.notify(error)
            return
        if status.on_push is OnPush.HEARTBEAT:
            self._on_heartbeat(status, frame.reply)
        elif status.on_push is OnPush.END:
            self._finish(status.error)
        elif status.on_push is OnPush.REPORT and len(self._errors) < _MOST_ERRORS:
            self._errors.append((self._received - self._dropped, status.error))
            self._arrived.wake()

    def _on_heartbeat(self, status: Status, reply: bytes) -> None:
        """A heartbeat, or, with a reply subject, a flow control request."""
        asked = reply
        if status.stalled:
            try:
                asked = check_subject(status.stalled, "Nats-Consumer-Stalled")
            except UsageError as error:
                self.notify(error)
        # Any client that knows the deliver subject can ask for an answer to any subject.
        if asked.startswith(_FLOW_CONTROL):
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
                f"{gap.received - gap.expected} deliveries of {self._name} did not arrive, from delivery "
                f"{gap.expected} on, before sequence {gap.stream_sequence} of {self._stream}",
                expected=gap.expected,
                received=gap.received,
                stream_sequence=gap.stream_sequence,
                hint="Unacknowledged messages come again after ack_wait; ordered=True repairs gaps at once",
            )
        )

    def _finish(self, error: Error) -> None:
        """End: readers get the queued messages, then the error."""
        self._leave()
        if self._task is not None:
            self.notify(error)
        self.closed(error)

    def _leave(self) -> None:
        self._connection.session.unsubscribe(self)
        self._connection.session.forget(self)

    async def _at_end(self) -> None:
        """The reader has read and handled everything: nothing is acknowledged after this."""


def _is_status(frame: MsgFrame) -> bool:
    """Whether it is a status. Messages of a stream can be acknowledged, whatever their headers say."""
    return not frame.data and has_status(frame.header) and not frame.reply.startswith(_ACK)
