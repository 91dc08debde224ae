"""How much a batch reads, and how it is cut into tasks. Pure: numbers in, numbers out.

What is counted are sequences. A stream has gaps, and filters leave messages out, so that a range holds at
most as many messages as sequences: limits are kept, if not always used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from jetspark.jetstream.read.stream_range import StreamRange

__all__ = ["Backlog", "admit", "cut"]

#: A task that reads less costs more to start than it saves.
_WORTH_A_TASK: Final = 10_000
#: What a task reads at most by default: what is lost when it fails stays small, and work spreads evenly.
_MAX_MESSAGES: Final = 250_000


def cut(
    ranges: Sequence[StreamRange],
    *,
    parallelism: int,
    min_partitions: int | None = None,
    max_messages: int | None = None,
) -> list[StreamRange]:
    """Cut ranges into pieces for tasks: together the same sequences, each once, in order.

    Every piece has at most `max_messages` sequences, and there are at least `min_partitions` of them as far
    as there are sequences. Not told, it makes as many as can run at once, if that is worth it.
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
    # Rounding leaves at most one piece per range too few; the largest pieces are cut once more.
    while min_partitions is not None and sum(counts) < min(min_partitions, total):
        largest = max(range(len(ranges)), key=lambda i: (len(ranges[i]) / max(counts[i], 1), -i))
        counts[largest] += 1
    return [piece for each, count in zip(ranges, counts, strict=True) for piece in _split(each, count)]


def _split(whole: StreamRange, count: int) -> list[StreamRange]:
    """So many pieces, none of them empty, their sizes at most one apart."""
    bounds = [whole.first_seq + len(whole) * index // count for index in range(count + 1)] if count else []
    return [
        StreamRange(stream=whole.stream, created=whole.created, first_seq=first, next_seq=following)
        for first, following in pairwise(bounds)
    ]


class Backlog(NamedTuple):
    """What waits in a stream: how many sequences, and what a message of it weighs on average."""

    messages: int
    weight: float


def admit(
    backlogs: Mapping[str, Backlog],
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    position: int = 0,
) -> dict[str, int]:
    """How many sequences of each stream a batch takes, within the limits.

    All streams get on, the fuller ones faster: each gets one, then the rest goes by what waits. The limit of
    bytes goes by the average, so that it holds more or less; one message is always taken. Where there is not
    even one for each, they take turns: `position` is how many sequences were passed in all before.
    """
    waiting = {name: backlog for name, backlog in sorted(backlogs.items()) if backlog.messages > 0}
    taken = dict.fromkeys(sorted(backlogs), 0)
    total = sum(backlog.messages for backlog in waiting.values())
    limit = total if max_messages is None else min(total, max_messages)
    if max_bytes is not None:
        weight = sum(backlog.messages * backlog.weight for backlog in waiting.values())
        if weight > max_bytes:
            limit = min(limit, max(int(total * max_bytes / weight), 1))
    if limit >= total:
        return taken | {name: backlog.messages for name, backlog in waiting.items()}
    turn = position % len(waiting)
    for name in [*list(waiting)[turn:], *list(waiting)[:turn]][:limit]:
        taken[name] = 1
    left, rest = limit - sum(taken.values()), total - len(waiting)
    if left > 0:
        for name, backlog in waiting.items():
            taken[name] += (backlog.messages - 1) * left // rest
    # What rounding left over, at most one for each stream.
    for name in sorted(waiting, key=lambda name: taken[name] - waiting[name].messages):
        if sum(taken.values()) < limit:
            taken[name] += 1
    return taken


def _ceil(amount: int, parts: int) -> int:
    return -(-amount // parts)
