"""The patterns of the formats, as Java regular expressions. Pure.

Lines are untrusted. Repetitions are possessive (`*+`), because Java's matcher recurses for everything that it
may have to backtrack over, and a long line would overflow its stack.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = [
    "COMBINED",
    "LOGFMT",
    "LOGFMT_PAIR",
    "REQUEST",
    "RFC3164",
    "RFC5424",
    "Pattern",
    "far_year",
    "read_pattern",
]


class Pattern(NamedTuple):
    """A pattern without group names, and the number of each named group."""

    text: str
    groups: dict[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.groups)


def _pattern(text: str, *names: str) -> Pattern:
    return Pattern(text, {name: number for number, name in enumerate(names, 1)})


_QUOTED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'

# Four digits: Spark raises for longer years.
_TIME: Final = r"\[(\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"

#: Apache's and nginx's `combined`; the last two are missing in `common`.
COMBINED: Final = _pattern(
    rf"(?s)^(\S++) \S++ (\S++) {_TIME} {_QUOTED} (\d{{3}}) (\d++|-)(?: {_QUOTED} {_QUOTED})?+\s*+\z",
    *("remote_addr", "user", "time", "request", "status", "bytes", "referer", "user_agent"),
)
#: The request of such a line.
REQUEST: Final = _pattern(r"^([A-Z]++) (\S++)(?: (HTTP/\d[.\d]*+))?+$", "method", "path", "protocol")
#: RFC 5424. Unescaped brackets in quoted values are accepted.
RFC5424: Final = _pattern(
    r"(?s)^<(\d{1,3})>1 (\S++) (\S++) (\S++) (\S++) (\S++) "
    r"(-|(?:\[[^\s\]\"=]++(?: [^\s\]\"=]++=\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+\])++)"
    r"(?: (?:\uFEFF)?+(.*+))?+\z",
    *("priority", "time", "hostname", "app", "process", "message_id", "structured_data", "message"),
)
#: RFC 3164, the old format, without year and time zone.
RFC3164: Final = _pattern(
    r"(?s)^<(\d{1,3})>([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (\S++) ([^\s:\[]++)(?:\[([^\]]*+)\])?+:? ?+"
    r"(.*+)\z",
    *("priority", "time", "hostname", "app", "process", "message"),
)

_VALUE: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*+'
#: `key=value`, `key="a value"` or `key`: the key, and the value with its quotes.
LOGFMT_PAIR: Final = rf'(?s)([^\s"=]++)(?:=({_VALUE}))?+(?=\s|$)'
#: A line that consists of such pairs.
LOGFMT: Final = rf'(?s)^\s*+(?:[^\s"=]++(?:=(?:{_VALUE}))?+(?:\s++|$))++$'


def read_pattern(text: str) -> Pattern:
    """Parse a pattern of the user, with named groups `(?<name>...)` or `(?P<name>...)`.

    Java allows fewer names than Python, so names become numbers. Raises ValueError if Python cannot compile
    it, or if it has no named group.
    """
    python = re.sub(r"\(\?<(?![=!])", "(?P<", text)
    try:
        compiled = re.compile(python)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"invalid regular expression: {error}") from None
    groups = dict(compiled.groupindex)
    if not groups:
        raise ValueError("needs named groups, such as (?<status>[0-9]+)")
    java = re.sub(r"\(\?P=(\w+)\)", lambda found: rf"\{groups[found[1]]}", python)
    java = re.sub(r"\(\?P<\w+>", "(", java)
    return Pattern(f"^(?:{java})$", groups)


def far_year(time_format: str) -> str:
    """A pattern for texts whose year may be out of Spark's range, for which it raises.

    `yyyy` accepts more than four digits after a sign. A `+` or `-` is a sign at the start, or after as many
    digits as the format has before the year; elsewhere it is a separator. Raises ValueError for a year
    without fixed width.
    """
    plain = re.sub(r"'[^']*'", "'", time_format)
    digits = 0
    for year in re.finditer(r"([A-Za-tv-xz]*)((y+)|(u+))", plain.replace("[", "").replace("]", "")):
        if len(year[2]) not in (2, 4):
            raise ValueError(f"must have the year as yyyy or yy, not {year[2]}")
        before = re.finditer(r"(.)\1*", year[1])
        digits = max(digits, sum(max(len(field[0]), 2) for field in before))
    return rf"(?<!\d)\d{{0,{digits}}}[+-]\d{{5}}"
