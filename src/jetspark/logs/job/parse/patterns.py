"""The patterns that lines are read with, for Java's regular expressions. Pure.

Lines are hostile: what repeats is possessive (`*+`), because Java's matcher recurses into everything that it
may have to take back, and a long line would exhaust its stack.
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
    """A pattern without names, and the names of its groups by number."""

    text: str
    groups: dict[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(self.groups)


_QUOTED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'

# Spark raises for years of more digits.
_TIME: Final = r"\[(\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"

#: Apache's and nginx's `combined`; the last two are missing in `common`.
COMBINED: Final = Pattern(
    rf"(?s)^(\S++) \S++ (\S++) {_TIME} {_QUOTED} (\d{{3}}) (\d++|-)(?: {_QUOTED} {_QUOTED})?+\s*+\z",
    {
        name: number
        for number, name in enumerate(
            ("remote_addr", "user", "time", "request", "status", "bytes", "referer", "user_agent"), 1
        )
    },
)
#: The request of such a line.
REQUEST: Final = Pattern(
    r"^([A-Z]++) (\S++)(?: (HTTP/\d[.\d]*+))?+$", {"method": 1, "path": 2, "protocol": 3}
)
#: RFC 5424. Brackets in quoted values ought to be escaped; those that are not do no harm.
RFC5424: Final = Pattern(
    r"(?s)^<(\d{1,3})>1 (\S++) (\S++) (\S++) (\S++) (\S++) "
    r"(-|(?:\[[^\s\]\"=]++(?: [^\s\]\"=]++=\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+\])++)"
    r"(?: (?:\uFEFF)?+(.*+))?+\z",
    {
        name: number
        for number, name in enumerate(
            (
                *("priority", "time", "hostname", "app", "process"),
                *("message_id", "structured_data", "message"),
            ),
            1,
        )
    },
)
#: RFC 3164, the old way. It tells neither year nor zone.
RFC3164: Final = Pattern(
    r"(?s)^<(\d{1,3})>([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (\S++) ([^\s:\[]++)(?:\[([^\]]*+)\])?+:? ?+"
    r"(.*+)\z",
    {
        name: number
        for number, name in enumerate(("priority", "time", "hostname", "app", "process", "message"), 1)
    },
)

_VALUE: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*+'
#: `key=value`, `key="a value"` or `key`: the key, and the value with its quotes.
LOGFMT_PAIR: Final = rf'(?s)([^\s"=]++)(?:=({_VALUE}))?+(?=\s|$)'
#: A line of nothing else.
LOGFMT: Final = rf'(?s)^\s*+(?:[^\s"=]++(?:=(?:{_VALUE}))?+(?:\s++|$))++$'


def read_pattern(text: str) -> Pattern:
    """A pattern of the user's, with named groups `(?<name>...)` or `(?P<name>...)`.

    Java takes fewer names than Python, so that they become numbers. Raises ValueError for what Python does
    not understand, or that has no named group.
    """
    python = re.sub(r"\(\?<(?![=!])", "(?P<", text)
    try:
        compiled = re.compile(python)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    groups = dict(compiled.groupindex)
    if not groups:
        raise ValueError("needs named groups, such as (?<status>[0-9]+)")
    java = re.sub(r"\(\?P=(\w+)\)", lambda found: rf"\{groups[found[1]]}", python)
    java = re.sub(r"\(\?P<\w+>", "(", java)
    return Pattern(f"^(?:{java})$", groups)


def far_year(time_format: str) -> str:
    """The pattern of texts whose year Spark may not be able to count, which makes it raise.

    A year `yyyy` has more than four digits behind a sign. Behind as many digits as stand before the year, or
    none, it is a sign; behind others it is a hyphen. Raises ValueError for a year of any number of digits.
    """
    plain = re.sub(r"'[^']*'", "'", time_format)
    digits = 0
    for year in re.finditer(r"([A-Za-tv-xz]*)((y+)|(u+))", plain.replace("[", "").replace("]", "")):
        if len(year[2]) not in (2, 4):
            raise ValueError(f"must have the year as yyyy or yy, not {year[2]}")
        before = re.finditer(r"(.)\1*", year[1])
        digits = max(digits, sum(max(len(field[0]), 2) for field in before))
    return rf"(?<!\d)\d{{0,{digits}}}[+-]\d{{5}}"
