"""The rules of subscribe: what may be asked for, and whether a consumer that is there fits it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import (
    ConsumerConfig,
    ConsumerInfo,
    ConsumerIsPull,
    ConsumerIsPush,
    ConsumerMismatch,
    DuplicateSubscription,
    NoMatchingStream,
    UsageError,
)
from jetspark.jetstream.model.base import to_ns
from jetspark.jetstream.subscribe.rules import (
    ask,
    ask_ordered,
    check_found,
    differences,
    only_stream,
    to_create,
)
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals


def found(*, push_bound: bool = False, **config: Any) -> ConsumerInfo:
    """A push consumer as the server tells of it; with `deliver_subject=None` a pull consumer."""
    wire = {"deliver_subject": "_INBOX.theirs", "ack_policy": "explicit", **config}
    zero = {"consumer_seq": 0, "stream_seq": 0}
    return ConsumerInfo.from_wire(
        {
            "stream_name": "S",
            "name": "C",
            "created": "2026-01-01T00:00:00Z",
            "config": {key: value for key, value in wire.items() if value is not None},
            "delivered": zero,
            "ack_floor": zero,
            "push_bound": push_bound,
        }
    )


# --- what may be asked for


def test_neither_subject_nor_stream_is_an_error() -> None:
    with pytest.raises(UsageError, match="neither subject nor stream"):
        ask(pull=False)
    with pytest.raises(UsageError, match="neither subject nor stream"):
        ask(pull=True, durable="D")


@for_each(
    ("options", "what"),
    [
        ({"idle_heartbeat": 1.0}, "idle_heartbeat"),
        ({"flow_control": True}, "flow_control"),
        ({"config": ConsumerConfig(deliver_subject="d", idle_heartbeat=1.0)}, "idle_heartbeat"),
        (
            {"config": ConsumerConfig(deliver_subject="d", idle_heartbeat=1.0, flow_control=True)},
            "flow_control",
        ),
    ],
)
def test_a_queue_with_heartbeats_or_flow_control_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=f"{what} excludes queue='q'"):
        ask(pull=False, subject="s", queue="q", **options)


@pytest.mark.parametrize("policy", ["none", "all"])
def test_pull_with_ack_none_or_all_is_refused(policy: str) -> None:
    with pytest.raises(UsageError, match="ack_policy"):
        ask(pull=True, subject="s", config=ConsumerConfig(ack_policy=policy))


@pytest.mark.parametrize("config", [{"deliver_subject": "d"}, {"deliver_group": "q"}])
def test_pull_with_settings_of_push_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not for pull"):
        ask(pull=True, subject="s", config=ConsumerConfig(**config))


CONTRADICTIONS: list[dict[str, Any]] = [
    {"durable": "A", "config": ConsumerConfig(durable_name="B")},
    {"consumer": "A", "durable": "B"},
    {"consumer": "A", "config": ConsumerConfig(name="B")},
    {"queue": "q", "config": ConsumerConfig(deliver_group="p")},
    {"config": ConsumerConfig(filter_subject="t")},
    {"config": ConsumerConfig(filter_subjects=["s", "t"])},
    {"config": {"durable_name": "A"}},
    {"durable": "a.b"},
    {"stream": "a b"},
    {"queue": "a b"},
]


def test_what_contradicts_itself_is_refused(golden: Golden) -> None:
    told = Refusals()
    for options in CONTRADICTIONS:
        with told.refusal(options):
            ask(pull=False, subject="s", **options)
    golden("errors-subscribe", told.text())


def test_a_queue_without_any_name_uses_the_queue_as_durable() -> None:
    asked = ask(pull=False, subject="s", queue="workers")
    assert (asked.name, asked.config.durable_name, asked.bound) == ("workers", "workers", False)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"durable": "D"}, "D"), ({"consumer": "C"}, "C"), ({"config": ConsumerConfig(name="N")}, "N")],
)
def test_a_queue_with_a_name_keeps_it(options: dict[str, Any], name: str) -> None:
    asked = ask(pull=False, subject="s", queue="workers", **options)
    assert asked.name == name
    assert asked.config.durable_name == (name if "durable" in options else None)


def test_what_is_created_has_filter_ack_policy_group_and_deliver_subject() -> None:
    config = to_create(ask(pull=False, subject="s.>", queue="q", durable="D"), "_INBOX.mine")
    assert config.to_wire() == {
        "durable_name": "D",
        "ack_policy": "explicit",
        "filter_subject": "s.>",
        "deliver_subject": "_INBOX.mine",
        "deliver_group": "q",
    }


def test_what_the_user_gave_is_kept() -> None:
    given_ = ConsumerConfig(deliver_subject="mine", ack_policy="none", filter_subjects=["a", "b"], ack_wait=5)
    config = to_create(ask(pull=False, stream="S", config=given_), "_INBOX.other")
    assert config.deliver_subject == "mine"
    assert (config.ack_policy, config.filter_subjects, config.ack_wait) == ("none", ["a", "b"], 5.0)


def test_a_pull_consumer_is_created_without_a_deliver_subject() -> None:
    config = to_create(ask(pull=True, subject="s", durable="D"), "_INBOX.mine")
    assert config.to_wire() == {"durable_name": "D", "ack_policy": "explicit", "filter_subject": "s"}


def test_flow_control_brings_the_heartbeat_that_it_needs() -> None:
    assert ask(pull=False, subject="s", flow_control=True).config.idle_heartbeat == 5.0
    assert ask(pull=False, subject="s", flow_control=True, idle_heartbeat=1).config.idle_heartbeat == 1.0


# --- ordered


def test_an_ordered_subscription_begins_without_acks_in_memory_with_flow_control() -> None:
    config = ask_ordered(ask(pull=False, subject="s"))
    assert (config.ack_policy, config.max_deliver, config.num_replicas) == ("none", 1, 1)
    assert config.mem_storage
    assert config.flow_control
    assert config.idle_heartbeat == 5.0


@pytest.mark.parametrize("options", [{"queue": "q"}, {"durable": "D"}, {"consumer": "C"}])
def test_a_name_and_a_queue_exclude_an_ordered_subscription(options: dict[str, Any]) -> None:
    (argument,) = options
    with pytest.raises(UsageError, match=f"{argument}.*excludes ordered=True"):
        ask_ordered(ask(pull=False, subject="s", **options))


NOT_ORDERED: list[dict[str, Any]] = [
    {"ack_policy": "explicit"},
    {"ack_policy": "all"},
    {"backoff": [1.0]},
    {"deliver_subject": "d"},
    {"direct": True, "deliver_subject": "_JETSPARK.to-be-chosen"},
    {"flow_control": False},
    {"max_ack_pending": 5},
    {"max_ack_pending": -1},
    {"max_deliver": -1},
    {"max_deliver": 3},
    {"mem_storage": False},
    {"num_replicas": 3},
    {"sourcing": True},
]


def test_what_an_ordered_subscription_cannot_have_is_refused_by_name(golden: Golden) -> None:
    told = Refusals()
    for config in NOT_ORDERED:
        field = next(iter(config))
        with told.refusal(config, names=f"ConsumerConfig.{field}"):
            ask_ordered(ask(pull=False, subject="s", config=ConsumerConfig(**config)))
    golden("errors-ordered", told.text())


def test_a_configuration_that_the_server_sent_is_checked_too() -> None:
    theirs = found(deliver_subject=None, ack_policy="all").config
    with pytest.raises(UsageError, match=r"ConsumerConfig.ack_policy=all excludes"):
        ask_ordered(ask(pull=False, subject="s", config=theirs))


def test_what_an_ordered_subscription_has_anyway_may_be_given() -> None:
    config = ConsumerConfig(
        ack_policy="none", max_deliver=1, mem_storage=True, num_replicas=1, description="x", backoff=[]
    )
    made = ask_ordered(ask(pull=False, subject="s", config=config, flow_control=True, idle_heartbeat=2.0))
    assert (made.description, made.idle_heartbeat) == ("x", 2.0)


@pytest.mark.parametrize("config", [ConsumerConfig(), ConsumerConfig(ack_wait=1.0)])
def test_the_time_to_acknowledge_is_set_without_an_error(config: ConsumerConfig) -> None:
    assert ask_ordered(ask(pull=False, subject="s", config=config)).ack_wait == 22 * 3600


# --- the stream


def test_the_only_stream_is_the_one() -> None:
    assert only_stream("s", ["S"]) == "S"


@pytest.mark.parametrize("names", [[], ["B", "A"], ["A", "B", "C"]])
def test_no_stream_and_several_are_an_error_that_lists_them(names: list[str]) -> None:
    with pytest.raises(NoMatchingStream) as caught:
        only_stream("s.>", names)
    assert caught.value.streams == tuple(sorted(names))
    assert caught.value.subject == "s.>"
    assert caught.value.hint
    for name in names:
        assert name in str(caught.value)


# --- whether a consumer fits


def test_pull_on_a_push_consumer_is_refused() -> None:
    with pytest.raises(ConsumerIsPush, match=r"pushes to '_INBOX\.theirs'"):
        check_found(ask(pull=True, subject="s", durable="C"), found())


def test_push_on_a_pull_consumer_is_refused() -> None:
    with pytest.raises(ConsumerIsPull, match="only be pulled"):
        check_found(ask(pull=False, subject="s", durable="C"), found(deliver_subject=None))


def test_a_second_subscription_to_a_bound_consumer_is_a_duplicate() -> None:
    with pytest.raises(DuplicateSubscription, match="already"):
        check_found(ask(pull=False, subject="s", durable="C"), found(push_bound=True))


def test_a_bound_consumer_of_a_queue_takes_further_members() -> None:
    asked = ask(pull=False, subject="s", queue="q", durable="C")
    check_found(asked, found(push_bound=True, deliver_group="q", durable_name="C"))


@for_each("push_bound", [True, False])
@for_each(
    ("queue", "group", "message"),
    [
        ("", "q", "is for the queue group 'q', and this is not a queue subscription"),
        ("p", "q", "is for the queue group 'q', not 'p'"),
        ("p", None, "has no deliver group"),
    ],
)
def test_the_three_mismatches_of_the_deliver_group(
    queue: str, group: str | None, message: str, push_bound: bool
) -> None:
    asked = ask(pull=False, subject="s", queue=queue, durable="C")
    with pytest.raises(ConsumerMismatch, match=message) as caught:
        check_found(asked, found(deliver_group=group, push_bound=push_bound))
    assert caught.value.differences == {"deliver_group": (queue or None, group)}


@pytest.mark.parametrize(
    "config",
    [{"idle_heartbeat": 10**9}, {"flow_control": True, "idle_heartbeat": 10**9}],
    ids=["heartbeat", "flow control"],
)
def test_a_queue_on_a_consumer_with_heartbeats_or_flow_control_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConsumerMismatch, match="does not work with a queue"):
        check_found(
            ask(pull=False, subject="s", queue="q"), found(deliver_group="q", durable_name="q", **config)
        )


def test_another_filter_is_a_mismatch() -> None:
    with pytest.raises(ConsumerMismatch, match=r"delivers s\.a, not s\.b"):
        check_found(
            ask(pull=False, subject="s.b", durable="C"), found(filter_subject="s.a", durable_name="C")
        )


@pytest.mark.parametrize("filters", [{}, {"filter_subject": "s.b"}, {"filter_subjects": ["s.b"]}])
def test_no_filter_or_the_same_fits(filters: dict[str, Any]) -> None:
    check_found(ask(pull=False, subject="s.b", durable="C"), found(durable_name="C", **filters))


def test_several_filters_fit_in_any_order() -> None:
    asked = ask(pull=False, stream="S", durable="C", config=ConsumerConfig(filter_subjects=["a", "b"]))
    check_found(asked, found(durable_name="C", filter_subjects=["b", "a"]))


def test_drift_names_each_field_that_differs_and_no_other() -> None:
    config = ConsumerConfig(ack_wait=10, max_deliver=5, max_ack_pending=100, description="x")
    asked = ask(pull=False, subject="s", durable="C", config=config)
    theirs = found(
        durable_name="C",
        ack_wait=30 * 10**9,
        max_deliver=-1,
        max_ack_pending=100,
        description="y",
        rate_limit_bps=7,
    )
    with pytest.raises(ConsumerMismatch) as caught:
        check_found(asked, theirs)
    assert caught.value.differences == {
        "ack_wait": (10.0, 30.0),
        "max_deliver": (5, -1),
        "description": ("x", "y"),
    }
    for field in ("ack_wait", "max_deliver", "description"):
        assert field in str(caught.value)
    assert "max_ack_pending" not in str(caught.value)


def test_a_durable_that_is_not_durable_is_drift() -> None:
    with pytest.raises(ConsumerMismatch) as caught:
        check_found(ask(pull=False, subject="s", durable="C"), found())
    assert caught.value.differences == {"durable_name": ("C", None)}


def test_a_deliver_subject_that_the_user_chose_is_compared_and_one_that_is_ours_is_not() -> None:
    check_found(ask(pull=False, subject="s", durable="C"), found(durable_name="C"))
    asked = ask(pull=False, subject="s", durable="C", config=ConsumerConfig(deliver_subject="mine"))
    with pytest.raises(ConsumerMismatch) as caught:
        check_found(asked, found(durable_name="C"))
    assert caught.value.differences == {"deliver_subject": ("mine", "_INBOX.theirs")}


def test_heartbeats_and_flow_control_that_the_user_did_not_ask_for_are_no_drift() -> None:
    theirs = found(durable_name="C", idle_heartbeat=10**9, flow_control=True)
    check_found(ask(pull=False, subject="s", durable="C"), theirs)
    with pytest.raises(ConsumerMismatch) as caught:
        check_found(ask(pull=False, subject="s", durable="C", flow_control=True), found(durable_name="C"))
    assert set(caught.value.differences) == {"flow_control", "idle_heartbeat"}


@for_each(
    ("given", "theirs"),
    [
        ({"ack_policy": "explicit"}, {"ack_policy": "none"}),
        ({"deliver_policy": "all"}, {"deliver_policy": "new"}),
        ({"replay_policy": "instant"}, {"replay_policy": "original"}),
        ({"headers_only": False}, {"headers_only": True}),
        ({"flow_control": False}, {"flow_control": True, "idle_heartbeat": 10**9}),
        ({"backoff": []}, {"backoff": [10**9]}),
    ],
)
def test_what_was_given_is_compared_also_where_it_is_the_default(
    given: dict[str, Any], theirs: dict[str, Any]
) -> None:
    (field,) = given
    there = found(durable_name="C", **theirs)
    check_found(ask(pull=False, subject="s", durable="C", config=ConsumerConfig()), there)
    for config in (ConsumerConfig(**given), ConsumerConfig(description="").replace(**given)):
        with pytest.raises(ConsumerMismatch) as caught:
            check_found(ask(pull=False, subject="s", durable="C", config=config), there)
        assert caught.value.differences[field] == (given[field], getattr(there.config, field))


def test_an_option_that_is_the_default_is_compared_too() -> None:
    there = found(durable_name="C", headers_only=True)
    with pytest.raises(ConsumerMismatch):
        check_found(ask(pull=False, subject="s", durable="C", changes={"headers_only": False}), there)


def test_none_leaves_a_field_to_the_server() -> None:
    config = ConsumerConfig(ack_wait=None, description=None, max_deliver=None)
    theirs = found(durable_name="C", ack_wait=10**9, description="x", max_deliver=3)
    check_found(ask(pull=False, subject="s", durable="C", config=config), theirs)


def test_what_the_server_adds_is_no_drift() -> None:
    ours = ConsumerConfig(metadata={"team": "a"}, sample_freq="50%")
    theirs = found(metadata={"team": "a", "_nats.ver": "2.15.1"}, sample_freq="50", max_waiting=512).config
    assert differences(ours, theirs, ours.given) == {}


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text("ab", min_size=1, max_size=3),
        "ack_wait": st.sampled_from([0.5, 1.0, 2.5]),
        "max_deliver": st.integers(1, 5),
        "max_ack_pending": st.integers(1, 5),
        "headers_only": st.booleans(),
        "inactive_threshold": st.sampled_from([1.5, 60.0]),
        "deliver_policy": st.sampled_from(["all", "new", "last"]),
        "ack_policy": st.sampled_from(["explicit", "all"]),
        "metadata": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "backoff": st.lists(st.sampled_from([1.0, 2.0]), max_size=1),
    },
)


def wire(config: dict[str, Any]) -> dict[str, Any]:
    seconds = ("ack_wait", "inactive_threshold")
    return {
        key: to_ns(value)
        if key in seconds
        else [to_ns(each) for each in value]
        if key == "backoff"
        else value
        for key, value in config.items()
    }


@given(CONFIGS)
def test_a_consumer_that_was_created_as_asked_never_differs(config: dict[str, Any]) -> None:
    theirs = {"ack_wait": 30 * 10**9, "max_deliver": -1, **wire(config)}
    ours = ConsumerConfig(**config)
    assert differences(ours, found(**theirs).config, ours.given) == {}


@given(CONFIGS, CONFIGS)
def test_only_fields_that_were_asked_for_and_are_otherwise_are_named(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    asked, there = ConsumerConfig(**ours), found(**wire(theirs)).config
    changed = differences(asked, there, asked.given)
    for field, (wanted, is_) in changed.items():
        assert field in ours
        assert wanted == getattr(asked, field)
        assert is_ == getattr(there, field)
    for field in ours.keys() - changed.keys() - {"metadata"}:
        assert getattr(asked, field) == getattr(there, field)
