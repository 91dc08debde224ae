"""Advisories and metrics: each type has its class, unknown ones lose nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.model import advisories as advisory_events
from jetspark.jetstream.model.advisories import (
    ADVISORIES,
    Advisory,
    APIAudit,
    ConsumerGroupPinned,
    MaxDeliveries,
    MessageAcked,
    MessageTerminated,
    parse_advisory,
)
from tests.support.cases import for_each

# As nats-server 2.15.1 published them.
MAX_DELIVER = (
    b'{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"PaHCNbTTheCoC3IEqolbQp",'
    b'"timestamp":"2026-11-15T10:22:31.711900128Z","stream":"T","consumer":"ev","stream_seq":5,"deliveries":1}'
)
TERMINATED = (
    b'{"type":"io.nats.jetstream.advisory.v1.terminated","id":"PaHCNbTTheCoC3IEqolbMv",'
    b'"timestamp":"2026-11-15T10:22:31.511227Z","stream":"T","consumer":"ev","consumer_seq":2,"stream_seq":3,'
    b'"deliveries":1,"reason":"bad"}'
)
ACKED = (
    b'{"type":"io.nats.jetstream.metric.v1.consumer_ack","id":"PaHCNbTTheCoC3IEqolbOs",'
    b'"timestamp":"2026-11-15T10:22:31.511257Z","stream":"T","consumer":"ev","consumer_seq":3,"stream_seq":4,'
    b'"ack_time":855119,"deliveries":1}'
)


def test_a_dead_letter_is_found_by_its_sequence() -> None:
    event = parse_advisory(MAX_DELIVER)
    assert isinstance(event, MaxDeliveries)
    assert event.kind == "max_deliver"
    assert (event.stream, event.consumer, event.stream_seq, event.deliveries) == ("T", "ev", 5, 1)
    assert event.timestamp == datetime(2026, 11, 15, 10, 22, 31, 711900, tzinfo=UTC)
    assert event.extra == {}


def test_a_termination_gives_its_reason() -> None:
    event = parse_advisory(TERMINATED)
    assert isinstance(event, MessageTerminated)
    assert (event.stream_seq, event.reason) == (3, "bad")


def test_the_time_to_acknowledge_is_in_seconds() -> None:
    event = parse_advisory(ACKED)
    assert isinstance(event, MessageAcked)
    assert event.ack_time == 0.000855119


def test_an_unknown_event_keeps_everything_it_says() -> None:
    wire = {"type": "io.nats.jetstream.advisory.v1.of_2030", "id": "x", "stream": "S", "what": {"ever": [1]}}
    event = parse_advisory(json.dumps(wire).encode())
    assert type(event) is Advisory
    assert (event.kind, event.id) == ("of_2030", "x")
    assert event.extra == {"stream": "S", "what": {"ever": [1]}}
    assert event.to_wire() == wire


def test_an_event_without_a_type_is_not_an_error() -> None:
    assert parse_advisory(b"{}") == Advisory()


@pytest.mark.parametrize("data", [b"", b"[]", b"text"])
def test_what_is_no_json_object_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_advisory(data)


@for_each("kind", ADVISORIES)
def test_the_table_leads_from_type_to_class(kind: str) -> None:
    row = ADVISORIES[kind]
    event = parse_advisory(json.dumps({"type": row.wire_type, "replicas": None}).encode())
    assert type(event) is row.event
    assert event.kind == kind


def test_every_event_class_is_in_the_table() -> None:
    classes = {
        cls
        for name, cls in vars(advisory_events).items()
        if isinstance(cls, type) and issubclass(cls, Advisory) and name[0] != "_" and cls is not Advisory
    }
    assert classes == {row.event for row in ADVISORIES.values()}


def test_subjects_can_be_narrowed_to_a_stream_and_consumer() -> None:
    assert ADVISORIES["max_deliver"].subjects("ORDERS", "worker") == [
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.worker"
    ]
    assert ADVISORIES["stream_action"].subjects() == [
        "$JS.EVENT.ADVISORY.STREAM.CREATED.*",
        "$JS.EVENT.ADVISORY.STREAM.UPDATED.*",
        "$JS.EVENT.ADVISORY.STREAM.DELETED.*",
    ]
    assert ADVISORIES["api_audit"].subjects("ORDERS") == ["$JS.EVENT.ADVISORY.API"]
    assert ADVISORIES["consumer_ack"].subjects("ORDERS") == ["$JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.*"]
    assert ADVISORIES["consumer_ack"].wire_type == "io.nats.jetstream.metric.v1.consumer_ack"


def test_an_audit_says_who_asked_what() -> None:
    event = parse_advisory(
        b'{"type":"io.nats.jetstream.advisory.v1.api_audit","server":"n1","subject":"$JS.API.INFO",'
        b'"client":{"host":"127.0.0.1","id":387,"acc":"$G","rtt":628343,"of_2030":1},"response":"{}"}'
    )
    assert isinstance(event, APIAudit)
    assert event.client is not None
    assert (event.client.host, event.client.rtt, event.client.extra) == (
        "127.0.0.1",
        0.000628343,
        {"of_2030": 1},
    )


def test_a_new_pin_names_the_client() -> None:
    event = parse_advisory(
        b'{"type":"io.nats.jetstream.advisory.v1.consumer_group_pinned","account":"$G","stream":"T",'
        b'"consumer":"pin","group":"g","pinned_id":"abc"}'
    )
    assert isinstance(event, ConsumerGroupPinned)
    assert (event.group, event.pinned_id, event.account) == ("g", "abc", "$G")
