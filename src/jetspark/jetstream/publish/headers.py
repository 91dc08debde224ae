"""The headers with which a message says who it is and what it expects of the stream. No I/O.

`compose_headers` is where options become headers, for every way to publish.
"""

from __future__ import annotations

import math
import secrets
from typing import Final, Literal, TypedDict

from jetspark.errors import UsageError
from jetspark.wire.headers import Headers, HeadersLike
from jetspark.wire.subjects import check_filter, check_name

__all__ = [
    "MSG_ID",
    "Expectations",
    "check_msg_id",
    "check_seconds",
    "compose_headers",
    "stored_before_headers",
]

MSG_ID: Final = "Nats-Msg-Id"
_BREAKS: Final = frozenset("\r\n\0")
_LAST_MSG_ID: Final = "Nats-Expected-Last-Msg-Id"
_SUBJECT_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
_SUBJECT_SEQUENCE_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"


class Expectations(TypedDict, total=False):
    """What a message may ask of the stream. When it does not hold, nothing is stored."""

    #: Name of the stream that must store it.
    expected_stream: str | None
    #: Sequence that the last message of the stream must have; 0 for an empty stream.
    expected_last_sequence: int | None
    #: Sequence that the last message of the same subject must have; 0 for none.
    expected_last_subject_sequence: int | None
    #: Where `expected_last_subject_sequence` looks instead; may have wildcards. Server 2.11.
    expected_last_subject_sequence_subject: str | None
    #: `Nats-Msg-Id` that the last message of the stream must have.
    expected_last_msg_id: str | None
    #: Seconds that the message lives, rounded up to whole ones, or "never" for longer than the stream's
    #: `max_age`. The stream must have `allow_msg_ttl`. Server 2.11.
    ttl: float | Literal["never"] | None


def compose_headers(
    headers: HeadersLike | None, msg_id: str | None, expectations: Expectations
) -> dict[str, list[str]]:
    """The headers of a message: the user's, and those that options stand for.

    Raises `UsageError` for what the server would not understand, and for an option whose header is among
    the user's.
    """
    fields: dict[str, list[str]] = {}
    if headers:
        for name, values in Headers(headers).multi_items():
            known = _NAMES.get(name.lower(), name)
            if name != known:
                raise UsageError(
                    f"headers: {name!r} means nothing to the server", hint=f"It is written {known!r}"
                )
            fields[name] = values
    options: dict[str, object] = {"msg_id": msg_id, **expectations}
    for option, value in options.items():
        if option not in _OPTIONS:
            raise UsageError(f"{option!r} is no option of a publish", hint=f"There are {', '.join(_OPTIONS)}")
        if value is None:
            continue
        name, check = _OPTIONS[option]
        if name in fields:
            raise UsageError(f"{option} and the header {name!r} exclude each other: give one of them")
        fields[name] = [check(option, value)]
    if MSG_ID in fields and fields[MSG_ID] != [msg_id]:
        if len(fields[MSG_ID]) != 1:
            raise UsageError(f"headers: {MSG_ID!r} must have one value, not {fields[MSG_ID]!r}")
        check_msg_id(MSG_ID, fields[MSG_ID][0])
    if _SUBJECT_SEQUENCE_SUBJECT in fields and _SUBJECT_SEQUENCE not in fields:
        raise UsageError("expected_last_subject_sequence_subject needs expected_last_subject_sequence")
    return fields


def stored_before_headers(msg_id: str) -> dict[str, list[str]]:
    """Headers of a message that is never stored and says, as a duplicate, whether its id was.

    The server looks at expected sequences before it looks at ids, so a message that comes again after it was
    stored is refused for its own sequence. Ids come before the expected last id, which here no message has.
    """
    return {MSG_ID: [msg_id], _LAST_MSG_ID: [f"never-{secrets.token_urlsafe(16)}"]}


def check_seconds(option: str, value: object, *, least: float | None = None) -> None:
    """Raise `UsageError` unless `value` is a time: more than 0 seconds, or at least `least`."""
    if type(value) not in (int, float) or not (value > 0 if least is None else value >= least):  # type: ignore[operator]
        accepted = "more than 0" if least is None else f"{least:g} or more"
        raise UsageError(f"{option} must be {accepted} seconds, not {value!r}")


def check_msg_id(option: str, value: object) -> str:
    """An id as the server compares it: it drops spaces in front, and an empty one is none.

    Raises `UsageError`.
    """
    if not isinstance(value, str) or not value or value != value.strip() or _BREAKS.intersection(value):
        raise UsageError(
            f"{option} must be text, not empty, without spaces around it and line breaks in it, not {value!r}"
        )
    return value


def _check_stream(option: str, value: object) -> str:
    return check_name(value, option)


def _check_sequence(option: str, value: object) -> str:
    if type(value) is not int or not 0 <= value < 2**64:
        raise UsageError(f"{option} must be an integer of 0 or more, not {value!r}")
    return str(value)


def _check_filter(option: str, value: object) -> str:
    return check_filter(value, option).decode("utf-8", "surrogateescape")


def _check_ttl(option: str, value: object) -> str:
    if value == "never":
        return "never"
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value < math.inf:
        raise UsageError(f"{option} must be 1 second or more, or 'never', not {value!r}")
    return str(math.ceil(value))


#: Each option: its header, and what checks and writes its value.
_OPTIONS: Final = {
    "msg_id": (MSG_ID, check_msg_id),
    "expected_stream": ("Nats-Expected-Stream", _check_stream),
    "expected_last_sequence": ("Nats-Expected-Last-Sequence", _check_sequence),
    "expected_last_subject_sequence": (_SUBJECT_SEQUENCE, _check_sequence),
    "expected_last_subject_sequence_subject": (_SUBJECT_SEQUENCE_SUBJECT, _check_filter),
    "expected_last_msg_id": (_LAST_MSG_ID, check_msg_id),
    "ttl": ("Nats-TTL", _check_ttl),
}
#: The server compares names of headers as they are written.
_NAMES: Final = {name.lower(): name for name, _ in _OPTIONS.values()}
