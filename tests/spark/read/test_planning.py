"""How a batch is cut and how much it takes, with any numbers: nothing is dropped, repeated or starved."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.read.ranges import StreamRange
from jetspark.spark.read.planning import Backlog, Limits, admit, plan_tasks
from tests.support.cases import for_each

CREATED = datetime(2026, 1, 31, tzinfo=UTC)


def stream_range(first_seq: int, next_seq: int, stream: str = "A") -> StreamRange:
    return StreamRange(stream=stream, created=CREATED, first_seq=first_seq, next_seq=next_seq)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[StreamRange]:
    """Ranges of several streams, some of them empty."""
    names = draw(st.lists(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), unique=True, max_size=26))
    first = st.integers(1, 2**40)
    size = st.integers(0, 200) | st.integers(0, 2_000_000)
    return [stream_range(start := draw(first), start + draw(size), name) for name in names]


counts = st.none() | st.integers(1, 300)
# Bounds that keep the number of tasks small.
sizes = st.none() | st.integers(50_000, 10**9)


@given(some_ranges(), st.integers(1, 64), counts, sizes)
def test_tasks_cover_the_ranges_exactly_once_and_in_order(
    ranges: list[StreamRange], parallelism: int, min_partitions: int | None, max_messages: int | None
) -> None:
    tasks = plan_tasks(
        ranges, parallelism=parallelism, min_partitions=min_partitions, max_messages=max_messages
    )
    pieces = [piece for task in tasks for piece in task]
    assert all(len(piece) > 0 for piece in pieces)
    for whole in ranges:
        position = whole.first_seq
        for piece in (each for each in pieces if each.stream == whole.stream):
            assert (piece.first_seq, piece.created) == (position, whole.created)
            position = piece.next_seq
        assert position == whole.next_seq
    order = [whole.stream for whole in ranges]
    assert [piece.stream for piece in pieces] == sorted((p.stream for p in pieces), key=order.index)
    for task in tasks:
        assert len({piece.stream for piece in task}) == len(task) > 0


@given(some_ranges(), st.integers(1, 64), counts, sizes)
def test_tasks_keep_to_the_limits_and_are_even(
    ranges: list[StreamRange], parallelism: int, min_partitions: int | None, max_messages: int | None
) -> None:
    tasks = plan_tasks(
        ranges, parallelism=parallelism, min_partitions=min_partitions, max_messages=max_messages
    )
    total = sum(map(len, ranges))
    weights = [sum(map(len, task)) for task in tasks]
    assert all(weight <= (max_messages or 250_000) for weight in weights)
    assert len(tasks) >= min(min_partitions or 0, total)
    if min_partitions is None:
        assert len(tasks) <= max(parallelism, -(-total // (max_messages or 250_000)))
    # A range counts as much as 200 sequences; there are at most 26.
    assert max(weights, default=0) - min(weights, default=0) <= 200 * 26 + 1


@given(st.integers(1, 200), st.integers(1, 50))
def test_the_smallest_limit_gives_a_task_to_every_few_messages(size: int, max_messages: int) -> None:
    tasks = plan_tasks([stream_range(7, 7 + size)], parallelism=2, max_messages=max_messages)
    assert len(tasks) == math.ceil(size / max_messages)


@for_each(
    ("size", "options", "tasks"),
    [
        (0, {}, 0),
        (1, {}, 1),
        (10_000, {}, 1),
        (10_001, {}, 2),
        (15_000, {}, 2),
        (500_000, {}, 2),
        (500_001, {}, 3),
        (100, {"min_partitions": 1}, 1),
        (100, {"min_partitions": 7}, 7),
        (3, {"min_partitions": 7}, 3),
        (100, {"min_partitions": 2, "max_messages": 10}, 10),
        (100, {"min_partitions": 20, "max_messages": 10}, 20),
        (1_000_000, {"max_messages": 1_000_000}, 2),
        (1_000_000, {"min_partitions": 1, "max_messages": 1_000_000}, 1),
    ],
    ids=str,
)
def test_on_two_cores_there_are_as_many_tasks_as_are_worth_it(
    size: int, options: dict[str, int], tasks: int
) -> None:
    planned = plan_tasks([stream_range(1, 1 + size)], parallelism=2, **options)
    assert len(planned) == tasks
    sizes = [len(piece) for task in planned for piece in task]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_a_small_stream_beside_a_large_one_gets_no_task_of_its_own() -> None:
    tasks = plan_tasks([stream_range(1, 90_001, "A"), stream_range(1, 11, "B")], parallelism=4)
    assert [[piece.stream for piece in task] for task in tasks] == [["A"], ["A"], ["A"], ["A", "B"]]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [500, 500]),
        ({"min_partitions": 4}, [250, 250, 250, 250]),
        ({"max_messages": 300}, [100] * 10),
    ],
    ids=str,
)
def test_a_thousand_small_streams_share_a_few_tasks(options: dict[str, int], sizes: list[int]) -> None:
    ranges = [stream_range(1, 4, f"S{number}") for number in range(1000)]
    tasks = plan_tasks(ranges, parallelism=2, **options)
    assert [sum(map(len, task)) for task in tasks] == pytest.approx([3 * size for size in sizes], abs=3)
    assert sum(map(len, tasks)) <= 1000 + len(tasks)


def test_more_tasks_than_small_streams_are_cut_by_message() -> None:
    tasks = plan_tasks([stream_range(1, 4, "A"), stream_range(1, 4, "B")], parallelism=2, min_partitions=6)
    assert [[(piece.stream, piece.first_seq, piece.next_seq) for piece in task] for task in tasks] == [
        [(name, first, first + 1)] for name in "AB" for first in (1, 2, 3)
    ]


backlogs = st.dictionaries(
    st.sampled_from("ABCDEFGH"),
    st.builds(
        Backlog,
        st.integers(-5, 50) | st.integers(0, 10**9),
        st.floats(0, 1e7, allow_nan=False, allow_infinity=False),
    ),
)
limits = st.none() | st.integers(1, 60) | st.integers(1, 10**10)


@given(backlogs, limits, limits)
def test_a_batch_keeps_to_its_limits_and_always_gets_on(
    waiting: dict[str, Backlog], max_messages: int | None, max_bytes: int | None
) -> None:
    taken = admit(waiting, Limits(max_messages, max_bytes))
    assert taken.keys() == waiting.keys()
    assert all(0 <= taken[name] <= max(backlog.messages, 0) for name, backlog in waiting.items())
    total, available = sum(taken.values()), sum(max(backlog.messages, 0) for backlog in waiting.values())
    if available:
        assert total >= 1
    if max_messages is not None:
        assert total <= max_messages
    if max_bytes is None:
        assert total == min(available, max_messages or available)


@given(backlogs, st.integers(1, 10**10))
def test_without_a_limit_of_messages_as_much_is_taken_as_weighs_so_many_bytes_on_average(
    waiting: dict[str, Backlog], max_bytes: int
) -> None:
    taken = sum(admit(waiting, Limits(max_bytes=max_bytes)).values())
    available = [backlog for backlog in waiting.values() if backlog.messages > 0]
    messages = sum(backlog.messages for backlog in available)
    weight = sum(backlog.messages * backlog.weight for backlog in available)
    if weight <= max_bytes:
        assert taken == messages
    else:
        fitting = messages * max_bytes / weight
        assert max(1, math.floor(fitting * (1 - 1e-9))) <= taken <= max(1, math.ceil(fitting * (1 + 1e-9)))


@given(backlogs, limits, limits)
def test_where_there_is_room_for_all_streams_each_gets_on(
    waiting: dict[str, Backlog], max_messages: int | None, max_bytes: int | None
) -> None:
    taken = admit(waiting, Limits(max_messages, max_bytes))
    moving = [name for name, backlog in waiting.items() if backlog.messages > 0]
    if sum(taken.values()) >= len(moving):
        assert all(taken[name] for name in moving)


@given(backlogs, st.integers(1, 60))
def test_a_fuller_stream_gets_on_at_least_as_fast(waiting: dict[str, Backlog], max_messages: int) -> None:
    taken = admit(waiting, Limits(max_messages))
    for one, other in ((a, b) for a in waiting for b in waiting):
        if waiting[one].messages > waiting[other].messages:
            assert taken[one] >= taken[other] - 1


@given(
    st.dictionaries(st.sampled_from("ABCDEFGH"), st.integers(1, 20), min_size=1),
    st.integers(1, 12),
    st.integers(0, 10**6),
)
def test_with_less_room_than_streams_they_take_turns(
    waiting: dict[str, int], max_messages: int, position: int
) -> None:
    served: set[str] = set()
    for _ in range(-(-len(waiting) // max_messages)):
        # As many messages arrive as are taken, so no stream is ever finished.
        taken = admit(
            {name: Backlog(count, 1.0) for name, count in waiting.items()},
            Limits(max_messages),
            position=position,
        )
        served |= {name for name in waiting if taken[name]}
        position += sum(taken.values())
    assert served == waiting.keys()


@given(backlogs, st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_same_backlog_gives_the_same_batch_whatever_its_order(
    waiting: dict[str, Backlog], max_messages: int, max_bytes: int
) -> None:
    turned = dict(reversed(waiting.items()))
    assert admit(waiting, Limits(max_messages, max_bytes)) == admit(turned, Limits(max_messages, max_bytes))
