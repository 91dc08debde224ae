"""Values as text for people, bounded and safe to show: anything that is stored in NATS may be hostile.

The pages show text, never markup. Here it also loses what misleads a reader (control characters, characters
that reverse the direction of writing) and what is too long.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

__all__ = [
    "Body",
    "clip",
    "line",
    "show_ago",
    "show_body",
    "show_bytes",
    "show_count",
    "show_duration",
    "show_rate",
    "show_time",
]

#: Characters of a name, a header or a preview.
_LINE: Final = 200
#: Characters of a body.
_BODY: Final = 64 * 1024
#: Larger documents are not formatted.
_FORMATTED: Final = 256 * 1024
#: Bytes of a body that are shown in hex.
_HEX: Final = 4 * 1024

_MISLEADING: Final = "\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
_IN_A_LINE: Final = re.compile(f"[\x00-\x1f{_MISLEADING}]")
_IN_A_BODY: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_MISLEADING}]")


class Body(NamedTuple):
    """A payload as text."""

    #: `JSON`, `text`, `binary` or `empty`.
    kind: str
    text: str
    #: What is left out; empty if it is whole.
    note: str


def clip(text: str, limit: int = _LINE) -> str:
    """At most so many characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def line(value: object, limit: int = _LINE) -> str:
    """A value on one line."""
    # A few more than the limit, because escapes are longer than what they stand for.
    return clip(_escape(_IN_A_LINE, str(value)[: limit + 1]), limit)


def _escape(pattern: re.Pattern[str], text: str) -> str:
    # Bytes that are not UTF-8 are surrogates here, which no JSON can hold.
    valid = text.encode("utf-8", "replace").decode() if not text.isascii() else text
    return pattern.sub(lambda found: f"\\u{ord(found[0]):04x}", valid)


def show_body(data: bytes) -> Body:
    """A payload: JSON formatted, other text as it is, anything else in hex."""
    if not data:
        return Body("empty", "", "")
    try:
        text = data[:_BODY].decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        if len(data) <= _BODY or error.start < _BODY - 4:
            return _hex(data)
        text = data[: error.start].decode("utf-8")
    if "\0" in text:
        return _hex(data)
    kind, shown = "text", len(text.encode())
    if data.lstrip()[:1] in (b"{", b"[") and len(data) <= _FORMATTED:
        try:
            formatted = msgspec.json.format(data, indent=2).decode("utf-8")
        except Exception:  # It is not JSON, or nested too deep.
            pass
        else:
            kind, text = "JSON", formatted
            if len(text) > _BODY:
                return Body(kind, _escape(_IN_A_BODY, text[:_BODY]), f"cut, {show_bytes(len(data))} in all")
            shown = len(data)
    note = f"the first {show_bytes(shown)} of {show_bytes(len(data))}" if shown < len(data) else ""
    return Body(kind, _escape(_IN_A_BODY, text), note)


def _hex(data: bytes) -> Body:
    rows = []
    for start in range(0, min(len(data), _HEX), 16):
        part = data[start : start + 16]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        rows.append(f"{start:08x}  {part.hex(' '):<47}  {printable}")
    note = f"the first {show_bytes(_HEX)} of {show_bytes(len(data))}" if len(data) > _HEX else ""
    return Body("binary", "\n".join(rows), note)


def show_bytes(number: int) -> str:
    """Like `1.5 MiB`."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def show_count(number: int) -> str:
    """Like `1,234,567`."""
    return f"{number:,}"


def show_rate(rate: float) -> str:
    """A number per second: `0.25`, `17`, `12,345`."""
    if rate <= 0:
        return "0"
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def show_duration(seconds: float) -> str:
    """Like `1h30m`, in the two largest units."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    left, parts = round(seconds), []
    for unit, size in (("y", 31536000), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2])


def show_time(time: datetime | None) -> str:
    """The time in UTC, to the second."""
    return "" if time is None or time.year <= 1 else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def show_ago(time: datetime | None, now: datetime) -> str:
    """How long ago it was."""
    if time is None or time.year <= 1:
        return "never"
    seconds = (now - time).total_seconds()
    return "now" if seconds < 1 else f"{show_duration(seconds)} ago"
