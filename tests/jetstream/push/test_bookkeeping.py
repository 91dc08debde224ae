"""The counting of subscriptions: flow control, gaps, heartbeats, deadlines. Chosen cases, then any case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.heartbeat import Heartbeat
from jetspark.jetstream.message.metadata import SequencePair
from jetspark.jetstream.push.flow_control import FlowControl
from jetspark.jetstream.push.gaps import Gap, Gaps
from jetspark.jetstream.subscribe.classic_fetch import lingering_time


def pairs(*numbers: int) -> list[SequencePair]:
    """Deliveries of these numbers; the stream is a hundred ahead."""
    return [SequencePair(number + 100, number) for number in numbers]


# --- flow control


def test_a_request_waits_for_the_messages_before_it() -> None:
    flow = FlowControl()
    flow.asked(b"fc.1", 3)
    assert flow.position == 3
    assert flow.due(2) == []
    assert flow.due(3) == [b"fc.1"]
    assert flow.position is None
    assert flow.due(4) == []


def test_a_request_behind_no_message_is_due_at_once() -> None:
    flow = FlowControl()
    flow.asked(b"fc.1", 0)
    assert flow.due(0) == [b"fc.1"]


@pytest.mark.parametrize("answered", [True, False])
def test_a_subject_is_answered_once_however_often_it_is_repeated(answered: bool) -> None:
    flow = FlowControl()
    flow.asked(b"fc.1", 0)
    found = flow.due(0) if answered else []
    flow.asked(b"fc.1", 5)
    flow.asked(b"fc.1", 9)
    assert [*found, *flow.due(100)] == [b"fc.1"]


def test_of_too_many_requests_the_latest_are_kept() -> None:
    flow = FlowControl()
    for number in range(1000):
        flow.asked(b"fc.%d" % number, 1)
    assert flow.due(1) == [b"fc.%d" % number for number in range(936, 1000)]


def test_after_a_reconnect_a_repeated_subject_is_answered_again() -> None:
    flow = FlowControl()
    flow.asked(b"fc.1", 0)
    flow.due(0)
    flow.asked(b"fc.2", 4)
    flow.forget()
    assert flow.position is None
    flow.asked(b"fc.1", 0)
    assert flow.due(0) == [b"fc.1"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_every_request_is_answered_once_in_order_and_never_early(steps: list[tuple[int, int]]) -> None:
    flow = FlowControl()
    queued = taken = 0
    asked: list[tuple[int, bytes]] = []
    answered: list[bytes] = []
    for number, (arriving, taking) in enumerate(steps):
        queued += arriving
        asked.append((queued, b"fc.%d" % number))
        flow.asked(asked[-1][1], queued)
        taken = min(queued, taken + taking)
        for subject in flow.due(taken):
            position = {s: p for p, s in asked}[subject]
            assert position <= taken
            answered.append(subject)
        assert flow.position is None or flow.position > taken
    answered += flow.due(queued)
    assert answered == [subject for _, subject in asked]


# --- gaps


def test_deliveries_that_follow_have_no_gap() -> None:
    gaps = Gaps(1)
    assert gaps.delivered(pairs(1, 2, 3)) == []
    assert gaps.expected == 4


def test_a_skipped_number_is_a_gap() -> None:
    gaps = Gaps(1)
    assert gaps.delivered(pairs(1, 4, 5, 7)) == [Gap(2, 4, 104), Gap(6, 7, 107)]
    assert gaps.expected == 8


def test_the_first_delivery_of_an_existing_consumer_is_not_a_gap() -> None:
    gaps = Gaps(None)
    assert gaps.delivered(pairs(50)) == []
    assert gaps.delivered(pairs(52)) == [Gap(51, 52, 152)]


def test_a_consumer_that_was_reset_has_no_gap() -> None:
    gaps = Gaps(10)
    assert gaps.delivered(pairs(3, 4)) == []
    assert gaps.expected == 5


def test_a_heartbeat_reveals_a_gap_once() -> None:
    gaps = Gaps(3)
    assert gaps.heartbeat(2, 102) is None
    assert gaps.heartbeat(5, 105) == Gap(3, 6, 105)
    assert gaps.heartbeat(5, 105) is None
    assert gaps.delivered(pairs(6)) == []


def test_a_heartbeat_that_was_overtaken_changes_nothing() -> None:
    gaps = Gaps(10)
    assert gaps.heartbeat(4, 104) is None
    assert gaps.expected == 10


def test_the_first_heartbeat_of_an_existing_consumer_gives_its_position() -> None:
    gaps = Gaps(None)
    assert gaps.heartbeat(7, 107) is None
    assert gaps.delivered(pairs(9)) == [Gap(8, 9, 109)]


@given(
    st.integers(1, 50),
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_every_lost_delivery_is_found_however_the_reads_are_cut(
    first: int, arrives: list[bool], sizes: list[int]
) -> None:
    """Deliveries of which some are lost; what is reported is exactly what is missing before the last."""
    numbers = [first + index for index, arrived in enumerate(arrives) if arrived]
    gaps = Gaps(first)
    found: list[Gap] = []
    start = turn = 0
    while start < len(numbers):
        size = sizes[turn % len(sizes)]
        run = pairs(*numbers[start : start + size])
        if not gaps.follows(run[0], run[-1], len(run)):
            found += gaps.delivered(run)
        start, turn = start + size, turn + 1
    last = gaps.heartbeat(first + len(arrives) - 1, 0)
    found += [last] if last is not None else []
    missing = [number for gap in found for number in range(gap.expected, gap.received)]
    assert missing == [first + index for index, arrived in enumerate(arrives) if not arrived]


# --- heartbeats


def test_a_heartbeat_is_missed_after_the_allowed_time() -> None:
    heartbeat = Heartbeat(3.0, now=10.0)
    assert not heartbeat.missed(12.9, due=12.9)
    assert heartbeat.missed(13.0, due=13.0)


def test_missed_heartbeats_are_reported_as_long_as_the_server_is_silent() -> None:
    heartbeat = Heartbeat(3.0, now=0.0)
    assert [heartbeat.missed(t, due=t) for t in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


def test_anything_received_ends_the_silence() -> None:
    heartbeat = Heartbeat(3.0, now=0.0)
    heartbeat.last_seen = 2.5
    assert not heartbeat.missed(5.0, due=5.0)
    assert heartbeat.missed(5.5, due=5.5)


def test_the_time_in_which_the_program_blocked_does_not_count() -> None:
    heartbeat = Heartbeat(3.0, now=0.0)
    assert not heartbeat.missed(now=60.0, due=1.0)
    assert not heartbeat.missed(now=61.0, due=61.0)
    assert heartbeat.missed(now=62.0, due=62.0)


@given(st.floats(0.1, 10), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=50))
def test_a_server_that_is_heard_often_enough_never_misses_a_heartbeat(
    allowed: float, waits: list[float]
) -> None:
    heartbeat = Heartbeat(allowed, now=0.0)
    now = 0.0
    for wait in waits:
        now += min(wait, allowed / 2)
        assert not heartbeat.missed(now, due=now)
        heartbeat.last_seen = now


# --- the time of a fetch


@given(st.floats(0.001, 1e6))
def test_a_request_lingers_for_less_than_the_client_waits(seconds: float) -> None:
    assert 0 < lingering_time(seconds) < seconds
    assert seconds - lingering_time(seconds) <= 0.1 + 1e-6
