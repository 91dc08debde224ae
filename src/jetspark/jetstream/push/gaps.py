"""Gaps in what a push consumer delivers, seen by its own numbering. No I/O, no clock.

Every delivery has a number, in the acknowledgement subject, and heartbeats name the last one. A consumer
counts each delivery, redeliveries too, so a number that is left out was sent and did not arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jetspark.jetstream.message.metadata import SequencePair

__all__ = ["Gap", "Gaps"]


class Gap(NamedTuple):
    """What is missing: deliveries from `expected` up to, and without, `received`."""

    expected: int
    received: int
    #: Where the stream was at `received`, or at the heartbeat that told of the gap.
    stream_sequence: int


class Gaps:
    """Counts along. `expected` is the next delivery, None as long as it is unknown."""

    __slots__ = ("expected",)

    def __init__(self, expected: int | None) -> None:
        self.expected = expected

    def follows(self, first: SequencePair, last: SequencePair, count: int) -> bool:
        """Whether `count` deliveries from `first` to `last` follow without a look at those in between."""
        if first.consumer != self.expected or last.consumer != first.consumer + count - 1:
            return False
        self.expected = last.consumer + 1
        return True

    def delivered(self, sequences: Iterable[SequencePair]) -> list[Gap]:
        """The gaps before and among these deliveries.

        A number that is lower than expected is no gap: the consumer was reset, or its server restarted with
        an older state. It counts on from there.
        """
        gaps = []
        for sequence in sequences:
            if self.expected is not None and sequence.consumer > self.expected:
                gaps.append(Gap(self.expected, sequence.consumer, sequence.stream))
            self.expected = sequence.consumer + 1
        return gaps

    def heartbeat(self, last_consumer: int, last_stream: int) -> Gap | None:
        """The gap that a heartbeat tells of: it was told after all deliveries up to `last_consumer`.

        It is found once. One that names less than what has arrived was overtaken on its way.
        """
        following = last_consumer + 1
        if self.expected is None:
            self.expected = following
        elif following > self.expected:
            gap = Gap(self.expected, following, last_stream)
            self.expected = following
            return gap
        return None
