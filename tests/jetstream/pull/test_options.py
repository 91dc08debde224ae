"""The options of `messages` and `consume`, and of `fetch`: defaults, limits, and what is asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import ConsumerConfig
from jetspark.jetstream.message.status import Exceeded
from jetspark.jetstream.pull.bounds import Bounds
from jetspark.jetstream.pull.options import MOST_BYTES, PullOptions, default_heartbeat
from jetspark.jetstream.pull.request import fetch_request
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

SECOND = 1_000_000_000


# --- messages and consume


def test_the_defaults_are_those_of_the_specification() -> None:
    options = PullOptions()
    assert options.limit == 500
    assert options.unit == "messages"
    assert options.threshold == 250
    assert options.expires == 30
    assert options.heartbeat == 15
    assert options.request(500, None).to_wire() == {
        "batch": 500,
        "max_bytes": 128 * 1024 * 1024,
        "expires": 30 * SECOND,
        "idle_heartbeat": 15 * SECOND,
    }


def test_bytes_ask_for_a_million_messages_so_that_more_than_one_comes() -> None:
    options = PullOptions(max_bytes=4096)
    assert (options.unit, options.limit, options.threshold) == ("bytes", 4096, 2048)
    request = options.request(1000, None)
    assert (request.batch, request.max_bytes) == (1_000_000, 1000)


@pytest.mark.parametrize(("asked", "share"), [(8, MOST_BYTES), (2, MOST_BYTES // 4)])
def test_messages_ask_for_their_share_of_the_bytes_too(asked: int, share: int) -> None:
    request = PullOptions(max_messages=8).request(asked, None)
    assert (request.batch, request.max_bytes) == (asked, share)


def test_messages_ask_for_no_bytes_if_the_consumer_takes_no_such_requests() -> None:
    bounds = Bounds(ConsumerConfig(max_bytes=1000))
    request = PullOptions(max_messages=7, bounds=bounds).request(3, None)
    assert (request.batch, request.max_bytes) == (3, None)


def test_priority_groups_and_the_pin_id_go_into_the_request() -> None:
    options = PullOptions(max_messages=7, group="jobs", priority=2, min_pending=5, min_ack_pending=6)
    wire = options.request(7, "pin").to_wire()
    assert (wire["group"], wire["priority"], wire["id"]) == ("jobs", 2, "pin")
    assert (wire["min_pending"], wire["min_ack_pending"]) == (5, 6)


@for_each(("limit", "threshold"), [(1, 1), (2, 1), (3, 2), (10, 5), (11, 6), (1000, 500)])
def test_the_threshold_is_half_of_the_limit_rounded_up(limit: int, threshold: int) -> None:
    assert PullOptions(max_messages=limit).threshold == threshold
    assert PullOptions(max_bytes=limit).threshold == threshold


@pytest.mark.parametrize("threshold", [0, 1, 10])
def test_thresholds_from_zero_to_the_limit_are_accepted(threshold: int) -> None:
    assert PullOptions(max_messages=10, threshold_messages=threshold).threshold == threshold
    assert PullOptions(max_bytes=10, threshold_bytes=threshold).threshold == threshold
    assert PullOptions(threshold_messages=threshold).threshold == threshold


@for_each(("expires", "heartbeat"), [(1, 0.5), (2, 1), (30, 15), (59, 29.5), (60, 30), (61, 30), (3600, 30)])
def test_the_heartbeat_is_half_of_expires_and_at_most_thirty_seconds(
    expires: float, heartbeat: float
) -> None:
    assert PullOptions(expires=expires).heartbeat == heartbeat


@given(st.floats(min_value=1, max_value=100_000))
def test_the_default_heartbeat_is_never_more_than_half_of_expires_on_the_wire(expires: float) -> None:
    wire = PullOptions(expires=expires).request(1, None).to_wire()
    assert 2 * wire["idle_heartbeat"] <= wire["expires"]
    assert 0.5 * SECOND <= wire["idle_heartbeat"] <= 30 * SECOND


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"max_messages": 10, "max_bytes": 10}, "max_messages and max_bytes"),
    ({"max_messages": 0}, "max_messages"),
    ({"max_messages": -1}, "max_messages"),
    ({"max_messages": 1.5}, "max_messages"),
    ({"max_bytes": 0}, "max_bytes"),
    ({"expires": 0.999}, "expires"),
    ({"expires": 0}, "expires"),
    ({"expires": -1}, "expires"),
    ({"expires": math.nan}, "expires"),
    ({"expires": math.inf}, "expires"),
    ({"idle_heartbeat": 0}, "idle_heartbeat"),
    ({"idle_heartbeat": 0.499}, "idle_heartbeat"),
    ({"idle_heartbeat": 30.1, "expires": 100}, "idle_heartbeat"),
    ({"idle_heartbeat": 2, "expires": 3.9}, "idle_heartbeat"),
    ({"idle_heartbeat": math.nan}, "idle_heartbeat"),
    ({"max_messages": 10, "threshold_messages": 11}, "threshold_messages"),
    ({"max_messages": 10, "threshold_messages": -1}, "threshold_messages"),
    ({"threshold_messages": 501}, "threshold_messages"),
    ({"max_bytes": 10, "threshold_bytes": 11}, "threshold_bytes"),
    ({"max_messages": 10, "threshold_bytes": 5}, "threshold_bytes"),
    ({"max_bytes": 10, "threshold_messages": 5}, "threshold_messages"),
    ({"threshold_bytes": 5}, "threshold_bytes"),
    ({"priority": 10}, "priority"),
    ({"priority": -1}, "priority"),
    ({"min_pending": -1}, "min_pending"),
]


# --- fetch


def test_a_fetch_asks_for_messages_or_for_bytes_or_for_both() -> None:
    request = fetch_request(10, 4096, expires=5.0, idle_heartbeat=None)
    assert request.to_wire() == {"batch": 10, "max_bytes": 4096, "expires": 5 * SECOND}
    request = fetch_request(10, None, expires=5.0, idle_heartbeat=None)
    assert request.to_wire() == {"batch": 10, "expires": 5 * SECOND}
    request = fetch_request(None, 4096, expires=5.0, idle_heartbeat=None)
    assert request.to_wire() == {"batch": 1_000_000, "max_bytes": 4096, "expires": 5 * SECOND}


def test_a_fetch_has_the_heartbeat_that_was_asked_for() -> None:
    assert fetch_request(1, None, expires=31.0, idle_heartbeat=None).idle_heartbeat is None
    assert fetch_request(1, None, expires=5.0, idle_heartbeat=0.1).idle_heartbeat == 0.1


BAD_FETCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "max_messages or max_bytes"),
    ({"max_messages": 0}, "max_messages"),
    ({"max_bytes": 0}, "max_bytes"),
    ({"max_messages": 1, "max_bytes": 0}, "max_bytes"),
    ({"max_messages": 1, "expires": 0}, "expires"),
    ({"max_messages": 1, "expires": -1}, "expires"),
    ({"max_messages": 1, "expires": math.nan}, "expires"),
    ({"max_messages": 1, "expires": math.inf}, "expires"),
    ({"max_messages": 1, "idle_heartbeat": 3}, "idle_heartbeat"),
    ({"max_messages": 1, "idle_heartbeat": -1}, "idle_heartbeat"),
    ({"max_messages": 1, "priority": 10}, "priority"),
]


def test_bad_options_are_refused_with_their_name(golden: Golden) -> None:
    told = Refusals()
    told.section("messages and consume")
    for options, named in BAD_OPTIONS:
        with told.refusal(options, names=named):
            PullOptions(**options)
    told.section("fetch")
    defaults: dict[str, Any] = {
        "max_messages": None,
        "max_bytes": None,
        "expires": 5.0,
        "idle_heartbeat": None,
    }
    for options, named in BAD_FETCHES:
        with told.refusal(options, names=named):
            fetch_request(**defaults | options)
    golden("errors-pull", told.text())


def test_half_a_nanosecond_is_rounded_down() -> None:
    assert 2 * default_heartbeat(0.0000013) <= 0.0000013


# --- the limits of the consumer


@given(
    st.builds(
        dict,
        max_batch=st.none() | st.integers(-1, 1000),
        max_bytes=st.none() | st.integers(-1, 10_000),
        max_expires=st.none() | st.just(0.0) | st.floats(0.001, 100),
    ),
    st.sampled_from(
        [{}, {"max_messages": 7}, {"max_bytes": 4096}, {"threshold_messages": 400}, {"expires": 1}]
    ),
    st.floats(0, 1),
)
def test_no_request_exceeds_the_limits(limits: dict[str, Any], options: dict[str, Any], part: float) -> None:
    bounded = PullOptions(**options, bounds=Bounds(ConsumerConfig(**limits)))
    assert 0 <= bounded.threshold <= bounded.limit
    wire = bounded.request(max(int(part * bounded.limit), 1), None).to_wire()
    for field, limit, unit in (
        ("batch", limits["max_batch"], 1),
        ("max_bytes", limits["max_bytes"], 1),
        ("expires", limits["max_expires"], SECOND),
    ):
        if limit is not None and limit > 0:
            assert wire.get(field, 0) <= round(limit * unit)
    assert 2 * wire.get("idle_heartbeat", 0) <= wire["expires"]


@for_each(
    ("exceeded", "batch"),
    [
        (Exceeded("batch", 4), 4),
        (Exceeded("batch", None), 5),
        (Exceeded("batch", 10), None),
        (Exceeded("batch", 11), None),
        (Exceeded("batch", 0), 1),
        (Exceeded("expires", 1.0), None),
        (None, None),
    ],
)
def test_a_refusal_lowers_a_limit_and_never_raises_one(exceeded: Exceeded | None, batch: int | None) -> None:
    bounds = Bounds()
    bounds.learn(exceeded, fetch_request(10, None, expires=5.0, idle_heartbeat=None))
    assert bounds.batch == batch


def test_what_refusals_said_is_forgotten_with_the_next_look_at_the_consumer() -> None:
    bounds = Bounds()
    bounds.learn(Exceeded("batch", 4), fetch_request(10, None, expires=5.0, idle_heartbeat=None))
    bounds.read(ConsumerConfig(max_batch=8))
    assert bounds.batch == 8
