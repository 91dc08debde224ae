"""Settings that contradict each other are refused at construction, with the field named.

Every row was refused by nats-server 2.15.1, and every row of the accepted ones was accepted by it.
"""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import UsageError
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.requests import PurgeRequest
from jetspark.jetstream.model.stream import (
    ExternalStream,
    Placement,
    StreamConfig,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

ORIGIN = StreamSource(name="ORIGIN")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
BAD_NAMES = ["", "a.b", "a*", ">", "a/b", "a\\b", "a b", "a\tb", "a\nb", "a\x00b", "x" * 256]


def ids(row: object) -> str:
    return str(row)[:60]


REFUSED_STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"num_replicas": 6}, "num_replicas"),
    ({"num_replicas": -1}, "num_replicas"),
    ({"max_age": -1}, "max_age"),
    ({"max_age": 0.05}, "max_age"),
    ({"duplicate_window": -1}, "duplicate_window"),
    ({"duplicate_window": 0.05}, "duplicate_window"),
    ({"max_age": 1, "duplicate_window": 2}, "duplicate_window"),
    ({"subject_delete_marker_ttl": 0.5}, "subject_delete_marker_ttl"),
    ({"subject_delete_marker_ttl": -1}, "subject_delete_marker_ttl"),
    ({"description": "d" * 4097}, "description"),
    ({"metadata": {"a": "b" * 131072}}, "metadata"),
    ({"placement": Placement(preferred="n1")}, "placement"),
    ({"deny_purge": True, "allow_rollup_hdrs": True}, "allow_rollup_hdrs"),
    ({"discard_new_per_subject": True}, "discard_new_per_subject"),
    ({"discard_new_per_subject": True, "discard": "new"}, "discard_new_per_subject"),
    ({"discard_new_per_subject": True, "max_msgs_per_subject": 1}, "discard_new_per_subject"),
    ({"allow_msg_counter": True, "discard": "new"}, "allow_msg_counter"),
    ({"allow_msg_counter": True, "allow_msg_ttl": True}, "allow_msg_ttl"),
    ({"allow_msg_counter": True, "allow_msg_schedules": True}, "allow_msg_schedules"),
    ({"allow_msg_counter": True, "retention": "interest"}, "allow_msg_counter"),
    ({"allow_msg_counter": True, "retention": "workqueue"}, "allow_msg_counter"),
    ({"allow_msg_schedules": True, "discard": "new"}, "allow_msg_schedules"),
    ({"allow_msg_schedules": True, "sources": [ORIGIN]}, "allow_msg_schedules"),
    ({"persist_mode": "async", "storage": "memory"}, "persist_mode"),
    ({"persist_mode": "async", "allow_atomic": True}, "persist_mode"),
    ({"persist_mode": "async", "num_replicas": 3}, "persist_mode"),
    ({"mirror": ORIGIN, "subjects": ["a"]}, "subjects"),
    ({"mirror": ORIGIN, "sources": [ORIGIN]}, "sources"),
    ({"mirror": ORIGIN, "first_seq": 5}, "first_seq"),
    ({"mirror": ORIGIN, "allow_msg_counter": True}, "allow_msg_counter"),
    ({"mirror": ORIGIN, "allow_atomic": True}, "allow_atomic"),
    ({"mirror": ORIGIN, "allow_batched": True}, "allow_batched"),
    ({"mirror": ORIGIN, "allow_msg_schedules": True}, "allow_msg_schedules"),
    ({"mirror": ORIGIN, "subject_delete_marker_ttl": 1}, "subject_delete_marker_ttl"),
    ({"mirror_direct": True}, "mirror_direct"),
    ({"sources": [StreamSource(name="a.b", external=ExternalStream(api="$JS.D.API"))]}, "sources"),
    ({"subjects": ["a", "a"]}, "subjects"),
    ({"subjects": ["a.*", "a.b"]}, "subjects"),
    ({"subjects": ["a.*.c", "a.b.*"]}, "subjects"),
    ({"subjects": [">"]}, "subjects"),
    ({"subjects": [">"], "no_ack": True, "num_replicas": 3}, "subjects"),
    ({"subjects": [""]}, "subjects"),
    ({"subjects": ["a..b"]}, "subjects"),
    ({"subjects": ["a b"]}, "subjects"),
    ({"subjects": ["a.>.b"]}, "subjects"),
    ({"subjects": ["a."]}, "subjects"),
    ({"subject_transform": SubjectTransform(src="a b", dest="c")}, "subject_transform"),
]

ACCEPTED_STREAMS: list[dict[str, Any]] = [
    {},
    {"name": "ä" * 100},
    {"max_msgs": -5, "max_bytes": 0, "max_consumers": -3, "max_msgs_per_subject": -2, "max_msg_size": -2},
    {"max_age": 0, "duplicate_window": 0, "num_replicas": 0, "subject_delete_marker_ttl": 0},
    {"max_age": 0.1},
    {"max_age": 1},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"subject_delete_marker_ttl": 1, "deny_purge": True},
    {"allow_msg_schedules": True, "deny_purge": True},
    {"persist_mode": "async", "allow_batched": True},
    {"mirror": StreamSource(name="A", opt_start_seq=3, opt_start_time=NOON)},
    {"mirror": StreamSource(name="a.b", external=ExternalStream(api="$JS.D.API"))},
    {"sources": [ORIGIN], "subjects": ["a"], "allow_atomic": True, "allow_batched": True},
    {"subjects": [">"], "no_ack": True},
    {"subjects": ["*"]},
    {"subjects": ["$JS.EVENT.ADVISORY.>"]},
    {"sealed": True},
    {"retention": "workqueue", "discard": "new"},
]


def test_what_the_server_would_refuse_is_refused_with_its_field(golden: Golden) -> None:
    told = Refusals()
    for cls, required, refused in (
        (StreamConfig, {"name": "S"}, REFUSED_STREAMS),
        (ConsumerConfig, {}, REFUSED_CONSUMERS),
        (StreamSource, {"name": "ORIGIN"}, REFUSED_SOURCES),
    ):
        told.section(cls.__name__)
        for settings, field in refused:
            with told.refusal(settings, names=f"{cls.__name__}.{field}"):
                cls(**required | settings)
    golden("errors-models", told.text())


@for_each("settings", ACCEPTED_STREAMS, ids=ids)
def test_a_stream_that_the_server_accepts(settings: dict[str, Any]) -> None:
    config = StreamConfig(**{"name": "S"} | settings)
    assert StreamConfig.from_wire(config.to_wire()) == config


@for_each("name", BAD_NAMES)
def test_names_are_single_words(name: str) -> None:
    with pytest.raises(UsageError, match=r"StreamConfig\.name"):
        StreamConfig(name=name)
    with pytest.raises(UsageError, match=r"StreamSource\.name"):
        StreamSource(name=name)
    with pytest.raises(UsageError, match=r"ConsumerConfig\.name"):
        ConsumerConfig(name=name)
    with pytest.raises(UsageError, match=r"ConsumerConfig\.durable_name"):
        ConsumerConfig(durable_name=name)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=".*>/\\"), min_size=1))
def test_every_other_printable_word_is_a_name(name: str) -> None:
    assert StreamConfig(name=name[:255]).name == name[:255]


REFUSED_SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"filter_subject": "a", "subject_transforms": [SubjectTransform(src="a", dest="b")]}, "filter_subject"),
    ({"filter_subject": "a b"}, "filter_subject"),
    ({"opt_start_seq": -1}, "opt_start_seq"),
    ({"opt_start_seq": 4, "consumer": StreamConsumerSource(name="c", deliver_subject="d")}, "opt_start_seq"),
    (
        {"opt_start_time": NOON, "consumer": StreamConsumerSource(name="c", deliver_subject="d")},
        "opt_start_time",
    ),
    (
        {"filter_subject": "x", "consumer": StreamConsumerSource(name="c", deliver_subject="d")},
        "filter_subject",
    ),
]


@pytest.mark.parametrize(
    ("prefixes", "field"),
    [({"api": "$JS.API"}, "api"), ({"api": "a.*"}, "api"), ({"deliver": "d.>"}, "deliver")],
)
def test_prefixes_of_another_account_are_plain_subjects(prefixes: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError, match=rf"^ExternalStream\.{field}\b"):
        ExternalStream(**prefixes)


def test_a_durable_source_needs_a_subject_without_wildcards() -> None:
    with pytest.raises(UsageError, match="deliver_subject"):
        StreamConsumerSource(name="c", deliver_subject="d.*")


PUSH: dict[str, Any] = {"deliver_subject": "push.here"}
FLOW = {**PUSH, "ack_policy": "flow_control"}

REFUSED_CONSUMERS: list[tuple[dict[str, Any], str]] = [
    ({"name": "a", "durable_name": "b"}, "name"),
    ({"num_replicas": -1}, "num_replicas"),
    ({"num_replicas": 6}, "num_replicas"),
    ({"ack_wait": -1}, "ack_wait"),
    ({"backoff": [-1]}, "backoff"),
    ({"backoff": [1, 2], "max_deliver": 1}, "backoff"),
    ({"sample_freq": "x"}, "sample_freq"),
    ({"sample_freq": "-1"}, "sample_freq"),
    ({"sample_freq": "%"}, "sample_freq"),
    ({"sample_freq": "1.5"}, "sample_freq"),
    ({"description": "d" * 4097}, "description"),
    ({"metadata": {"a": "b" * 131072}}, "metadata"),
    ({"rate_limit_bps": 1000}, "rate_limit_bps"),
    ({"rate_limit_bps": -1, **PUSH}, "rate_limit_bps"),
    ({"flow_control": True, "idle_heartbeat": 1}, "flow_control"),
    ({"idle_heartbeat": 1}, "idle_heartbeat"),
    ({"direct": True}, "direct"),
    ({"direct": True, "durable_name": "d", **PUSH}, "direct"),
    ({"max_expires": 0.000001}, "max_expires"),
    ({"deliver_subject": "a.*"}, "deliver_subject"),
    ({"deliver_subject": "a..b"}, "deliver_subject"),
    ({"deliver_subject": "a b"}, "deliver_subject"),
    ({"max_waiting": 5, **PUSH}, "max_waiting"),
    ({"idle_heartbeat": 0.05, **PUSH}, "idle_heartbeat"),
    ({"flow_control": True, **PUSH}, "flow_control"),
    ({"ack_policy": "none", "max_ack_pending": 5, **PUSH}, "max_ack_pending"),
    ({"ack_policy": "flow_control"}, "ack_policy"),
    ({"max_ack_pending": -1, **FLOW}, "max_ack_pending"),
    ({"ack_wait": 1, **FLOW}, "ack_wait"),
    ({"backoff": [1], **FLOW}, "backoff"),
    ({"max_deliver": 3, **FLOW}, "max_deliver"),
    ({"opt_start_seq": 5}, "opt_start_seq"),
    ({"opt_start_seq": 5, "deliver_policy": "new"}, "opt_start_seq"),
    ({"opt_start_seq": 5, "deliver_policy": "by_start_time", "opt_start_time": NOON}, "opt_start_seq"),
    ({"opt_start_time": NOON}, "opt_start_time"),
    ({"opt_start_time": NOON, "deliver_policy": "by_start_sequence", "opt_start_seq": 5}, "opt_start_time"),
    ({"deliver_policy": "by_start_sequence"}, "deliver_policy"),
    ({"deliver_policy": "by_start_sequence", "opt_start_seq": 0}, "deliver_policy"),
    ({"deliver_policy": "by_start_time"}, "deliver_policy"),
    ({"deliver_policy": "last_per_subject"}, "deliver_policy"),
    ({"filter_subject": "a", "filter_subjects": ["b"]}, "filter_subject"),
    ({"filter_subject": "a..b"}, "filter_subject"),
    ({"filter_subjects": [""]}, "filter_subjects"),
    ({"filter_subjects": ["a", "a"]}, "filter_subjects"),
    ({"filter_subjects": ["t.a", "t.*"]}, "filter_subjects"),
    ({"filter_subjects": ["t.>", "t.*"]}, "filter_subjects"),
    ({"filter_subjects": [">", "t"]}, "filter_subjects"),
    ({"priority_policy": "overflow"}, "priority_policy"),
    ({"priority_groups": ["a"]}, "priority_groups"),
    ({"priority_policy": "none", "priority_groups": ["a"]}, "priority_groups"),
    ({"priority_timeout": 1}, "priority_timeout"),
    ({"priority_policy": "overflow", "priority_groups": ["a"], **PUSH}, "priority_policy"),
    ({"priority_policy": "overflow", "priority_groups": [""]}, "priority_groups"),
    ({"priority_policy": "overflow", "priority_groups": ["a" * 17]}, "priority_groups"),
    ({"priority_policy": "overflow", "priority_groups": ["a b"]}, "priority_groups"),
    ({"priority_policy": "overflow", "priority_groups": ["a+"]}, "priority_groups"),
    ({"ack_policy": "explict"}, "ack_policy"),
]

ACCEPTED_CONSUMERS: list[dict[str, Any]] = [
    {},
    {"name": "a", "durable_name": "a"},
    {"max_deliver": -7, "max_waiting": -7, "max_ack_pending": -7, "max_batch": -7, "max_bytes": -7},
    {"max_deliver": 0, "max_waiting": 0, "max_ack_pending": 0, "max_batch": 0, "max_bytes": 0},
    {"backoff": [0]},
    {"backoff": [1, 2], "max_deliver": 2},
    {"backoff": [2, 1], "max_deliver": -1},
    {"backoff": [1], "ack_wait": 5, "ack_policy": "none"},
    {"ack_policy": "none", "max_ack_pending": 5, "max_deliver": 5, "ack_wait": 5},
    {"sample_freq": "50%"},
    {"sample_freq": "150"},
    {"sample_freq": ""},
    {"deliver_group": "workers"},
    {"max_batch": 5, "max_expires": 1, "max_bytes": 50, **PUSH},
    {"deliver_group": "workers", "flow_control": True, "idle_heartbeat": 0.1, "rate_limit_bps": 1000, **PUSH},
    {"max_expires": 0.001},
    {"max_expires": -1, "inactive_threshold": -1},
    {"opt_start_seq": 0},
    {"deliver_policy": "last_per_subject", "filter_subject": "t.>"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
    {"deliver_policy": "by_start_time", "opt_start_time": NOON},
    {"filter_subjects": ["t.*.a", "t.b.*"]},
    {"filter_subject": ""},
    {"inactive_threshold": 1, "durable_name": "d"},
    {"priority_policy": "overflow", "priority_groups": ["a/=-_Z9", "a"], "priority_timeout": 1},
    {"priority_policy": "pinned_client", "priority_groups": ["a"]},
    FLOW,
    {"flow_control": True, "idle_heartbeat": 5, "max_ack_pending": 10, **FLOW},
    {"flow_control": True, **FLOW},
]


@for_each("settings", ACCEPTED_CONSUMERS, ids=ids)
def test_a_consumer_that_the_server_accepts(settings: dict[str, Any]) -> None:
    config = ConsumerConfig(**settings)
    assert ConsumerConfig.from_wire(config.to_wire()) == config


def test_a_consumer_knows_whether_it_pushes() -> None:
    assert ConsumerConfig(**PUSH).is_push
    assert not ConsumerConfig(durable_name="d").is_push


def test_a_purge_keeps_or_goes_up_to_a_sequence() -> None:
    with pytest.raises(UsageError, match=r"PurgeRequest\.keep"):
        PurgeRequest(sequence=4, keep=2)
    assert PurgeRequest(subject="t.x", keep=2).to_wire() == {"filter": "t.x", "keep": 2}


# --- which fields were given


def test_a_configuration_remembers_which_fields_were_given() -> None:
    assert ConsumerConfig().given == frozenset()
    config = ConsumerConfig(ack_policy="explicit", headers_only=False, extra={"new": 1})
    assert config.given == {"ack_policy", "headers_only"}
    assert config.replace(ack_wait=3).given == {"ack_policy", "headers_only", "ack_wait"}
    for copied in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert (copied, copied.given) == (config, config.given)


def test_what_was_given_changes_neither_the_wire_nor_equality() -> None:
    said, unsaid = ConsumerConfig(ack_policy="explicit", mem_storage=False), ConsumerConfig()
    assert said == unsaid
    assert said.to_wire() == unsaid.to_wire()
    assert repr(said) == repr(unsaid)


def test_a_configuration_of_the_server_was_given_by_nobody() -> None:
    received = ConsumerConfig.from_wire({"ack_policy": "none", "new": 1})
    assert received.given == frozenset()
    assert received.replace(ack_wait=3).extra == {"new": 1}
