"""Header blocks and status lines, by example."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from jetspark.errors import RemoteProtocolError, UsageError
from jetspark.wire.headers import NO_HEADERS, Headers, encode_headers, has_status, parse_status
from tests.support.cases import for_each

# --- reading


def test_names_compare_without_case_and_keep_the_case_they_came_in() -> None:
    headers = Headers.parse(b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n")
    assert headers["nats-msg-id"] == headers["NATS-MSG-ID"] == headers["Nats-Msg-Id"] == "7"
    assert "nats-MSG-id" in headers
    assert headers.get("Missing") is None
    assert list(headers) == ["Nats-Msg-Id"]
    with pytest.raises(KeyError, match="Missing"):
        headers["Missing"]


def test_a_name_has_several_values_in_the_order_they_came() -> None:
    headers = Headers.parse(b"NATS/1.0\r\nA: 1\r\nB: x\r\na: 2\r\nA: 1\r\n\r\n")
    assert headers["a"] == "1"
    assert headers.get_all("A") == ["1", "2", "1"]
    assert headers.get_all("missing") == []
    assert list(headers.multi_items()) == [("A", ["1", "2", "1"]), ("B", ["x"])]
    assert dict(headers) == {"A": "1", "B": "x"}
    assert len(headers) == 2


def test_what_get_all_returns_is_the_callers_own() -> None:
    headers = Headers({"A": ["1", "2"]})
    headers.get_all("A").append("3")
    for _, values in headers.multi_items():
        values.clear()
    assert headers.get_all("A") == ["1", "2"]


@for_each(
    ("line", "value"),
    [
        (b"A: 1", "1"),
        (b"A:1", "1"),
        (b"A:", ""),
        (b"A: ", ""),
        (b"A:  1 ", " 1 "),
        (b"A:\t1", "\t1"),
        (b"A: b: c:", "b: c:"),
        (b"A: \xc3\xa9", "é"),
        (b"A: \xff", "\udcff"),
    ],
)
def test_a_value_is_all_after_the_colon_less_one_space(line: bytes, value: str) -> None:
    assert Headers.parse(b"NATS/1.0\r\n" + line + b"\r\n\r\n")["A"] == value


def test_no_block_is_no_headers() -> None:
    assert Headers.parse(b"") == NO_HEADERS == {}
    assert NO_HEADERS.status is None


@for_each(
    ("block", "read"),
    [
        (b"NATS/2.0\r\nA: 1\r\n\r\n", {"A": "1"}),
        (b"nats/1.0\r\n\r\n", {}),
        (b"HTTP/1.1 200 OK\r\n\r\n", {}),
        (b"NATS/1.0404\r\n\r\n", {}),
        (b"\r\n", {}),
        (b"NATS/1.0 abc\r\nA: 1\r\n\r\n", {"A": "1"}),
        (b"NATS/1.0 -1\r\n\r\n", {}),
        (b"NATS/1.0 4_4\r\n\r\n", {}),
        (b"NATS/1.0 \xc2\xb2\r\n\r\n", {}),
        ("NATS/1.0 \u0664\u0660\u0664\r\n\r\n".encode(), {}),
        (b"NATS/1.0 " + b"4" * 5000 + b"\r\n\r\n", {}),
        (b"NATS/1.0\r\nA: 1\r\nno colon\r\nB: 2\r\n\r\n", {"A": "1", "B": "2"}),
        (b"NATS/1.0\r\n: no name\r\nA: 1\r\n\r\n", {"A": "1"}),
        (b"NATS/1.0\r\n\xff\r\n\r\n", {}),
        (b"NATS/1.0\nA: 1\n\n", {}),
        (b"NATS/1.0\r\nA: 1", {"A": "1"}),
        (b"NATS/1.0\r\nA: 1\r\n", {"A": "1"}),
        (b"\x00\x01\x02", {}),
    ],
)
def test_of_a_malformed_block_the_readable_lines_are_read_and_the_whole_is_kept(
    block: bytes, read: dict[str, str]
) -> None:
    headers = Headers.parse(block)
    assert headers == {**read, "": block.decode("utf-8", "surrogateescape")}
    assert headers[""].encode("utf-8", "surrogateescape") == block
    assert headers.status is None
    with pytest.raises(UsageError, match="malformed"):
        encode_headers(headers)


@for_each("line", [b"A B: 1", b"A: \n", b"A: \x00", b"\xff: 1", b"A : 1", b"A: \xff"])
def test_a_line_that_no_client_would_write_is_read_all_the_same(line: bytes) -> None:
    headers = Headers.parse(b"NATS/1.0\r\n%b\r\nB: 2\r\n\r\n" % line)
    name, _, value = line.decode("utf-8", "surrogateescape").partition(": ")
    assert dict(headers) == {name.partition(":")[0]: value, "B": "2"}


# --- the status line


@for_each(
    ("block", "status", "description"),
    [
        (b"NATS/1.0 404 No Messages\r\n\r\n", 404, "No Messages"),
        (b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\n\r\n", 100, "Idle Heartbeat"),
        (b"NATS/1.0 503\r\n\r\n", 503, ""),
        (b"NATS/1.0 503 \r\n\r\n", 503, ""),
        (b"NATS/1.0  409  Consumer Deleted \r\n\r\n", 409, "Consumer Deleted"),
        (b"NATS/1.0 408 Request Timeout", 408, "Request Timeout"),
        (b"NATS/1.0\r\nA: 1\r\n\r\n", None, ""),
        (b"NATS/1.0 \r\nA: 404 x\r\n\r\n", None, ""),
    ],
)
def test_the_status_line_is_read_alone_and_with_the_block(
    block: bytes, status: int | None, description: str
) -> None:
    assert parse_status(block) == (status, description)
    assert has_status(block) == (status is not None)
    headers = Headers.parse(block)
    assert (headers.status, headers.description) == (status, description)


def test_a_status_may_have_headers() -> None:
    headers = Headers.parse(
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 0\r\n\r\n"
    )
    assert headers.status == 408
    assert dict(headers) == {"Nats-Pending-Messages": "1", "Nats-Pending-Bytes": "0"}


def test_no_block_has_no_status() -> None:
    assert not has_status(b"")


# --- writing


def test_a_block_is_written_with_one_line_per_value() -> None:
    assert encode_headers({"A": "1", "B": ["x", "y"]}) == b"NATS/1.0\r\nA: 1\r\nB: x\r\nB: y\r\n\r\n"
    assert encode_headers({}) == b"NATS/1.0\r\n\r\n"
    assert encode_headers({"A": []}) == b"NATS/1.0\r\n\r\n"
    assert encode_headers({"A": (each for each in "12")}) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"


def test_headers_that_were_received_can_be_sent_on_without_their_status() -> None:
    block = b"NATS/1.0\r\nA:  1 \r\nA: \xff\r\nb: \xc3\xa9\r\n\r\n"
    assert encode_headers(Headers.parse(block)) == block
    assert encode_headers(Headers.parse(b"NATS/1.0 503\r\nA: 1\r\n\r\n")) == b"NATS/1.0\r\nA: 1\r\n\r\n"


@for_each("value", ["1\r\nNats-Msg-Id: A", "1\nB: 2", "1\rB: 2", "\r\n", "1\r\n\r\npayload", "a\x00b", "\n"])
def test_a_value_that_would_start_another_line_is_refused(value: str) -> None:
    for headers in ({"A": value}, {"A": ["fine", value]}, Headers({"A": value})):
        with pytest.raises(UsageError, match="headers: the value of 'A' contains a line break or NUL"):
            encode_headers(headers)


@for_each(
    "name",
    ["", " ", "a b", "a:", ":", "a\r\nNats-Msg-Id", "a\n", "a\x00", "a\t", "é", "\x7f", "a\xa0b", "\udcff"],
)
def test_a_name_that_is_not_printable_ascii_or_has_a_colon_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="headers: the name"):
        encode_headers({name: "1"})


@for_each("value", [1, None, b"1", b"", 1.5, [1], ["a", b"b"], [None]])
def test_a_value_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="headers: the value of 'A' must be a str, not"):
        encode_headers({"A": value})
    with pytest.raises(UsageError, match="headers: the value of 'A' must be a str, not"):
        Headers({"A": value})


@pytest.mark.parametrize("name", [1, None, b"A"])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    for take in (encode_headers, Headers):
        with pytest.raises(UsageError, match="headers: a name must be a str, not"):
            take({name: "1"})


@for_each("headers", [[("A", "1")], "A: 1", b"NATS/1.0\r\n\r\n", 1])
def test_what_is_no_mapping_is_refused(headers: Any) -> None:
    for take in (encode_headers, Headers):
        with pytest.raises(UsageError, match="headers must be a mapping"):
            take(headers)


@pytest.mark.parametrize("value", ["a\ud800", "b\udc0a", "c\udc0d\udc0a"])
def test_a_lone_surrogate_is_refused_also_one_that_looks_like_a_line_break(value: str) -> None:
    with pytest.raises(UsageError, match="headers: the value of 'A' cannot be encoded"):
        encode_headers({"A": value})


# --- as a mapping


def test_headers_equal_mappings_of_the_same_names_in_any_case() -> None:
    headers = Headers({"A": "1", "B": ["x", "y"]})
    assert headers == {"a": ["1"], "b": ("x", "y")}
    assert headers == Headers.parse(encode_headers(headers))
    assert headers != {"A": "1", "B": "x"}
    assert headers != {"A": "1"}
    assert headers != {"A": 1}
    assert headers != {1: "A"}
    assert headers != "A"
    assert Headers.parse(b"NATS/1.0 404\r\n\r\n") != {}


def test_a_mapping_with_one_name_in_two_cases_is_one_header_with_two_values() -> None:
    assert list(Headers({"Key": "1", "KEY": "2"}).multi_items()) == [("Key", ["1", "2"])]


def test_a_copy_is_independent_and_has_the_status() -> None:
    one = Headers.parse(b"NATS/1.0 404 No Messages\r\nA: 1\r\n\r\n")
    for other in (Headers(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        other._add("A", "2")
        assert one.get_all("A") == ["1"]


def test_the_repr_shows_values_and_status() -> None:
    assert repr(Headers({"A": "1", "B": ["x", "y"]})) == "Headers({'A': '1', 'B': ['x', 'y']})"
    assert "status=404, description='No Messages'" in repr(Headers.parse(b"NATS/1.0 404 No Messages\r\n\r\n"))


def test_headers_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Headers())


@pytest.mark.parametrize("blank", [b"\x1c", b"\x0b", b"\xc2\xa0"])
def test_only_spaces_and_tabs_are_no_status(blank: bytes) -> None:
    block = b"NATS/1.0 " + blank + b"\r\n\r\n"
    assert has_status(block)
    with pytest.raises(RemoteProtocolError, match="not a number"):
        parse_status(block)
    assert not has_status(b"NATS/1.0 \t \r\n\r\n")
