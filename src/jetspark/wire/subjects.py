"""Subjects, queue groups, names and other text: which are valid, and which subjects match a pattern.

Before anything is sent, the checks refuse characters that could end a control line early or be read as
another field: CR, LF, NUL, spaces, control characters, empty tokens. They return the encoded bytes and cache
recent results, so that a publisher pays for its subject once.

The cache needs arguments that can be hashed. `check_subject` and the others turn the `TypeError` of other
arguments into a `UsageError`; `encode_subject`, for each message, is for callers that know their type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeVar

from jetspark.errors import UsageError

__all__ = [
    "MAX_SUBJECT",
    "check_filter",
    "check_name",
    "check_queue",
    "check_subject",
    "check_text",
    "encode_subject",
    "has_wildcard",
    "subject_matches",
    "subjects_overlap",
    "text_list",
]

_T = TypeVar("_T")

#: The server accepts control lines of 4096 bytes: a subject, a reply subject, and sizes.
MAX_SUBJECT: Final = 2000

# Whitespace and control characters of Unicode: the server splits on ASCII only, but a non-breaking space in
# a subject is always a mistake.
_TOKEN = r"[^\s\x00-\x20\x7f-\xa0.]+"
_SUBJECT = re.compile(rf"{_TOKEN}(?:\.{_TOKEN})*")
_TOKENS: Final = "tokens joined by dots, without spaces or control characters"
_NAME = re.compile(r"[^\s\x00-\x20\x7f-\xa0.*>/\\]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUEUE = re.compile(r"[^\s\x00-\x20\x7f-\xa0]+")


def check_subject(subject: str, argument: str = "subject") -> bytes:
    """Encode a subject to publish to. Raises `UsageError`, naming `argument`; wildcards are refused."""
    return encode_subject(_text(subject, argument), argument)


@lru_cache(maxsize=1024)
def encode_subject(subject: str, argument: str = "subject") -> bytes:
    """`check_subject` for a `subject` that can be hashed, such as any `str`."""
    encoded = _encode(_SUBJECT, subject, argument, _TOKENS)
    if "*" in subject or ">" in subject:
        tokens = subject.split(".")
        if "*" in tokens or ">" in tokens:
            raise UsageError(f"{argument} {subject!r} has a wildcard, which is valid only in a subscription")
    return encoded


def check_filter(subject: str, argument: str = "subject") -> bytes:
    """Encode a subject to subscribe to: `*` stands for one token, a final `>` for one or more."""
    return _encode_filter(_text(subject, argument), argument)


@lru_cache(maxsize=1024)
def _encode_filter(subject: str, argument: str) -> bytes:
    encoded = _encode(_SUBJECT, subject, argument, _TOKENS)
    if ">" in subject.split(".")[:-1]:
        raise UsageError(f"{argument} {subject!r} has '>' before its end; it can only be the last token")
    return encoded


def check_queue(queue: str, argument: str = "queue") -> bytes:
    """Encode the name of a queue group."""
    return _encode(_QUEUE, _text(queue, argument), argument, "text without spaces or control characters")


def check_name(name: str, argument: str) -> str:
    """Return the name of a stream or consumer: a single token of a subject, and safe as a file name."""
    return _check_name(_text(name, argument), argument)


@lru_cache(maxsize=256)
def _check_name(name: str, argument: str) -> str:
    # Strictly UTF-8, because requests have the name in JSON too.
    _encode(_NAME, name, argument, r"one word without spaces, control characters and . * > / \ ", "strict")
    if len(name) > 255:
        raise UsageError(f"{argument} is longer than 255 characters: {name[:32]!r}...")
    return name


def check_text(text: str, argument: str) -> str:
    """Return text that is valid in UTF-8. Raises `UsageError`, which does not show it: it may be a secret."""
    if _SURROGATE.search(_text(text, argument)) is not None:
        raise UsageError(f"{argument} contains a lone surrogate, which cannot be encoded")
    return text


def text_list(texts: str | Iterable[str | _T], argument: str) -> list[str | _T]:
    """One text, or several, as a list. Raises `UsageError` unless it can be iterated."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise UsageError(f"{argument} must be a str or a list of them, not {type(texts).__name__}")
    return list(texts)


def _text(text: str, argument: str) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{argument} must be a str, not {type(text).__name__}")
    return text


def _encode(
    pattern: re.Pattern[str], text: str, argument: str, accepted: str, errors: str = "surrogateescape"
) -> bytes:
    if pattern.fullmatch(_text(text, argument)) is None:
        raise UsageError(f"{argument} {text!r} is not valid; accepted: {accepted.strip()}")
    try:
        # A received subject may hold bytes that are not UTF-8; they are sent as they were received.
        encoded = text.encode("utf-8", errors)
    except UnicodeEncodeError:
        raise UsageError(f"{argument} {text!r} cannot be encoded") from None
    if len(encoded) > MAX_SUBJECT:
        raise UsageError(f"{argument} has {len(encoded)} bytes, the limit is {MAX_SUBJECT}: {text[:32]!r}...")
    return encoded


def has_wildcard(subject: str) -> bool:
    """Whether a subject stands for others. The server stores messages of such subjects, too."""
    return not {"*", ">"}.isdisjoint(subject.split("."))


def subject_matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to `pattern` receives messages of the literal `subject`."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
    elif len(tokens) != len(wanted):
        return False
    return all(w in ("*", t) for w, t in zip(wanted, tokens, strict=False))


def subjects_overlap(one: str, other: str) -> bool:
    """Whether some subject matches both patterns."""
    a, b = one.split("."), other.split(".")
    for x, y in zip(a, b, strict=False):
        if x == ">" or y == ">":
            return True
        if x != y and "*" not in (x, y):
            return False
    return len(a) == len(b)
