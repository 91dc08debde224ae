"""Messages as Arrow columns: the types that Spark takes, and nothing of a message changed on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.arrow import SCHEMA, SCHEMA_WITHOUT_HEADERS, record_batch
from jetspark.wire import MsgFrame
from jetspark.wire.headers import Headers, encode_headers
from tests.support.cases import for_each

NOON_NS = 1_769_860_800_123_456_789
NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


def delivered(
    sequence: int = 1,
    *,
    subject: bytes = b"orders.new",
    data: bytes = b"x",
    header: bytes = b"",
    time_ns: int = NOON_NS,
    domain: bytes | None = None,
) -> MsgFrame:
    """As a consumer delivers it."""
    place = b"" if domain is None else b"%b.ACCOUNT." % domain
    end = b"" if domain is None else b".x7Gh"
    reply = b"$JS.ACK.%bORDERS.c.1.%d.77.%d.5%b" % (place, sequence, time_ns, end)
    return MsgFrame(b"1", subject, reply, header, data)


def got(
    sequence: int = 1, *, subject: bytes = b"orders.new", data: bytes = b"x", header: bytes = b""
) -> MsgFrame:
    """As a batch of direct gets has it."""
    block = (header or b"NATS/1.0\r\n\r\n").removesuffix(b"\r\n") + (
        b"Nats-Stream: ORDERS\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: 2026-01-31T12:00:00.123456789Z\r\n"
        b"Nats-Num-Pending: 5\r\nNats-Last-Sequence: 0\r\n\r\n" % (subject, sequence)
    )
    return MsgFrame(b"1", b"_INBOX.x", b"", block, data)


both_ways = pytest.mark.parametrize("make", [delivered, got])


def rows(chunk: list[Any], **options: Any) -> list[dict[str, Any]]:
    """A chunk as Python values; maps as dicts."""
    batch = record_batch(chunk, "ORDERS", **options)
    batch.validate(full=True)
    return [
        row | ({"headers": dict(row["headers"])} if "headers" in row else {}) for row in batch.to_pylist()
    ]


# --- the types


def test_the_types_are_those_that_spark_takes() -> None:
    assert [(field.name, str(field.type)) for field in SCHEMA] == [
        ("subject", "string"),
        ("data", "binary"),
        ("headers", "map<string, list<element: string>>"),
        ("stream", "string"),
        ("sequence", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
    ]
    assert SCHEMA_WITHOUT_HEADERS.names == ["subject", "data", "stream", "sequence", "timestamp"]


@both_ways
def test_every_batch_has_exactly_these_types(make: Any) -> None:
    header = encode_headers({"a": "b"})
    for chunk in ([make()], [make(1, header=header), make(2)]):
        assert record_batch(chunk, "ORDERS").schema.equals(SCHEMA, check_metadata=True)
        without = record_batch(chunk, "ORDERS", headers=False)
        assert without.schema.equals(SCHEMA_WITHOUT_HEADERS, check_metadata=True)


def test_no_message_at_all_makes_an_empty_batch() -> None:
    assert record_batch([], "ORDERS").num_rows == 0
    assert record_batch([], "ORDERS").schema.equals(SCHEMA)


# --- the values


@both_ways
def test_a_message_becomes_a_row(make: Any) -> None:
    header = encode_headers({"Content-Type": "text/plain", "Trace": "1"})
    assert rows([make(1234, data=b"\x00\xffpayload", header=header)]) == [
        {
            "subject": "orders.new",
            "data": b"\x00\xffpayload",
            "headers": {"Content-Type": ["text/plain"], "Trace": ["1"]},
            "stream": "ORDERS",
            "sequence": 1234,
            "timestamp": NOON,
        }
    ]


@both_ways
def test_empty_data_is_empty_and_not_null(make: Any) -> None:
    batch = record_batch([make(data=b"")], "ORDERS")
    assert batch.column("data").to_pylist() == [b""]
    assert all(batch.column(name).null_count == 0 for name in SCHEMA.names)


@both_ways
def test_headers_may_be_there_or_not_and_are_never_null(make: Any) -> None:
    chunk = [make(1), make(2, header=encode_headers({"a": "1"})), make(3)]
    assert [row["headers"] for row in rows(chunk)] == [{}, {"a": ["1"]}, {}]
    assert "headers" not in rows(chunk, headers=False)[0]


@both_ways
def test_a_header_with_several_values_keeps_them_in_order(make: Any) -> None:
    header = b"NATS/1.0\r\nA: 1\r\nb: x\r\na: 2\r\nA: 1\r\n\r\n"
    assert rows([make(header=header)])[0]["headers"] == {"A": ["1", "2", "1"], "b": ["x"]}


@both_ways
def test_header_values_are_taken_as_they_were_written(make: Any) -> None:
    header = (
        b"NATS/1.0\r\nempty:\r\nspace:  x \r\nplain:y\r\ncolon: a:b\r\nutf: \xc3\xa9\r\nbad: \xff\r\n\r\n"
    )
    assert rows([make(header=header)])[0]["headers"] == {
        "empty": [""],
        "space": [" x "],
        "plain": ["y"],
        "colon": ["a:b"],
        "utf": ["é"],
        "bad": ["�"],
    }


@both_ways
def test_what_is_no_utf_8_in_a_subject_is_replaced_and_hurts_no_other_row(make: Any) -> None:
    chunk = [make(1, subject=b"a.\xff\xfe"), make(2, subject="a.ä".encode()), make(3)]
    assert [row["subject"] for row in rows(chunk)] == ["a.��", "a.ä", "orders.new"]


def test_headers_that_a_direct_get_adds_are_not_the_messages() -> None:
    header = encode_headers({"Nats-Msg-Id": "7", "Nats-Sequence": "mine"})
    assert rows([got(header=header)])[0]["headers"] == {"Nats-Msg-Id": ["7"], "Nats-Sequence": ["mine"]}


# --- places


def test_sequences_and_times_come_out_of_acknowledgement_subjects_of_both_kinds() -> None:
    plain, with_domain, without_domain = delivered(5), delivered(6, domain=b"hub"), delivered(7, domain=b"_")
    assert [row["sequence"] for row in rows([with_domain, without_domain])] == [6, 7]
    for chunk in (
        [plain, with_domain, without_domain],
        [with_domain, plain],
        [plain, with_domain, plain],  # As when servers of two versions take turns.
    ):
        table = rows(chunk)
        assert [row["sequence"] for row in table] == [
            int(f.reply.split(b".77.")[0].rpartition(b".")[2]) for f in chunk
        ]
        assert {row["timestamp"] for row in table} == {NOON}


@for_each("sequence", [1, 2**31, 2**53 + 1, 2**63 - 1])
def test_large_sequences_are_exact(sequence: int) -> None:
    assert rows([delivered(sequence)])[0]["sequence"] == sequence


@given(st.lists(st.integers(0, 4_000_000_000_000_000_000), min_size=1))
def test_times_lose_their_nanoseconds_and_nothing_else(times: list[int]) -> None:
    chunk = [delivered(number, time_ns=time) for number, time in enumerate(times, 1)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["timestamp"] for row in rows(chunk)] == [
        epoch + timedelta(microseconds=time // 1000) for time in times
    ]


names = st.text("abAB-", min_size=1, max_size=3)
values = st.lists(
    st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"])), min_size=1, max_size=3
)


@given(st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=5))
def test_headers_are_what_the_client_would_show(messages: list[dict[str, list[str]]]) -> None:
    blocks = [encode_headers(headers) if headers else b"" for headers in messages]
    expected = [dict(Headers.parse(block).multi_items()) for block in blocks]
    for make in (delivered, got):
        chunk = [make(number, header=block) for number, block in enumerate(blocks, 1)]
        assert [row["headers"] for row in rows(chunk)] == expected


MALFORMED = {
    b"NATS/1.0\r\nA: 1\r\nno colon\r\n\r\n": {"A": ["1"]},
    b"NATS/1.0\r\n: no name\r\nA: 1\r\n\r\n": {"A": ["1"]},
    b"garbage\r\nA: 1\r\n\r\n": {"A": ["1"]},
    b"NATS/1.0\nA: 1\n\n\r\n\r\n": {},
}


@pytest.mark.parametrize(("header", "read"), MALFORMED.items(), ids=str)
@both_ways
def test_of_a_malformed_header_block_the_readable_lines_are_read_and_the_whole_is_kept(
    make: Any, header: bytes, read: dict[str, list[str]]
) -> None:
    usual = encode_headers({"B": "2"})
    chunk = [make(1, header=usual), make(2, header=header), make(3)]
    assert [row["headers"] for row in rows(chunk)] == [{"B": ["2"]}, {**read, "": [header.decode()]}, {}]


def test_a_block_without_its_end_is_read_and_kept() -> None:
    header = b"NATS/1.0\r\nA: 1234"
    assert rows([delivered(header=header)])[0]["headers"] == {"A": ["1234"], "": [header.decode()]}
    # In a direct get, the server puts its own headers over the last two bytes.
    cut = header[:-2]
    answer = cut + got().header.removeprefix(b"NATS/1.0\r\n")
    (row,) = rows([MsgFrame(b"1", b"_INBOX.x", b"", answer, b"x")])
    assert row["headers"] == {"A": ["12"], "": [cut.decode()]}
    assert (row["subject"], row["sequence"]) == ("orders.new", 1)


def test_many_messages_are_one_batch() -> None:
    chunk = [delivered(number, data=b"%d" % number) for number in range(1, 20_001)]
    batch = record_batch(chunk, "ORDERS")
    assert batch.column("sequence").to_pylist() == list(range(1, 20_001))
    assert batch.column("data").to_pylist() == [b"%d" % number for number in range(1, 20_001)]
    assert isinstance(batch, pa.RecordBatch)
