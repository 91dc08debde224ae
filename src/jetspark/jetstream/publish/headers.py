"""The headers that the server knows: which they are, and the options of a publish as such headers. No I/O.

This file turns options into a mapping of headers; `core/headers.py` encodes it.
"""

from __future__ import annotations

import math
import secrets
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypedDict

from jetspark.core.headers import header_block
from jetspark.errors import UsageError
from jetspark.wire.headers import Headers, HeadersLike
from jetspark.wire.subjects import check_filter, check_name, check_subject

__all__ = [
    "MSG_ID",
    "Expectations",
    "check_msg_id",
    "compose_headers",
    "headers_to_copy",
    "is_control_header",
    "is_publish_header",
    "stored_before_headers",
]

MSG_ID: Final = "Nats-Msg-Id"
_BREAKS: Final = frozenset("\r\n\0")
_LAST_MSG_ID: Final = "Nats-Expected-Last-Msg-Id"
_SCHEDULE: Final = "Nats-Schedule"
_SCHEDULE_TARGET: Final = "Nats-Schedule-Target"
_SUBJECT_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
_SUBJECT_SEQUENCE_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"


#: Headers that concern one publish to one stream: its id, its conditions, its place in a batch.
_OF_ONE_PUBLISH: Final = ("nats-msg-id", "nats-expected-", "nats-batch-")
#: Headers that command the server, and headers that it adds to messages itself. Those of nats-server 2.15.
_CONTROL: Final = frozenset(
    {
        MSG_ID,
        "Nats-Rollup",
        "Nats-TTL",
        "Nats-Incr",
        "Nats-Schedule",
        "Nats-Scheduler",
        "Nats-Required-Api-Level",
        # Added to stored messages: delete markers, counters, messages of sources.
        "Nats-Marker-Reason",
        "Nats-Counter-Sources",
        "Nats-Stream-Source",
        # Added to republished messages, answers and deliveries, which another stream may have stored.
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Num-Pending",
        "Nats-UpTo-Sequence",
        "Nats-Msg-Size",
        "Nats-Pin-Id",
        "Nats-Consumer-Stalled",
        "Nats-Request-Info",
        "Nats-Response-Type",
    }
)
_CONTROL_PREFIXES: Final = (
    *("Nats-Expected-", "Nats-Batch-", "Nats-Schedule-", "Nats-Trace-"),
    *("Nats-Last-", "Nats-Pending-"),
)


class Expectations(TypedDict, total=False):
    """The conditions of a message. When one does not hold, the stream does not store the message."""

    #: Name of the stream that must store it.
    expected_stream: str | None
    #: Sequence that the last message of the stream must have; 0 for an empty stream.
    expected_last_sequence: int | None
    #: Sequence that the last message of the same subject must have; 0 for none.
    expected_last_subject_sequence: int | None
    #: Subject, or pattern, that `expected_last_subject_sequence` is about instead. Server 2.11.
    expected_last_subject_sequence_subject: str | None
    #: `Nats-Msg-Id` that the last message of the stream must have.
    expected_last_msg_id: str | None
    #: Seconds until the message expires, rounded up to whole ones, or "never" to outlive the stream's
    #: `max_age`. The stream must have `allow_msg_ttl`. Server 2.11.
    ttl: float | Literal["never"] | None
    #: Replace all earlier messages: "sub" those of the subject, "all" those of the stream. The stream must
    #: have `allow_rollup_hdrs`.
    rollup: Literal["sub", "all"] | None
    #: When the stream publishes the message to `schedule_target`: once, at a time with a zone, or again and
    #: again: "@every 5m", "@hourly", or six fields of cron, seconds first. The message itself is the
    #: schedule, and the last one of its subject counts. The stream must have `allow_msg_schedules`. Server
    #: 2.12 for a time, 2.14 for the rest.
    schedule: datetime | str | None
    #: Subject, of the same stream, of the scheduled messages.
    schedule_target: str | None
    #: The `ttl` of the scheduled messages.
    schedule_ttl: float | Literal["never"] | None
    #: Subject whose last message is published in place of this one. Server 2.14.
    schedule_source: str | None
    #: Time zone of the fields of cron, such as "Europe/Berlin". Server 2.14.
    schedule_time_zone: str | None
    #: "sub": a scheduled message replaces all earlier ones of its subject. Server 2.14.
    schedule_rollup: Literal["sub"] | None


def compose_headers(
    headers: HeadersLike | None, msg_id: str | None, expectations: Expectations
) -> dict[str, list[str]]:
    """The headers of a message: those of the user, and those of the options.

    Raises `UsageError` for a value that the server would not understand, and for an option whose header the
    user gives too.
    """
    fields: dict[str, list[str]] = {}
    if headers:
        given = headers if isinstance(headers, Headers) else Headers(headers)
        for name, values in given.multi_items():
            known = _NAMES.get(name.lower(), name)
            if name != known:
                raise UsageError(f"headers: the server does not recognize {name!r}", hint=f"Write {known!r}")
            fields[name] = values
    options: dict[str, object] = {"msg_id": msg_id, **expectations}
    for option, value in options.items():
        if option not in _OPTIONS:
            raise UsageError(
                f"{option!r} is not an option of publish", hint=f"The options are {', '.join(_OPTIONS)}"
            )
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
    if _SCHEDULE in fields:
        if _SCHEDULE_TARGET not in fields:
            raise UsageError("schedule needs schedule_target, the subject of the scheduled messages")
    elif given_parts := [option for option in _OF_SCHEDULES if options.get(option) is not None]:
        raise UsageError(f"{given_parts[0]} needs schedule")
    return fields


@lru_cache(maxsize=1024)
def is_control_header(name: str) -> bool:
    """Whether a header commands the server, or is one that it adds: not to be copied with a message.

    The server compares names exactly, so `nats-ttl` is a header like any other.
    """
    return name in _CONTROL or name.startswith(_CONTROL_PREFIXES)


@lru_cache(maxsize=1024)
def is_publish_header(name: str) -> bool:
    """Whether a header is, in any case, an id, an expectation or of a batch: each publish has its own."""
    return name.lower().startswith(_OF_ONE_PUBLISH)


def headers_to_copy(headers: Headers) -> dict[str, list[str]]:
    """The headers to publish a stored message again: its own, except those that command the server.

    Those that a publish refuses are left out as well: malformed ones, and misspelled commands.
    """
    return {
        name: values
        for name, values in headers.multi_items()
        if not is_control_header(name) and name.lower() not in _NAMES and _can_be_sent(name, values)
    }


def _can_be_sent(name: str, values: list[str]) -> bool:
    try:
        header_block({name: values})
    except UsageError:
        return False
    return True


def stored_before_headers(msg_id: str) -> dict[str, list[str]]:
    """The headers of a message that asks whether an id is stored; it is never stored itself.

    The server checks expected sequences before ids, so it refuses a repeated message for a sequence that the
    message itself used up. It checks ids before the expected last id: here that matches no message, so the
    answer is "duplicate" or a refusal.
    """
    return {MSG_ID: [msg_id], _LAST_MSG_ID: [f"never-{secrets.token_urlsafe(16)}"]}


def check_msg_id(option: str, value: object) -> str:
    """Return a valid message id. Raises `UsageError`.

    The server drops leading spaces, and ignores an empty id.
    """
    if (
        not isinstance(value, str)
        or not value
        or value != value.strip()
        or (not value.isprintable() and _BREAKS.intersection(value))
    ):
        raise UsageError(
            f"{option} must be text without spaces around it or line breaks in it, and not empty: {value!r}"
        )
    return value


def _check_stream(option: str, value: Any) -> str:
    return check_name(value, option)


def _check_sequence(option: str, value: object) -> str:
    if type(value) is not int or not 0 <= value < 2**64:
        raise UsageError(f"{option} must be an integer of 0 or more, not {value!r}")
    return str(value)


def _check_filter(option: str, value: Any) -> str:
    return check_filter(value, option).decode("utf-8", "surrogateescape")


def _check_ttl(option: str, value: object) -> str:
    if value == "never":
        return "never"
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value < math.inf:
        raise UsageError(f"{option} must be 1 second or more, or 'never', not {value!r}")
    return str(math.ceil(value))


def _check_rollup(option: str, value: object) -> str:
    if value not in ("sub", "all"):
        raise UsageError(f"{option} must be 'sub' or 'all', not {value!r}")
    return str(value)


def _check_schedule_rollup(option: str, value: object) -> str:
    if value != "sub":
        raise UsageError(f"{option} must be 'sub', not {value!r}")
    return "sub"


def _check_schedule(option: str, value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UsageError(f"{option}: {value.isoformat()} has no time zone", hint="Use datetime.now(UTC)")
        return f"@at {value.astimezone(UTC).isoformat().removesuffix('+00:00')}Z"
    return _check_line(option, value)


def _check_line(option: str, value: object) -> str:
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise UsageError(f"{option} must be one line of text, not {value!r}")
    return value


def _check_subject(option: str, value: Any) -> str:
    return check_subject(value, option).decode("utf-8", "surrogateescape")


#: The header of each option, and the function that checks and encodes its value.
_OPTIONS: Final = {
    "msg_id": (MSG_ID, check_msg_id),
    "expected_stream": ("Nats-Expected-Stream", _check_stream),
    "expected_last_sequence": ("Nats-Expected-Last-Sequence", _check_sequence),
    "expected_last_subject_sequence": (_SUBJECT_SEQUENCE, _check_sequence),
    "expected_last_subject_sequence_subject": (_SUBJECT_SEQUENCE_SUBJECT, _check_filter),
    "expected_last_msg_id": (_LAST_MSG_ID, check_msg_id),
    "ttl": ("Nats-TTL", _check_ttl),
    "rollup": ("Nats-Rollup", _check_rollup),
    "schedule": (_SCHEDULE, _check_schedule),
    "schedule_target": (_SCHEDULE_TARGET, _check_subject),
    "schedule_ttl": ("Nats-Schedule-TTL", _check_ttl),
    "schedule_source": ("Nats-Schedule-Source", _check_subject),
    "schedule_time_zone": ("Nats-Schedule-Time-Zone", _check_line),
    "schedule_rollup": ("Nats-Schedule-Rollup", _check_schedule_rollup),
}
_OF_SCHEDULES: Final = tuple(option for option in _OPTIONS if option.startswith("schedule_"))
#: The server compares header names case-sensitively.
_NAMES: Final = {name.lower(): name for name, _ in _OPTIONS.values()}
