"""Parsers of the text of one option, each for one kind of value. Pure.

A parser raises a `ValueError` that says what the option accepts, as in "a whole number of at least 1", or a
`UsageError` with its own message.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Final, TypeAlias

from jetspark.core.headers import header_block
from jetspark.core.servers import parse_servers
from jetspark.errors import UsageError
from jetspark.jetstream.kv.names import check_bucket, check_key_filter
from jetspark.jetstream.publish.headers import check_msg_id
from jetspark.wire.subjects import check_filter, check_name, check_subject, subjects_overlap

__all__ = [
    "PositionOption",
    "TimeOption",
    "one_of",
    "parse_bucket",
    "parse_consumer",
    "parse_count",
    "parse_domain",
    "parse_duration",
    "parse_flag",
    "parse_header_columns",
    "parse_host",
    "parse_id_prefix",
    "parse_keys",
    "parse_position",
    "parse_seconds",
    "parse_stream_and_consumer",
    "parse_streams",
    "parse_subject",
    "parse_subjects",
    "parse_text",
    "parse_times",
    "parse_urls",
    "stream_matches",
]

#: `earliest`, `latest`, or sequences by stream.
PositionOption: TypeAlias = str | tuple[tuple[str, int], ...]
#: One time, or times by stream.
TimeOption: TypeAlias = datetime | tuple[tuple[str, datetime], ...]

_FIXED_COLUMNS: Final = ("subject", "data", "headers", "stream", "sequence", "timestamp")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_text(text: str) -> str:
    if not text.strip():
        raise ValueError("non-empty text")
    return text.strip()


def parse_host(text: str) -> str:
    host = text.strip()
    try:
        valid = bool(host.encode("idna")) and not any(ord(character) <= 32 for character in host)
    except UnicodeError:
        valid = False
    if not valid:
        raise ValueError("a host name")
    return host


def _parse_list(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts) or len(set(parts)) != len(parts):
        raise ValueError("one name, or several separated by commas, each once")
    return parts


def parse_streams(text: str) -> tuple[str, ...]:
    names = _parse_list(text)
    for name in names:
        check_name(name.replace("*", "x"), "stream")
    return names


def parse_subjects(text: str) -> tuple[str, ...]:
    subjects = _parse_list(text)
    for index, subject in enumerate(subjects):
        check_filter(subject)
        for other in subjects[:index]:
            if subjects_overlap(subject, other):
                raise ValueError(f"filters that do not overlap; {other!r} and {subject!r} do")
    return subjects


def parse_bucket(text: str) -> str:
    return check_bucket(text.strip())


def parse_keys(text: str) -> tuple[str, ...]:
    keys = _parse_list(text)
    for each in keys:
        check_key_filter(each, "keys")
    parse_subjects(text)
    return keys


def parse_urls(text: str) -> tuple[str, ...]:
    urls = _parse_list(text)
    for server in parse_servers(urls):
        if server.user is not None or server.password is not None:
            raise UsageError(
                "servers must not contain a user, password or token: Spark shows it in plans and event logs",
                hint="Use the options credentialsFile, user and passwordFile, or tokenFile",
            )
    return urls


def parse_count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("a whole number of at least 1")
    return number


def parse_flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def parse_header_columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in _parse_list(text):
        column, _, header = (each.strip() for each in part.partition("="))
        pairs.append((column, header or column))
        header_block({header or column: ""})
        if not column or column.lower() in _FIXED_COLUMNS:
            raise ValueError(f"names for other columns than {', '.join(_FIXED_COLUMNS)}: host=Log-Host")
    if len({column.lower() for column, _ in pairs}) != len(pairs):
        raise ValueError("columns that are each named once")
    return tuple(pairs)


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("an ISO 8601 time, such as 2026-01-31T12:00:00Z") from None
    # The default time zone is UTC, not the local one: driver and executors may differ.
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def parse_times(text: str) -> TimeOption:
    if not text.lstrip().startswith("{"):
        return _parse_time(text)
    try:
        times = json.loads(text)
    except (ValueError, RecursionError):
        times = None
    if not isinstance(times, dict) or not times or not all(isinstance(time, str) for time in times.values()):
        raise ValueError('an ISO 8601 time, or times by stream: {"ORDERS": "2026-01-31T12:00:00Z"}')
    return tuple(sorted((check_name(stream, "stream"), _parse_time(time)) for stream, time in times.items()))


def parse_position(text: str) -> PositionOption:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    try:
        sequences = json.loads(text)
    except (ValueError, RecursionError):
        sequences = None
    if not isinstance(sequences, dict) or not sequences:
        raise ValueError('earliest, latest, or sequences by stream: {"ORDERS": 1234}')
    for stream, sequence in sequences.items():
        check_name(stream, "stream")
        if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 1:
            raise ValueError(f"a sequence of at least 1 for {stream!r}")
    return tuple(sorted(sequences.items()))


def parse_consumer(text: str) -> str:
    return check_name(text.strip(), "consumer")


def parse_domain(text: str) -> str:
    return check_name(text.strip(), "domain")


def parse_stream_and_consumer(text: str) -> tuple[str, str]:
    stream, slash, consumer = text.strip().partition("/")
    if not slash:
        raise ValueError("STREAM/CONSUMER")
    return check_name(stream, "stream"), check_name(consumer, "consumer")


def parse_subject(text: str) -> str:
    check_subject(text.strip())
    return text.strip()


def one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(" or ".join(words))
        return text.strip().lower()

    return parse


def parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError("seconds, 0 or more")
    return seconds


def parse_duration(text: str) -> float:
    """Seconds, or a number with a unit, as Spark writes it: 90, 30s, 5m, 1h, 500ms."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("a duration, such as 30s, 5m or 1h")
    return seconds


def parse_id_prefix(text: str) -> str:
    return check_msg_id("a prefix", text.strip())


def stream_matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a stream has one of these names, or matches one of these patterns with `*`."""
    return any(fnmatchcase(name, _only_stars(pattern)) for pattern in patterns)


@cache
def _only_stars(pattern: str) -> str:
    """A pattern of fnmatch, which knows `?` and `[` too, in which only `*` is special."""
    return re.sub(r"([?\[])", r"[\1]", pattern)
