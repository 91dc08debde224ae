"""What the acknowledgement subjects of old, present and future servers tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark import JetStreamError, NotJetStreamMessage
from jetspark.jetstream.message.metadata import Metadata, SequencePair, parse_metadata
from tests.support.cases import for_each

NUMBERS = "3.1001.17.1700000000123456789.42"
V1 = f"$JS.ACK.ORDERS.worker.{NUMBERS}".encode()
V2 = f"$JS.ACK.hub.ACCHASH.ORDERS.worker.{NUMBERS}".encode()


def test_version_one_has_nine_tokens() -> None:
    assert parse_metadata(V1) == Metadata(
        stream="ORDERS",
        consumer="worker",
        domain=None,
        sequence=SequencePair(stream=1001, consumer=17),
        num_delivered=3,
        num_pending=42,
        timestamp_ns=1700000000123456789,
    )


def test_version_two_has_a_domain_and_an_account_in_front() -> None:
    metadata = parse_metadata(V2)
    assert metadata.domain == "hub"
    assert (metadata.stream, metadata.consumer) == ("ORDERS", "worker")
    assert (metadata.num_delivered, metadata.num_pending) == (3, 42)
    assert (metadata.sequence.stream, metadata.sequence.consumer) == (1001, 17)


@pytest.mark.parametrize("tail", [b"", b".random", b".random.and.what.comes"])
def test_tokens_that_a_newer_server_adds_are_ignored(tail: bytes) -> None:
    assert parse_metadata(V2 + tail) == parse_metadata(V2)


def test_an_underscore_means_no_domain() -> None:
    assert parse_metadata(V2.replace(b"hub", b"_")).domain is None


def test_the_timestamp_is_utc_and_has_microseconds() -> None:
    assert parse_metadata(V1).timestamp == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert parse_metadata(V1).timestamp.utcoffset() == timedelta(0)


def test_names_that_are_not_ascii_are_read() -> None:
    reply = f"$JS.ACK._.A.Bücher.läufer.{NUMBERS}".encode()
    assert (parse_metadata(reply).stream, parse_metadata(reply).consumer) == ("Bücher", "läufer")


@for_each(
    "reply",
    [
        b"",
        b"_INBOX.abc.1",
        b"$JS.ACK",
        V1.rpartition(b".")[0],  # 8 tokens
        V1 + b".1",  # 10 tokens
        V1.replace(b"$JS", b"$KV"),
        V1.replace(b"ACK", b"NAK"),
        V1.replace(b"$JS.ACK", b"$js.ack"),
        V1.replace(b"1001", b""),
        V1.replace(b"1001", b"-1"),
        V1.replace(b"1001", b"1_0"),
        V1.replace(b"1001", "١٢".encode()),
        V1.replace(b"1001", b"9" * 5000),
        V2.replace(b"42", b"x"),
        b"\xff" * 20,
    ],
)
def test_anything_else_is_refused_with_the_subject_named(reply: bytes) -> None:
    with pytest.raises(NotJetStreamMessage, match="not an acknowledgement subject") as caught:
        parse_metadata(reply)
    assert isinstance(caught.value, JetStreamError)
    assert caught.value.hint


@given(st.binary(max_size=80) | st.from_regex(rb"\A\$JS\.ACK(\.[0-9a-z_]*){7,11}\Z"))
def test_whatever_the_subject_it_is_read_or_refused(reply: bytes) -> None:
    try:
        metadata = parse_metadata(reply)
    except NotJetStreamMessage:
        return
    assert metadata.sequence.stream >= 0
    assert metadata.timestamp.tzinfo is UTC
