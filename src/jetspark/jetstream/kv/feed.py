"""A feed: the messages of some subjects of a stream, the current ones first, then each new one; once and in
order.

It reads an ordered consumer, which continues after its last message when a consumer, a leader or a
connection is lost. While the last message of each subject is being read, that would be wrong: later
messages may be the history of a subject. So a feed that is interrupted there asks for the last messages once
more, and drops those that it has returned already.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from jetspark.errors import Error, StreamNotFound
from jetspark.jetstream.api import API
from jetspark.jetstream.kv.backing import await_backing, not_found
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.message.metadata import Metadata, parse_metadata
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.on_error import OnError
from jetspark.jetstream.ordered.pull import OrderedConsumer, pull_buffer
from jetspark.jetstream.pull.buffer import BufferState, PullBuffer
from jetspark.jetstream.retry import retry
from jetspark.wire import MsgFrame

__all__ = ["Feed", "FeedMessage"]

#: Most bytes that are requested or buffered. A larger message gets room for itself.
_MAX_BYTES: Final = 8 * 1024 * 1024
#: Seconds in which the first consumer must be created: an election takes up to 9.
_START_WITHIN: Final = 15.0


class FeedMessage(NamedTuple):
    """A message of a feed."""

    frame: MsgFrame
    metadata: Metadata


class Feed:
    """Reads messages of a stream. Belongs to one event loop."""

    def __init__(
        self,
        api: API,
        stream: str,
        subjects: list[str],
        policy: DeliverPolicy,
        *,
        start_seq: int | None = None,
        headers_only: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        self._api = api
        self._stream = stream
        self._subjects = subjects
        self._policy = policy
        self._start_seq = start_seq
        self._headers_only = headers_only
        self._on_error = on_error
        self._consumer: OrderedConsumer | None = None
        self._buffer: PullBuffer | None = None
        # The consumer whose messages are read until the feed has caught up; empty before its first message.
        self._name = ""
        # How many messages it still had when it was created, and how many have arrived.
        self._left = 0
        self._deliveries = 0
        self._last = 0
        # Another consumer took its place meanwhile.
        self._interrupted = False
        # Messages that arrived together with the last one of the current ones.
        self._held: list[FeedMessage] = []
        #: Whether everything that was stored when it began has been returned.
        self.caught_up = policy is DeliverPolicy.NEW
        #: Whether nothing arrives any more.
        self.ended = False

    async def start(self) -> None:
        """Create the first consumer. Raises the errors of that, and `BucketNotFound` without a stream."""
        await retry(self._open, _START_WITHIN)

    async def take(self, timeout: float | None = None) -> list[FeedMessage]:
        """The messages that have arrived, at least one.

        None of them after `timeout` seconds, when it has ended, and when it has just caught up. Messages from
        before and after that are never returned together. Raises the error that ended it.
        """
        if self._held:
            held, self._held = self._held, []
            return held
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        before = self.caught_up
        while not self.ended:
            left = None if deadline is None else deadline - loop.time()
            found = await (self._follow(left) if before else self._catch_up(left))
            if found or self.caught_up is not before or await self._is_over():
                return found
            if deadline is not None and loop.time() >= deadline:
                break
        return []

    async def stop(self) -> None:
        """End it and delete its consumer."""
        self.ended = True
        self._held.clear()
        if self._buffer is not None:
            await self._buffer.stop()

    # --- the consumer

    async def _open(self) -> None:
        if self.ended:  # Stopped before, or between two attempts.
            return
        consumer = OrderedConsumer(
            self._api,
            self._stream,
            filter_subjects=self._subjects,
            deliver_policy=self._policy,
            opt_start_seq=self._start_seq,
            headers_only=self._headers_only,
        )
        most = max(_MAX_BYTES, 2 * self._api.connection.max_payload)
        buffer = pull_buffer(consumer, {"max_bytes": most, "expires": 30.0}, self._on_error)
        try:
            await buffer.start()
        except StreamNotFound:
            await await_backing(self._api, self._stream)
            await buffer.start()
        if self.ended:  # Stopped meanwhile, when `stop` did not know this buffer.
            await buffer.stop()
            return
        self._consumer, self._buffer, self._name, self._deliveries = consumer, buffer, "", 0
        created = consumer.cached_info
        if created is not None and not created.num_pending:
            self.caught_up = True
        if self.caught_up:
            await self._begin_here()

    async def _begin_here(self) -> None:
        """Let the first new message be the one after the last that existed when the consumer was created.

        A consumer that is replaced before its first message would begin anew, and miss messages that arrived
        meanwhile.
        """
        assert self._consumer is not None
        created = self._consumer.cached_info
        if created is None or self._policy not in (DeliverPolicy.NEW, DeliverPolicy.LAST_PER_SUBJECT):
            return
        self._policy = DeliverPolicy.BY_START_SEQUENCE
        self._start_seq = max(created.delivered.stream_seq, self._last) + 1
        await self._reading.stop()
        await retry(self._open)

    @property
    def _reading(self) -> PullBuffer:
        assert self._buffer is not None, "not started"
        return self._buffer

    async def _is_over(self) -> bool:
        """Whether nothing arrives any more. Raises the error that ended it."""
        if self._reading.state not in (BufferState.OVER, BufferState.STOPPING):
            return False
        error = self._reading.error
        if isinstance(error, StreamNotFound) and not self.ended:
            info = await await_backing(self._api, self._stream, reaching=max(self._last, 1))
            if info.state.last_seq < self._last:
                raise not_found(self._stream, error)  # Another bucket of this name.
            # A server that has just started did not know its streams yet.
            await self._continue()
            return False
        self.ended = True
        if error is not None:
            raise error
        return True

    async def _continue(self) -> None:
        """Continue after the last message that was returned."""
        if self.caught_up or self._policy is not DeliverPolicy.LAST_PER_SUBJECT:
            self._start_seq = self._last + 1 if self._last else self._start_seq
            if self._start_seq is not None:
                self._policy = DeliverPolicy.BY_START_SEQUENCE
        await retry(self._open)

    # --- the messages

    async def _follow(self, timeout: float | None) -> list[FeedMessage]:
        """The next new messages."""
        found = _delivered(await self._reading.take(timeout))
        if found:
            self._last = found[-1].metadata.sequence.stream
        return found

    async def _catch_up(self, timeout: float | None) -> list[FeedMessage]:
        """The next of the current messages; perhaps none."""
        if self._interrupted:
            await self._reading.stop()
            await retry(self._open)
            self._interrupted = False
            return []
        silence = self._api.timing.reading_silence
        frames = await self._reading.take(silence if timeout is None else min(timeout, silence))
        if not frames and self._reading.state is BufferState.RUNNING and await self._nothing_left():
            if not self._name:
                await self._begin_here()
            self.caught_up = True
        found: list[FeedMessage] = []
        for place, frame in enumerate(frames):
            metadata = parse_metadata(frame.reply)
            if not self._name:
                self._name, self._left = metadata.consumer, metadata.num_pending + 1
            elif metadata.consumer != self._name and self._policy is DeliverPolicy.LAST_PER_SUBJECT:
                self._interrupted = True
                break
            self._left -= 1
            self._deliveries = metadata.sequence.consumer
            if metadata.sequence.stream > self._last:
                self._last = metadata.sequence.stream
                found.append(FeedMessage(frame, metadata))
            if self._left <= 0 or not metadata.num_pending:
                self._held = _delivered(frames[place + 1 :])
                if self._held:
                    self._last = self._held[-1].metadata.sequence.stream
                self.caught_up = True
                break
        return found

    async def _nothing_left(self) -> bool:
        """Whether the server has no current message left: those that were missing are deleted by now."""
        assert self._consumer is not None
        current = self._consumer.cached_info
        if current is None:
            return False
        try:
            info = await consumers.info(self._api, self._stream, current.name)
        except Error:
            return False  # The chain behind the ordered consumer notices, too.
        arrived = self._deliveries if current.name == self._name else 0
        return not info.num_pending and info.delivered.consumer_seq == arrived


def _delivered(frames: list[MsgFrame]) -> list[FeedMessage]:
    return [FeedMessage(frame, parse_metadata(frame.reply)) for frame in frames]
