"""Which gaps at the head of a stream are losses, and how they are explained."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from jetspark.errors import DataLoss
from jetspark.jetstream.model.info import StreamState
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.read.loss import cause_of_lost_head, head_may_move
from tests.support.cases import for_each

FULL = StreamState.from_wire({"messages": 5, "bytes": 100, "first_seq": 96, "last_seq": 100})
EMPTY = StreamState.from_wire({"messages": 0, "bytes": 0, "first_seq": 101, "last_seq": 100})


def config(**options: Any) -> StreamConfig:
    return StreamConfig(name="ORDERS", subjects=["orders.>"], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"retention": "workqueue"},
        {"retention": "interest"},
        {"retention": "workqueue", "max_age": 60.0},
    ],
    ids=str,
)
def test_what_is_acknowledged_leaves_its_stream_without_a_loss(options: dict[str, Any]) -> None:
    assert head_may_move(config(**options), FULL)
    assert head_may_move(config(**options), EMPTY)


@pytest.mark.parametrize("options", [{"max_msgs_per_subject": 1}, {"allow_msg_ttl": True}], ids=str)
def test_what_newer_messages_replace_or_a_time_to_live_ends_is_no_loss(options: dict[str, Any]) -> None:
    assert head_may_move(config(**options), FULL)


@for_each(
    "options",
    [
        {},
        {"max_msgs_per_subject": -1},
        {"max_msgs_per_subject": 0},
        {"max_age": 60.0},
        {"max_msgs": 10},
        {"max_bytes": 1000},
        {"max_msgs_per_subject": 1, "max_age": 60.0},
        {"max_msgs_per_subject": 1, "max_msgs": 10},
        {"allow_msg_ttl": True, "max_bytes": 1000},
    ],
    ids=str,
)
def test_what_limits_or_a_purge_take_is_a_loss(options: dict[str, Any]) -> None:
    assert not head_may_move(config(**options), FULL)


@pytest.mark.parametrize("options", [{"max_msgs_per_subject": 1}, {"allow_msg_ttl": True}], ids=str)
def test_when_nothing_is_left_nobody_can_tell_and_it_is_a_loss(options: dict[str, Any]) -> None:
    assert not head_may_move(config(**options), EMPTY)


@for_each(
    ("options", "state", "said"),
    [
        ({}, FULL, "purged; the stream begins at 96 now"),
        ({"max_age": 60.0}, FULL, "removed by max_age=60.0, or purged; the stream begins at 96 now"),
        (
            {"max_msgs": 10, "max_bytes": 1000},
            FULL,
            "removed by max_msgs=10 or max_bytes=1000, or purged; the stream begins at 96 now",
        ),
        ({}, EMPTY, "the stream is empty; it was purged"),
        ({"max_age": 60.0}, EMPTY, "the stream is empty; it was purged or reached max_age=60.0"),
        ({"max_msgs": -1, "max_bytes": 0}, FULL, "purged; the stream begins at 96 now"),
    ],
    ids=str,
)
def test_the_cause_names_the_limits_that_may_have_done_it(
    options: dict[str, Any], state: StreamState, said: str
) -> None:
    assert cause_of_lost_head(config(**options), state) == said


def test_a_loss_names_stream_range_and_cause_and_survives_pickling() -> None:
    lost = DataLoss(stream="ORDERS", first_seq=5, next_seq=9, cause="purged")
    assert str(lost) == "stream ORDERS lost the sequences [5, 9): purged"
    assert str(DataLoss(stream="ORDERS", first_seq=5, next_seq=None, cause="purged")).startswith(
        "stream ORDERS lost the sequences [5, ...)"
    )
    lost.hint = "Look"
    again = pickle.loads(pickle.dumps(lost))
    assert (str(again), again.stream, again.first_seq, again.next_seq) == (str(lost), "ORDERS", 5, 9)
