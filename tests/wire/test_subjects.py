"""Subjects, queue groups and names, by example: what is refused, and what matches what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jetspark.errors import UsageError
from jetspark.wire.subjects import (
    check_filter,
    check_name,
    check_queue,
    check_subject,
    subject_matches,
    subjects_overlap,
)
from tests.support.cases import for_each

SUBJECT_CHECKS: list[Callable[..., bytes]] = [check_subject, check_filter]
ALL_CHECKS: list[Callable[..., Any]] = [check_subject, check_filter, check_queue, check_name]

# Would end a control line, be read as another field, or is never what its author meant.
BREAKS_OUT = [
    "",
    " ",
    "a b",
    " a",
    "a ",
    "a\tb",
    "a\r\nPUB x 0\r\n",
    "a\n",
    "a\r",
    "\x00",
    "a\x00b",
    "a\x1fb",
    "a\x7fb",
    "a\x85b",
    "a\xa0b",
    "a\u2003b",
    "a\u2028b",
    "a\u3000b",
]


@for_each("check", ALL_CHECKS)
@for_each("text", BREAKS_OUT)
def test_what_would_break_out_of_its_field_is_refused(check: Callable[..., Any], text: str) -> None:
    with pytest.raises(UsageError, match=r"^reply .* is not valid; accepted: "):
        check(text, "reply")


@for_each("check", ALL_CHECKS)
@for_each("text", ["a\ud800", "b\udc0a", "c\udc0d\udc0aPUB", "d\udc20", "e\udc7f"])
def test_a_surrogate_that_stands_for_no_received_byte_is_refused(
    check: Callable[..., Any], text: str
) -> None:
    with pytest.raises(UsageError, match=r"^reply .* cannot be encoded$"):
        check(text, "reply")


@for_each("check", ALL_CHECKS)
@for_each("text", [b"a", None, 1, ("a",)])
def test_what_is_no_text_is_refused(check: Callable[..., Any], text: object) -> None:
    with pytest.raises(UsageError, match=r"^reply must be a str, not "):
        check(text, "reply")


def test_a_refusal_names_the_argument() -> None:
    for argument in ("subject", "reply", "filter_subject"):
        for check in SUBJECT_CHECKS:
            with pytest.raises(UsageError, match=f"^{argument} 'a b'"):
                check("a b", argument)
    with pytest.raises(UsageError, match=r"^queue 'a b'"):
        check_queue("a b")
    with pytest.raises(UsageError, match=r"^stream 'a b'"):
        check_name("a b", "stream")


def test_a_refusal_names_the_subject_when_nothing_else_is_said() -> None:
    for check in SUBJECT_CHECKS:
        with pytest.raises(UsageError, match=r"^subject "):
            check("a..b")


def test_a_refusal_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="subject"):
        check_subject("")


def test_a_subject_is_refused_each_time_and_not_only_the_first() -> None:
    for _ in range(3):
        with pytest.raises(UsageError):
            check_subject("a b")


# --- subjects and filters


@for_each("check", SUBJECT_CHECKS)
@for_each("subject", [".", "a.", ".a", "a..b", "a...b", "..", "*.", ".>"])
def test_an_empty_token_is_refused(check: Callable[..., bytes], subject: str) -> None:
    with pytest.raises(UsageError, match="subject"):
        check(subject)


@for_each("check", SUBJECT_CHECKS)
@for_each("subject", ["a", "a.b.c", "$JS.API.INFO", "_INBOX.x-1", "a*", ">b.c", "a.b>", "é.日本", "**"])
def test_a_subject_is_encoded(check: Callable[..., bytes], subject: str) -> None:
    assert check(subject) == subject.encode()


@pytest.mark.parametrize("check", [*SUBJECT_CHECKS, check_queue])
def test_bytes_that_were_received_and_are_no_utf8_go_out_as_they_came(check: Callable[..., bytes]) -> None:
    assert check(b"a.\xff\x80".decode("utf-8", "surrogateescape")) == b"a.\xff\x80"


@for_each("subject", ["*", ">", "a.*", "a.>", "*.b", "a.*.c", "a.>.c"])
def test_one_cannot_publish_to_a_wildcard(subject: str) -> None:
    with pytest.raises(UsageError, match=r"^reply .* has a wildcard"):
        check_subject(subject, "reply")


@for_each("subject", ["*", ">", "a.*", "a.>", "*.b", "a.*.c", "*.>"])
def test_one_can_subscribe_to_a_wildcard(subject: str) -> None:
    assert check_filter(subject) == subject.encode()


@for_each("subject", [">.a", "a.>.b", ">.>", "*.>.*"])
def test_the_wildcard_for_the_rest_can_only_be_last(subject: str) -> None:
    with pytest.raises(UsageError, match=r"^subject .* can only be the last token"):
        check_filter(subject)


# --- queues and names


@for_each("queue", ["q", "workers.eu", "a*b", "é", "."])
def test_a_queue_is_any_word(queue: str) -> None:
    assert check_queue(queue) == queue.encode()


@for_each("argument", ["stream", "consumer"])
@for_each("name", ["a.b", ".", "..", "*", "a*", ">", "a>", "a/b", "/", "a\\b", "\\", "../x", *BREAKS_OUT])
def test_a_name_that_is_no_single_token_or_no_file_name_is_refused(argument: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"^{argument} "):
        check_name(name, argument)


@for_each("name", ["ORDERS", "a-b_c", "$x", "é", "1", "x" * 255])
def test_a_name_is_returned_as_it_is(name: str) -> None:
    assert check_name(name, "stream") == name


def test_a_name_of_more_than_255_characters_is_refused_without_repeating_it_all() -> None:
    with pytest.raises(UsageError, match=r"^consumer is longer than 255 characters") as caught:
        check_name("x" * 256, "consumer")
    assert len(str(caught.value)) < 100


# --- matching


@for_each(
    ("pattern", "subject", "matches"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.b", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.b.d", False),
        (">", "a", True),
        (">", "a.b.c", True),
        ("a.>", "a", False),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "b.c", False),
        ("*.>", "a.b", True),
        ("*.>", "a", False),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("A", "a", False),
    ],
)
def test_a_subject_matches_a_pattern(pattern: str, subject: str, matches: bool) -> None:
    assert subject_matches(pattern, subject) is matches


@for_each(
    ("one", "other", "overlap"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "*.b", True),
        ("a.*", "b.*", False),
        ("a.*", "a.*.c", False),
        ("a.>", "a", False),
        ("a.>", "a.*", True),
        ("a.>", "*.b.c", True),
        ("a.b.>", "a.*", False),
        (">", "a", True),
        (">", "a.>", True),
        ("a.>", "b.>", False),
        ("*.>", "a", False),
    ],
)
def test_two_patterns_overlap_in_either_order(one: str, other: str, overlap: bool) -> None:
    assert subjects_overlap(one, other) is overlap
    assert subjects_overlap(other, one) is overlap
