"""The sequence check: gaps in the deliveries of a consumer, found by its own numbering. No I/O, no clock.

Every delivery has a number, in its acknowledgement subject, and heartbeats name the last one. A consumer
numbers each delivery, redeliveries too, so a missing number was sent and did not arrive. Push subscriptions
report gaps; ordered readers repair them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jetspark.jetstream.message.metadata import SequencePair

__all__ = ["Gap", "Gaps"]


class Gap(NamedTuple):
    """The missing deliveries: from `expected` up to, and without, `received`."""

    expected: int
    received: int
    #: The stream sequence of `received`, or of the heartbeat that revealed the gap.
    stream_sequence: int


class Gaps:
    """Follows the deliveries of one consumer. `expected` is the next number, None while it is unknown."""

    __slots__ = ("expected",)

    def __init__(self, expected: int | None) -> None:
        self.expected = expected

    def follows(self, first: SequencePair, last: SequencePair, count: int) -> bool:
        """Count deliveries from `first` to `last` as received, if they are the next; False if not."""
        if first.consumer != self.expected or last.consumer != first.consumer + count - 1:
            return False
        self.expected = last.consumer + 1
        return True

    def delivered(self, sequences: Iterable[SequencePair]) -> list[Gap]:
        """The gaps before and among these deliveries.

        A lower number than expected is not a gap: the consumer was reset. Counting continues from there.
        """
        gaps = []
        for sequence in sequences:
            if self.expected is not None and sequence.consumer > self.expected:
                gaps.append(Gap(self.expected, sequence.consumer, sequence.stream))
            self.expected = sequence.consumer + 1
        return gaps

    def heartbeat(self, last_consumer: int, last_stream: int) -> Gap | None:
        """The gap that a heartbeat reveals: the server sent it after all deliveries up to `last_consumer`.

        Each gap is found once. A heartbeat with a lower number was overtaken by later messages.
        """
        following = last_consumer + 1
        if self.expected is None:
            self.expected = following
        elif following > self.expected:
            gap = Gap(self.expected, following, last_stream)
            self.expected = following
            return gap
        return None
