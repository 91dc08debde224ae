"""Durations, sizes, counts and times: parsing and formatting. Pure, except that times can be relative to now.

`30s`, `1h30m`, `7d` are seconds. `10MB`, `64k` are bytes; units are powers of 1024, as everywhere in NATS.
Times are ISO 8601 (local time without a zone), or a duration before now.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = [
    "at_least_1",
    "count",
    "duration",
    "limit",
    "moment",
    "show_bytes",
    "show_count",
    "show_duration",
    "show_rate",
    "show_time",
    "size",
]

_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31536000.0,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|[smhdwy])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
#: The server counts in signed 64-bit integers; durations in nanoseconds.
_LARGEST: Final = 2**63 - 1
_STEPS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def duration(text: str) -> float:
    """Seconds: `30s`, `10m`, `1h30m`, `250ms`, `7d`, `1y`, or `0`. Raises ValueError."""
    stripped = text.strip().lower()
    if stripped == "0":
        return 0.0
    if _WHOLE.fullmatch(stripped) is None:
        raise ValueError(f"{text!r} is not a duration; write it like 30s, 10m, 1h30m or 7d")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(stripped))
    if seconds * 1e9 > _LARGEST:
        raise ValueError(f"{_cut(text)} is too long; the longest duration is 292y")
    return seconds


def size(text: str) -> int:
    """Bytes: `512`, `64k`, `10MB`, `1.5GiB`. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write it like 512, 64KB, 10MB or 1GB")
    number = float(found[1]) * (1 << 10 * _STEPS[found[2].lower()])
    if number > _LARGEST:
        raise ValueError(f"{_cut(text)} is too large; the largest size is 8388607T")
    return round(number)


def limit(text: str) -> int:
    """As `size`, with -1 for no limit."""
    return -1 if text.strip() in ("-1", "unlimited") else size(text)


def count(text: str) -> int:
    """A whole number, also as `1_000_000` or `1,000,000`; -1 for no limit. Raises ValueError."""
    digits = text.strip().replace("_", "").replace(",", "")
    if re.fullmatch(r"-?\d+", digits) is None:
        raise ValueError(f"{text!r} is not a whole number")
    if len(digits.lstrip("-0")) > 19 or int(digits) > _LARGEST:
        raise ValueError(f"{_cut(text)} is too large; the largest number is {_LARGEST}")
    return int(digits)


def at_least_1(text: str) -> int:
    """As `count`, without 0 and -1."""
    number = count(text)
    if number < 1:
        raise ValueError(f"{text!r} is less than 1")
    return number


def moment(text: str) -> datetime:
    """A time: ISO 8601, or a duration before now, like `1h`. Raises ValueError."""
    try:
        return datetime.now(UTC) - timedelta(seconds=duration(text))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):  # The year 1 has no time in some zones.
        raise ValueError(
            f"{text!r} is not a time; write 2026-01-31T12:00:00Z, or 1h for an hour ago"
        ) from None


def _cut(text: str) -> str:
    return repr(text if len(text) <= 32 else f"{text[:32]}...")


def show_duration(seconds: float) -> str:
    """Like `1h30m`, in the two largest units."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        for unit in ("ms", "us"):
            if seconds >= _SECONDS[unit]:
                return f"{seconds / _SECONDS[unit]:.3g}{unit}"
        return f"{seconds / 1e-9:.0f}ns"
    if seconds < 60:
        return f"{seconds:.3g}s"
    parts: list[str] = []
    left = round(seconds)
    for unit in ("y", "d", "h", "m", "s"):
        number, left = divmod(left, int(_SECONDS[unit]))
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2])


def show_bytes(number: int) -> str:
    """Like `1.5 MiB`."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def show_count(number: int, noun: str = "") -> str:
    """Like `1,234,567`, or with a noun `1 message`, `2 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if noun else f"{number:,}"


def show_rate(number: int, seconds: float) -> str:
    """A number per second."""
    return f"{number / max(seconds, 1e-9):,.0f}"


def show_time(time: datetime | None) -> str:
    """The local time, to the second."""
    return "never" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
