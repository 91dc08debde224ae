"""Units, templates and escapes: pure, so with any input."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from jetspark.cli.args import units
from jetspark.cli.args.template import Template, Verbatim
from jetspark.cli.ui.escape import escape_json, escape_line, escape_payload
from jetspark.cli.ui.failure import Failure, describe
from tests.support.cases import for_each

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@for_each(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("7d", 604800),
        ("1y", 31536000),
        ("0", 0),
        ("1.5H", 5400),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert units.duration(text) == pytest.approx(seconds)


@for_each("text", ["", "30", "s", "1x", "-5s", "1h 30m", "1,5s", "ten"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 30s"):
        units.duration(text)


@for_each(
    ("text", "size"),
    [
        ("512", 512),
        ("64k", 65536),
        ("10MB", 10485760),
        ("1.5GiB", 1610612736),
        ("1 kb", 1024),
        ("2TB", 2 << 40),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert units.size(text) == size


@for_each("text", ["", "MB", "-1", "10 apples", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        units.size(text)


@given(st.integers(min_value=60, max_value=10**9))
def test_a_duration_that_is_shown_can_be_read(seconds: int) -> None:
    shown = units.duration(units.show_duration(seconds))
    assert shown <= seconds
    assert shown >= seconds * 0.95


@given(st.text())
def test_any_text_is_a_duration_or_refused_in_words(text: str) -> None:
    for read in (units.duration, units.size, units.count, units.moment):
        with suppress(ValueError):  # and nothing else
            read(text)


def test_a_moment_is_a_time_or_so_long_ago() -> None:
    assert units.moment("2026-01-31T12:00:00+01:00") == datetime(2026, 1, 31, 11, tzinfo=UTC)
    before = datetime.now(UTC) - timedelta(hours=2, seconds=1)
    assert before <= units.moment("2h") <= datetime.now(UTC) - timedelta(hours=1)


@given(st.text(), st.binary())
def test_nothing_unsafe_reaches_a_terminal(text: str, data: bytes) -> None:
    assert UNSAFE.search(escape_line(text)) is None
    assert UNSAFE.search(escape_payload(data).replace("\n", "").replace("\t", "")) is None
    document = escape_json(json.dumps(text, ensure_ascii=False))
    assert UNSAFE.search(document) is None
    assert json.loads(document) == text


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert escape_line(text) == text
    assert escape_payload(text.encode()) == text
    assert Verbatim(text).render(7) == text


def test_a_template_knows_its_words() -> None:
    rendered = Template(
        "{{Count}}|{{ .Count }}|{{Random 3 3}}|{{Unix}}|{{UnixNano}}|{{Time}}|{{TimeStamp}}|{{ID}}"
    ).render(42)
    assert re.fullmatch(
        r"42\|42\|\w{3}\|\d{10}\|\d{19}\|\d\d:\d\d:\d\d\|\d{4}-\d\d-\d\dT[^|]+\|[0-9a-f]{22}", rendered
    )
    assert Template("no places { } {{ }} {{").render(1) == "no places { } {{ }} {{"


@for_each(
    "text", ["{{Nope}}", "{{Random}}", "{{Random 5 1}}", "{{Random a b}}", "{{Count 1}}", "{{Random -1 2}}"]
)
def test_a_template_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="known are Count"):
        Template(text)


@given(st.text(), st.text())
def test_every_failure_is_one_line(message: str, hint: str) -> None:
    line, code = describe(Failure(message, hint))
    assert code == 1
    assert UNSAFE.search(line) is None
