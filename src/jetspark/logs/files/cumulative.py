"""Acknowledges messages of a consumer with ack policy `all`: one acknowledgement covers all earlier ones.

It must not cover a message that is not on disk: one that was lost with a connection, or that another reader
has. Such a message leaves a gap in the sequences of the consumer; before the first batch, there may be any
number of them. After a gap, nothing is acknowledged until the server waits for exactly the messages that
were received here. Until then it redelivers: missing messages are written, known ones are skipped.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from datetime import datetime
from operator import ne
from typing import Final

from jetspark.errors import Error
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.message.delivered import JetStreamMsg

__all__ = ["CumulativeAck"]

#: Seconds that an acknowledgement may need at the server. It reports the message as pending until then.
_MOMENT: Final = 0.1


class CumulativeAck:
    """The messages that were received and are not acknowledged yet, by their stream sequences."""

    def __init__(self, consumer: Consumer, *, every: int, interval: float) -> None:
        self._consumer = consumer
        self._every = every
        self._interval = interval
        # When the consumer was created: another one has other sequences.
        self._created: datetime | None = None
        self._written: set[int] = set()
        self._unwritten: set[int] = set()
        # The written message to acknowledge next, since when one waits, and the last acknowledged sequence.
        self._last: JetStreamMsg | None = None
        self._since = 0.0
        self._acked = 0
        # Whether every delivered message was received here, and the consumer sequence of the next one.
        self._complete = False
        self._next = 0
        #: The number of delivered messages that were not received here.
        self.missing = 0

    @property
    def waiting(self) -> bool:
        """Whether written messages wait for their acknowledgement."""
        return self._last is not None

    @property
    def due(self) -> float | None:
        """When to acknowledge, by the monotonic clock; None if nothing may be acknowledged."""
        return self._since + self._interval if self._last is not None and self._covered(self._last) else None

    async def receive(self, messages: Sequence[JetStreamMsg]) -> None:
        """Look for gaps before these messages. If there is one, compare with the server."""
        sequences = [message.metadata.sequence for message in messages]
        received = {sequence.stream for sequence in sequences}
        following = range(self._next, self._next + len(sequences))
        if self._unwritten or any(map(ne, following, (each.consumer for each in sequences))):
            self._complete = False
        self._next = sequences[-1].consumer + 1
        self._unwritten |= received
        if not self._complete:
            await self._compare(received)

    async def _compare(self, received: set[int]) -> None:
        """Compare the received messages with those that the server waits for."""
        try:
            info = await self._consumer.info()
            if info.num_ack_pending > len(self._written | self._unwritten):
                await asyncio.sleep(_MOMENT)
                info = await self._consumer.info()
        except Error as error:
            if not error.transient:
                raise
            return
        if info.created != self._created:
            self._forget(received)
            self._created = info.created
        floor, pending = info.ack_floor.stream_seq, info.num_ack_pending
        self._acked = min(self._acked, floor)
        self._written = {sequence for sequence in self._written if sequence > floor}
        self._unwritten = {sequence for sequence in self._unwritten if sequence > floor}
        here = len(self._written | self._unwritten)
        self.missing = max(pending - here, 0)
        self._complete = pending == here
        if pending < here:
            # Some were deleted from the stream. The server redelivers those that it still waits for.
            self._forget(received)

    def _forget(self, received: set[int]) -> None:
        """Forget all messages but those that were received last."""
        self._written, self._unwritten, self._last, self._acked = set(), received, None, 0

    def knows(self, message: JetStreamMsg) -> bool:
        """Whether the message is on disk already."""
        metadata = message.metadata
        sequence = metadata.sequence.stream
        # The server may redeliver a message while its acknowledgement is in flight.
        return sequence in self._written or (sequence <= self._acked and metadata.num_delivered > 1)

    def add(self, messages: Sequence[JetStreamMsg]) -> None:
        """Add messages that are written or settled, in order. Acknowledges when there are enough."""
        for message in messages:
            sequence = message.metadata.sequence.stream
            self._unwritten.discard(sequence)
            if message.settled:
                continue
            self._written.add(sequence)
            if self._last is None:
                self._since = time.monotonic()
            if self._last is None or sequence >= self._last.metadata.sequence.stream:
                self._last = message
        if len(self._written) >= self._every:
            self.ack()

    def hold(self, messages: Sequence[JetStreamMsg]) -> None:
        """Add written messages that follow a missing one. The server redelivers it unless it was deleted."""
        sequences = {message.metadata.sequence.stream for message in messages}
        self._written |= sequences
        self._unwritten -= sequences
        self._complete = False

    def covers(self, message: JetStreamMsg) -> bool:
        """Whether an acknowledgement or a term of this message covers only messages on disk."""
        sequence = message.metadata.sequence.stream
        before = self._last is None or self._last.metadata.sequence.stream < sequence
        return before and self._complete and sequence <= min(self._unwritten, default=sequence)

    def ack_if_due(self) -> None:
        """Acknowledge if it is due."""
        if self.due is not None and time.monotonic() >= self.due:
            self.ack()

    def ack(self) -> bool:
        """Acknowledge the written messages. Returns False if an earlier one is not written."""
        if self._last is None:
            return True
        if not self._covered(self._last):
            return False
        self._last.ack()
        self._acked = acked = self._last.metadata.sequence.stream
        self._written = {sequence for sequence in self._written if sequence > acked}
        self._last = None
        return True

    def _covered(self, message: JetStreamMsg) -> bool:
        """Whether everything before this written message is on disk."""
        first = min(self._unwritten, default=math.inf)
        return self._complete and message.metadata.sequence.stream < first
