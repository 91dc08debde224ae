"""How much a batch reads, and how it is split into tasks. Pure: numbers in, numbers out.

All limits count sequences. A stream has gaps and filters skip messages, so a range holds at most as many
messages as sequences: a limit is never exceeded, but not always used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from jetspark.jetstream.read.ranges import StreamRange

__all__ = ["Backlog", "Limits", "admit", "plan_tasks"]

#: A smaller task costs more to start than it saves.
_WORTH_A_TASK: Final = 10_000
#: What a further range adds to a task, in sequences of the same cost.
_RANGE: Final = 200
#: The default maximum of a task: a retry repeats little, and the work spreads evenly.
_MAX_MESSAGES: Final = 250_000


def plan_tasks(
    ranges: Sequence[StreamRange],
    *,
    parallelism: int,
    min_partitions: int | None = None,
    max_messages: int | None = None,
) -> list[list[StreamRange]]:
    """Cut ranges into tasks of the same cost: together the same sequences, each exactly once, in order.

    A task has one or more ranges, each of another stream, and at most `max_messages` sequences. There are at
    least `min_partitions` tasks, as far as there are sequences; by default one per core, as long as a task is
    worth its start.
    """
    ranges = [each for each in ranges if len(each)]
    total = sum(map(len, ranges))
    if not total:
        return []
    largest = max_messages or _MAX_MESSAGES
    wanted = min_partitions
    if wanted is None:
        wanted = min(parallelism, _ceil(total + _RANGE * (len(ranges) - 1), _WORTH_A_TASK))
    count = min(max(wanted, _ceil(total, largest)), total)
    tasks = _cut(ranges, count, _RANGE)
    if not all(tasks) or any(sum(map(len, task)) > largest for task in tasks):
        tasks = _cut(ranges, count, 0)  # By sequences alone, the options can always be kept.
    return tasks


def _cut(ranges: Sequence[StreamRange], count: int, cost: int) -> list[list[StreamRange]]:
    """`count` tasks of the same weight: their sequences, and `cost` for every range but the first of all."""
    tasks: list[list[StreamRange]] = [[] for _ in range(count)]
    weight = sum(map(len, ranges)) + cost * (len(ranges) - 1)
    index = start = 0
    for each in ranges:
        # The sequences of this range weigh [start, end); a task ends where its share of the weight does.
        end = start + len(each)
        first_seq = each.first_seq
        while first_seq < each.next_seq:
            share = weight * (index + 1) // count
            next_seq = each.next_seq - max(end - share, 0)
            if next_seq > first_seq:
                piece = msgspec.structs.replace(each, first_seq=first_seq, next_seq=next_seq)
                tasks[index].append(piece)
                first_seq = next_seq
            if share <= end:
                index += 1
        start = end + cost
    return tasks


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
    left = limit - sum(taken.values())
    for name in sorted(waiting, key=lambda name: taken[name] - waiting[name].messages)[:left]:
        taken[name] += 1
    return taken


def _ceil(amount: int, parts: int) -> int:
    return -(-amount // parts)
