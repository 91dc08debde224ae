"""Values as text: bounded, whole where they can be, and without what misleads a reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.console.text import (
    line,
    show_ago,
    show_body,
    show_bytes,
    show_duration,
    show_rate,
    show_time,
)


@given(st.binary(max_size=2000))
def test_any_body_is_text_that_json_can_hold(data: bytes) -> None:
    body = show_body(data)
    json.dumps(body.text).encode()
    assert "\0" not in body.text
    assert "\x1b" not in body.text


@given(
    st.text(max_size=300) | st.binary(max_size=300).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_any_name_is_one_line_of_bounded_length(name: str) -> None:
    shown = line(name)
    shown.encode()
    assert len(shown) <= 200
    assert "\n" not in shown
    assert "\u202e" not in shown


def test_json_is_formatted_and_other_text_is_not() -> None:
    assert show_body(b'{"a":[1,2]}').text == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert show_body(b'{"a":').kind == "text"
    assert show_body("Größe\n".encode()) == ("text", "Größe\n", "")
    assert show_body(b"").kind == "empty"


def test_bytes_are_shown_in_hex() -> None:
    body = show_body(b"\x00\xffABC")
    assert body.kind == "binary"
    assert body.text == "00000000  00 ff 41 42 43                                   ..ABC"


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"x" * (64 << 20), "text"), (b"\xff" * (64 << 20), "binary"), (b"[" * 300_000, "text")],
    ids=["text", "binary", "nested"],
)
def test_a_large_body_is_cut_and_says_so(data: bytes, kind: str) -> None:
    body = show_body(data)
    assert body.kind == kind
    assert len(body.text) < 80_000
    assert show_bytes(len(data)) in body.note


def test_a_body_that_is_cut_within_a_character_is_text() -> None:
    assert show_body("é".encode() * 40_000).kind == "text"
    assert show_body(b"a" + "é".encode() * 40_000).kind == "text"


def test_units() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert show_ago(now - timedelta(minutes=90), now) == "1h30m ago"
    assert show_ago(None, now) == show_ago(datetime(1, 1, 1, tzinfo=UTC), now) == "never"
    assert show_ago(now, now) == "now"
    assert show_time(now) == "2026-01-02 03:04:05"
    assert [show_rate(rate) for rate in (0, 0.123, 3, 12345.6)] == ["0", "0.12", "3", "12,346"]
    assert [show_duration(seconds) for seconds in (0.25, 59.7, 3600)] == ["250ms", "1m", "1h"]
