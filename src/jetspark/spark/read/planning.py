"""How much a batch reads, and how it is split into tasks. Pure: numbers in, numbers out.

All limits count sequences. A stream has gaps and filters skip messages, so a range holds at most as many
messages as sequences: a limit is never exceeded, but not always used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from jetspark.jetstream.read.ranges import StreamRange

__all__ = ["Backlog", "Limits", "admit", "split_ranges"]

#: A smaller task costs more to start than it saves.
_WORTH_A_TASK: Final = 10_000
#: The default maximum of a task: a retry repeats little, and the work spreads evenly.
_MAX_MESSAGES: Final = 250_000


def split_ranges(
    ranges: Sequence[StreamRange],
    *,
    parallelism: int,
    min_partitions: int | None = None,
    max_messages: int | None = None,
) -> list[StreamRange]:
    """Split ranges into tasks: together the same sequences, each exactly once, in order.

    A task has at most `max_messages` sequences. There are at least `min_partitions` tasks, as far as there
    are sequences; by default one per core, as long as a task is worth its start.
    """
    total = sum(map(len, ranges))
    if not total:
        return []
    if min_partitions is None:
        size = max(_ceil(total, parallelism), _WORTH_A_TASK)
    else:
        size = _ceil(total, min_partitions)
    size = min(size, max_messages or _MAX_MESSAGES)
    counts = [_ceil(len(each), size) for each in ranges]
    # Rounding leaves at most one task per range too few; the largest ones are split once more.
    while min_partitions is not None and sum(counts) < min(min_partitions, total):
        largest = max(range(len(ranges)), key=lambda i: (len(ranges[i]) / max(counts[i], 1), -i))
        counts[largest] += 1
    return [piece for each, count in zip(ranges, counts, strict=True) for piece in _split(each, count)]


def _split(whole: StreamRange, count: int) -> list[StreamRange]:
    """`count` pieces, none of them empty; their sizes differ by at most one."""
    bounds = [whole.first_seq + len(whole) * index // count for index in range(count + 1)] if count else []
    return [
        msgspec.structs.replace(whole, first_seq=first, next_seq=following)
        for first, following in pairwise(bounds)
    ]


class Backlog(NamedTuple):
    """The unread part of a stream."""

    #: Sequences.
    messages: int
    #: Average bytes of a message.
    weight: float


class Limits(NamedTuple):
    """How much a batch may take."""

    max_messages: int | None = None
    max_bytes: int | None = None


def admit(backlogs: Mapping[str, Backlog], limits: Limits, *, position: int = 0) -> dict[str, int]:
    """How many sequences of each stream a batch takes, within the limits.

    Every stream gets one, and the rest is shared in proportion to the backlogs. The byte limit uses the
    average weight, so it is approximate; at least one message is always taken. If there are more streams than
    messages allowed, the streams take turns: `position` is the sum of all sequences already read.
    """
    waiting = {name: backlog for name, backlog in sorted(backlogs.items()) if backlog.messages > 0}
    taken = dict.fromkeys(sorted(backlogs), 0)
    total = sum(backlog.messages for backlog in waiting.values())
    limit = total if limits.max_messages is None else min(total, limits.max_messages)
    if limits.max_bytes is not None:
        weight = sum(backlog.messages * backlog.weight for backlog in waiting.values())
        if weight > limits.max_bytes:
            limit = min(limit, max(int(total * limits.max_bytes / weight), 1))
    if limit >= total:
        return taken | {name: backlog.messages for name, backlog in waiting.items()}
    turn = position % len(waiting)
    for name in [*list(waiting)[turn:], *list(waiting)[:turn]][:limit]:
        taken[name] = 1
    left, rest = limit - sum(taken.values()), total - len(waiting)
    if left > 0:
        for name, backlog in waiting.items():
            taken[name] += (backlog.messages - 1) * left // rest
    # Rounding leaves at most one per stream.
    for name in sorted(waiting, key=lambda name: taken[name] - waiting[name].messages):
        if sum(taken.values()) < limit:
            taken[name] += 1
    return taken


def _ceil(amount: int, parts: int) -> int:
    return -(-amount // parts)
