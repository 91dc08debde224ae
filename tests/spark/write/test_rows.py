"""The rows of a write: which columns are accepted, and how a row becomes a message."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetspark.errors import UsageError
from jetspark.jetstream.publish.bulk import Outgoing
from jetspark.spark.write.rows import RowEncoder, check_columns
from jetspark.wire.headers import Headers
from tests.support.cases import for_each

TEXT, BYTES, NUMBER = StringType(), BinaryType(), LongType()
MAP = MapType(TEXT, TEXT)
MULTI_MAP = MapType(TEXT, ArrayType(TEXT))

ACCEPTED: list[dict[str, DataType]] = [
    {"data": TEXT},
    {"data": BYTES},
    {"data": BYTES, "subject": TEXT},
    {"data": BYTES, "headers": MAP},
    {"data": BYTES, "headers": MULTI_MAP},
    {"data": BYTES, "msg_id": TEXT},
    {"msg_id": TEXT, "headers": MAP, "subject": TEXT, "data": TEXT},
    # As a stream is read.
    {
        "subject": TEXT,
        "data": BYTES,
        "headers": MULTI_MAP,
        "stream": TEXT,
        "sequence": NUMBER,
        "timestamp": TimestampType(),
    },
]
BAD_DATA = "column data must be string or binary, not"
BAD_HEADERS = "column headers must be map<string,string> or map<string,array<string>>, not"
REFUSED: list[tuple[dict[str, DataType], str]] = [
    ({}, "missing column data; the columns are none"),
    ({"subject": TEXT}, "missing column data; the columns are subject"),
    ({"Data": TEXT}, "missing column data; the columns are Data"),
    ({"data": NUMBER}, f"{BAD_DATA} bigint"),
    ({"data": StructType([StructField("a", TEXT)])}, f"{BAD_DATA} struct<a:string>"),
    ({"data": ArrayType(BYTES)}, f"{BAD_DATA} array<binary>"),
    ({"data": MAP}, f"{BAD_DATA} map<string,string>"),
    ({"data": TEXT, "subject": BYTES}, "column subject must be string, not binary"),
    ({"data": TEXT, "subject": NUMBER}, "column subject must be string, not bigint"),
    ({"data": TEXT, "msg_id": NUMBER}, "column msg_id must be string, not bigint"),
    ({"data": TEXT, "msg_id": BYTES}, "column msg_id must be string, not binary"),
    ({"data": TEXT, "headers": TEXT}, f"{BAD_HEADERS} string"),
    ({"data": TEXT, "headers": MapType(NUMBER, TEXT)}, f"{BAD_HEADERS} map<bigint,string>"),
    ({"data": TEXT, "headers": MapType(TEXT, NUMBER)}, f"{BAD_HEADERS} map<string,bigint>"),
    ({"data": TEXT, "headers": MapType(TEXT, BYTES)}, f"{BAD_HEADERS} map<string,binary>"),
    ({"data": TEXT, "headers": MapType(TEXT, ArrayType(BYTES))}, f"{BAD_HEADERS} map<string,array<binary>>"),
    ({"data": TEXT, "headers": MapType(TEXT, ArrayType(NUMBER))}, f"{BAD_HEADERS} map<string,array<bigint>>"),
    ({"data": TEXT, "headers": ArrayType(TEXT)}, f"{BAD_HEADERS} array<string>"),
    (
        {"data": TEXT, "key": TEXT},
        "unknown column key: its values would be lost; known are data, subject, headers, msg_id",
    ),
    (
        {"data": TEXT, "Subject": TEXT},
        "unknown column Subject: its values would be lost; known are data, subject",
    ),
]


def schema(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@for_each("columns", ACCEPTED, ids="-".join)
def test_these_columns_are_accepted(columns: dict[str, DataType]) -> None:
    check_columns(schema(columns), subject="orders.new")


@for_each(("columns", "message"), REFUSED, ids=lambda each: each if type(each) is str else "")
def test_other_columns_are_refused_by_name_and_type(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_columns(schema(columns), subject="orders.new")
    assert message in str(caught.value)


def test_whether_a_column_may_be_null_does_not_matter() -> None:
    headers = MapType(StringType(), ArrayType(StringType(), containsNull=False), valueContainsNull=False)
    fields = [StructField("data", StringType(), nullable=False), StructField("headers", headers, False)]
    check_columns(StructType(fields), subject="orders.new")


def test_a_collation_does_not_matter() -> None:
    check_columns(StructType([StructField("data", StringType("UNICODE_CI"))]), subject="orders.new")


def test_without_column_and_option_there_is_no_subject() -> None:
    with pytest.raises(UsageError, match=r"missing subject\. Add a column subject or the option subject"):
        check_columns(schema({"data": TEXT}), subject=None)
    check_columns(schema({"data": TEXT, "subject": TEXT}), subject=None)


def test_the_columns_of_a_read_that_are_left_out_may_have_any_type() -> None:
    check_columns(schema({"data": TEXT, "stream": NUMBER, "timestamp": TEXT}), subject="orders.new")


# --- messages


def encoder(
    subject: str | None = "orders.new", stream: str | None = None, prefix: str = "run/7/", **options: Any
) -> RowEncoder:
    return RowEncoder(
        subject=subject, stream=stream, id_prefix=prefix, place="partition 7", max_size=1000, **options
    )


def one(columns: Mapping[str, Sequence[Any]], **options: Any) -> Outgoing:
    (message,) = encoder(**options).messages(columns)
    return message


def is_made(msg_id: str) -> bool:
    """Whether an id was made from the content of a row."""
    return re.fullmatch(r"run/7/[A-Za-z0-9+/]{22}(/\d+)?", msg_id) is not None


def fields(message: Outgoing) -> dict[str, list[str]]:
    return dict(Headers.parse(message.block).multi_items())


def test_a_row_of_a_table_whose_subject_is_null_has_that_of_the_option() -> None:
    columns: dict[str, list[Any]] = {"data": [b"a", b"b"], "subject": ["orders.eu", None]}
    messages = encoder(fills_subjects=True).messages(columns)
    assert [message.subject for message in messages] == ["orders.eu", "orders.new"]


def test_a_row_without_anything_else_has_the_subject_of_the_option_and_an_id_of_its_content() -> None:
    message = one({"data": [b"x"]})
    assert (message.subject, message.data) == ("orders.new", b"x")
    assert is_made(message.msg_id)
    assert fields(message) == {"Nats-Msg-Id": [message.msg_id]}


def test_the_column_subject_wins_over_the_option() -> None:
    assert one({"data": [b"x"], "subject": ["orders.old"]}).subject == "orders.old"


def test_the_column_msg_id_wins_unless_it_is_null() -> None:
    columns: dict[str, list[Any]] = {"data": [b"x", b"y", b"z"], "msg_id": ["a", None, "b"]}
    messages = list(encoder().messages(columns))
    made = messages[1].msg_id
    assert is_made(made)
    assert [message.msg_id for message in messages] == ["a", made, "b"]
    assert [fields(message)["Nats-Msg-Id"] for message in messages] == [["a"], [made], ["b"]]


def test_null_data_becomes_an_empty_message() -> None:
    messages = encoder().messages({"data": [None, b"", b"x"]})
    assert [message.data for message in messages] == [b"", b"", b"x"]


@for_each("stream", ["ORDERS", "OR@DERS", "@"])
@for_each("headers", [None, {"k": "v"}])
def test_the_option_stream_is_expected_of_the_server(stream: str, headers: dict[str, str] | None) -> None:
    found = fields(one({"data": [b"x"], "headers": [headers]}, stream=stream))
    assert found["Nats-Expected-Stream"] == [stream]
    assert is_made(*found["Nats-Msg-Id"])


@for_each(
    "headers",
    [
        {"k": "v", "l": ""},
        {"k": ["v", "w"], "l": ["ü", " spaces ", ":"]},
        [("k", "v"), ("l", "w")],  # as Arrow has it
        [("k", ["v", "w"])],
    ],
)
def test_headers_of_both_kinds_are_written(headers: Any) -> None:
    found = fields(one({"data": [b"x"], "headers": [headers]}))
    assert is_made(*found.pop("Nats-Msg-Id"))
    wanted = {name: [value] if isinstance(value, str) else value for name, value in dict(headers).items()}
    assert found == wanted


@pytest.mark.parametrize("headers", [None, {}, []])
def test_no_headers_are_no_headers(headers: Any) -> None:
    assert one({"data": [b"x"], "headers": [headers]}).block == one({"data": [b"x"]}).block


OF_ONE_PUBLISH = {
    "Nats-Msg-Id": "theirs",
    "nats-msg-id": "theirs",
    "Nats-Batch-Id": "b",
    "Nats-Batch-Sequence": "1",
    "Nats-Batch-Commit": "1",
    "Nats-Expected-Stream": "OTHER",
    "Nats-Expected-Last-Sequence": "5",
    "nats-expected-last-msg-id": "x",
    "Nats-Expected-Last-Subject-Sequence": "5",
}
COMMANDS = {"Nats-Rollup": "all", "Nats-TTL": "1s", "Nats-Schedule-Next": "purge", "Nats-Stream": "S"}
OF_THE_USER = {"Nats-Message": "kept", "nats-incr": "no command"}


@pytest.mark.parametrize("keep", [False, True])
def test_headers_that_command_the_server_are_dropped_unless_they_are_to_be_kept(keep: bool) -> None:
    headers = {**OF_ONE_PUBLISH, **COMMANDS, **OF_THE_USER}
    expected = {name: [value] for name, value in {**(COMMANDS if keep else {}), **OF_THE_USER}.items()}
    found = fields(one({"data": [b"x"], "headers": [headers]}, keep_control_headers=keep))
    assert is_made(*found.pop("Nats-Msg-Id"))
    assert found == expected
    listed = {name: [value] for name, value in headers.items()}
    columns: dict[str, list[Any]] = {"data": [b"x"], "headers": [listed], "msg_id": ["mine"]}
    assert fields(one(columns, stream="S", keep_control_headers=keep)) == {
        "Nats-Msg-Id": ["mine"],
        "Nats-Expected-Stream": ["S"],
        **expected,
    }


# --- bad rows

BAD_ROWS: list[tuple[str, Any, str]] = [
    ("subject", None, "is null"),
    ("subject", "", "not valid"),
    ("subject", "a b", "'a b' is not valid"),
    ("subject", "a..b", "'a..b' is not valid"),
    ("subject", "a.*", "wildcard"),
    ("subject", "a\r\nPUB b 0", "not valid"),
    ("subject", "a" * 3000, "the limit is 2000"),
    ("msg_id", "", "not empty"),
    ("msg_id", " a", "without spaces around it"),
    ("msg_id", "a\r\nEvil: 1", "line break"),
    ("headers", {"a b": "v"}, "the name 'a b' is not valid"),
    ("headers", {"": "v"}, "the name '' is not valid"),
    ("headers", {"a:b": ["v"]}, "the name 'a:b' is not valid"),
    ("headers", {"ü": "v"}, "the name 'ü' is not valid"),
    ("headers", {"k": "a\nb"}, "line break"),
    ("headers", {"k": ["fine", "a\rb"]}, "line break"),
    ("headers", {"k": "a\x00b"}, "NUL"),
    ("headers", {"k": None}, "'k'"),
    ("headers", {"fine": "v", "k": None}, "'k'"),
    ("headers", {"k": ["v", None]}, "'k'"),
]
GOOD_ROW = {"data": b"x", "subject": "a.b", "msg_id": None, "headers": {"k": "v"}}


@for_each(("column", "value", "message"), BAD_ROWS, ids=str)
def test_a_bad_value_is_refused_with_its_column_and_row(column: str, value: Any, message: str) -> None:
    rows = [GOOD_ROW] * 3 + [GOOD_ROW | {column: value}] + [GOOD_ROW] * 2
    columns = {name: [row[name] for row in rows] for name in GOOD_ROW}
    encoding = encoder()
    taken = list(encoding.messages({"data": [b"earlier"] * 10}))
    with pytest.raises(UsageError) as caught:
        taken.extend(encoding.messages(columns))
    assert str(caught.value).startswith(f"column {column}, row 14 of partition 7: ")
    assert message in str(caught.value)
    assert len(taken) == 13


def test_a_message_that_is_too_large_with_its_headers_is_refused_with_its_row() -> None:
    room = 1000 - len(one({"data": [b""]}).block)
    encoding = encoder()
    taken: list[Outgoing] = []
    with pytest.raises(UsageError, match=r"column data, row 3 of partition 7: .* 1001 bytes .* takes 1000\."):
        taken.extend(encoding.messages({"data": [bytes(room), b"", bytes(room + 1), b""]}))
    assert len(taken) == 2


@for_each(("column", "value", "message"), BAD_ROWS, ids=str)
def test_a_bad_row_is_a_dead_letter_where_there_is_a_subject_for_it(
    column: str, value: Any, message: str
) -> None:
    rows = [GOOD_ROW, GOOD_ROW | {column: value}, GOOD_ROW]
    encoding = encoder(stream="S", dead_letters="dead.rows")
    _, letter, last = encoding.messages({name: [row[name] for row in rows] for name in GOOD_ROW})
    assert (encoding.rows, encoding.dead) == (3, 1)
    assert (letter.subject, letter.data, last.subject) == ("dead.rows", b"x", "a.b")
    found = fields(letter)
    assert found["Nats-Msg-Id"] == [letter.msg_id]
    assert letter.msg_id.startswith("dead/")
    assert "Nats-Expected-Stream" not in found
    (reason,) = found["Dead-Letter-Reason"]
    assert reason.startswith(f"column {column}, row 2 of partition 7: ")
    assert message in reason
    assert ("Dead-Letter-Subject" in found) == (column != "subject" or value is not None)
    (headers,) = found["Dead-Letter-Headers"]
    assert json.loads(headers) == (value if column == "headers" else GOOD_ROW["headers"])


def test_a_dead_letter_has_the_same_id_each_time() -> None:
    columns: dict[str, list[Any]] = {"data": [b"x", b"y"], "subject": ["a b", None], "msg_id": [None, "mine"]}
    ids = set()
    for _ in range(2):
        first, second = encoder(dead_letters="dead").messages(columns)
        assert is_made(first.msg_id.removeprefix("dead/"))
        assert second.msg_id == "dead/mine"
        ids.add(first.msg_id)
    assert len(ids) == 1


@pytest.mark.parametrize("headers", [None, {"k": "v" * 5000}])
def test_a_dead_letter_of_a_large_row_fits_and_says_that_it_is_cut(headers: Any) -> None:
    row = {"data": [bytes(2000)], "headers": [headers], "subject": ["a" * 500]}
    (letter,) = encoder(dead_letters="dead").messages(row)
    assert len(letter.block) + len(letter.data) <= 1000
    assert fields(letter)["Dead-Letter-Truncated"] == ["true"]
    (letter,) = encoder(dead_letters="dead").messages({"data": [b"x"], "subject": [None]})
    assert "Dead-Letter-Truncated" not in fields(letter)


# --- ids

names = st.from_regex(r"[A-Za-z][!-9;-~]{0,8}", fullmatch=True).filter(
    lambda name: not name.lower().startswith("nats-")
)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=10)
header_maps = st.dictionaries(names, values | st.lists(values, min_size=1, max_size=3), max_size=3)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "data": st.none() | st.binary(max_size=20),
            "subject": st.from_regex(r"[a-z]{1,3}(\.[a-zü]{1,3}){0,2}", fullmatch=True),
            "headers": st.none() | header_maps.filter(lambda m: len({n.lower() for n in m}) == len(m)),
            "msg_id": st.none() | st.from_regex(r"[!-~]{1,5}( [!-~]{1,5})?", fullmatch=True),
        }
    ),
    min_size=1,
    max_size=20,
)


@given(rows, st.data())
def test_a_row_becomes_the_same_message_however_the_rows_are_split(
    given_rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    def encoded(pieces: list[list[dict[str, Any]]]) -> list[Outgoing]:
        encoding = encoder()
        messages: list[Outgoing] = []
        for piece in pieces:
            if piece:
                columns = {name: [row[name] for row in piece] for name in piece[0]}
                messages += encoding.messages(columns)
        assert encoding.rows == len(given_rows)
        return messages

    cut = data.draw(st.integers(0, len(given_rows)))
    messages = encoded([given_rows])
    assert messages == encoded([given_rows[:cut], given_rows[cut:]])
    for row, message in zip(given_rows, messages, strict=True):
        found = fields(message)
        assert found.pop("Nats-Msg-Id") == [message.msg_id]
        assert message.msg_id == row["msg_id"] or (row["msg_id"] is None and is_made(message.msg_id))
        assert (message.subject, message.data) == (row["subject"], row["data"] or b"")
        wanted = row["headers"] or {}
        assert found == {n: [v] if isinstance(v, str) else v for n, v in wanted.items()}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.text("/0123456789", max_size=3))
def test_rows_without_ids_have_ids_that_differ(sizes: list[int], prefix: str) -> None:
    ids = []
    for partition in range(3):
        encoding = encoder(prefix=f"{prefix}run/{partition}/")
        for size in sizes:
            ids += [message.msg_id for message in encoding.messages({"data": [b""] * size})]
    assert len(set(ids)) == len(ids) == 3 * sum(sizes)
