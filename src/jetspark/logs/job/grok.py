"""Patterns by name, as Logstash's grok writes them: `%{IPORHOST:client}`. Pure.

The library has the common names. Its patterns are valid in Python and Java, and possessive or bounded where
that does not change what they match in the middle of a line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["LIBRARY", "Expanded", "expand"]

#: Limits on what a pattern expands to: a few lines can name each other many times.
_MAX_CHARACTERS: Final = 32 * 1024
_MAX_DEPTH: Final = 16

_REFERENCE: Final = re.compile(r"%\{([^{}:]*)(?::([^{}:]*))?(?::([^{}:]*))?\}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HEX: Final = r"[0-9A-Fa-f]"

#: By name, each in terms of others.
LIBRARY: Final[Mapping[str, str]] = {
    # texts
    "WORD": r"\b\w++\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": r".*?",
    "GREEDYDATA": r".*",
    "QUOTEDSTRING": r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|\'[^\'\\]*+(?:\\.[^\'\\]*+)*+\')',
    "QS": "%{QUOTEDSTRING}",
    "UUID": rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}",
    "LOGLEVEL": r"(?i:trace|debug|info(?:rmation)?|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|"
    r"alert|fatal|severe|emerg(?:ency)?|panic)",
    "USERNAME": r"[A-Za-z0-9._-]+",
    "USER": "%{USERNAME}",
    "EMAILADDRESS": r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]++@%{HOSTNAME}",
    "PROG": r"[^\s:\[\]]+",
    "JAVACLASS": r"(?:[A-Za-z$_][A-Za-z0-9$_]*\.)*[A-Za-z$_][A-Za-z0-9$_]*",
    # numbers
    "INT": r"[+-]?[0-9]+",
    "POSINT": r"\b[1-9][0-9]*\b",
    "NONNEGINT": r"\b[0-9]+\b",
    "NUMBER": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "BASE16NUM": rf"[+-]?(?:0[xX])?{_HEX}+",
    # network
    "IPV4": rf"(?<![0-9])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9])",
    "IPV6": rf"(?<![:.\w])(?=[0-9A-Fa-f.]*:)(?:{_HEX}{{0,4}}:){{1,7}}(?:{_HEX}{{1,4}}|:|%{{IPV4}})?"
    r"(?:%[A-Za-z0-9]+)?(?![:.\w])",
    "IP": "(?:%{IPV6}|%{IPV4})",
    "HOSTNAME": r"\b[0-9A-Za-z_](?:[0-9A-Za-z_-]{0,62})(?:\.[0-9A-Za-z_](?:[0-9A-Za-z_-]{0,62}))*\.?",
    "IPORHOST": "(?:%{IP}|%{HOSTNAME})",
    "HOSTPORT": "%{IPORHOST}:%{POSINT}",
    "MAC": rf"(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}",
    # paths
    "UNIXPATH": r"(?:/[^\s/]*+)+",
    "PATH": r"(?:%{UNIXPATH}|[A-Za-z]:(?:\\[^\\\s]*+)+)",
    "URIPROTO": r"[A-Za-z][A-Za-z0-9+.-]*",
    "URIPATH": r"/[^\s?#]*",
    "URIPARAM": r"\?[^\s#]*",
    "URIPATHPARAM": "%{URIPATH}(?:%{URIPARAM})?",
    "URI": r"%{URIPROTO}://(?:[^\s/@]++@)?%{IPORHOST}(?::[0-9]+)?(?:%{URIPATHPARAM})?",
    # times
    "MONTH": r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b",
    "MONTHNUM": r"(?:0?[1-9]|1[0-2])",
    "MONTHDAY": r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])",
    "DAY": r"\b(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|"
    r"Sun(?:day)?)\b",
    "YEAR": r"[0-9]{4}",
    "HOUR": r"(?:2[0-3]|[01]?[0-9])",
    "MINUTE": r"[0-5][0-9]",
    "SECOND": r"(?:[0-5]?[0-9]|60)(?:[.,][0-9]{1,9})?",
    "TIME": "%{HOUR}:%{MINUTE}:%{SECOND}",
    "ISO8601_TIMEZONE": r"(?:Z|[+-](?:2[0-3]|[01][0-9]):?[0-5][0-9])",
    "TIMESTAMP_ISO8601": "%{YEAR}-[01][0-9]-[0-3][0-9][T ]%{HOUR}:%{MINUTE}(?::%{SECOND})?"
    "(?:%{ISO8601_TIMEZONE})?",
    "HTTPDATE": r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} [+-][0-9]{4}",
    "SYSLOGTIMESTAMP": r"%{MONTH} +%{MONTHDAY} %{TIME}",
}


class Expanded(NamedTuple):
    """A pattern with named groups in place of names, and the types that it gives to fields."""

    text: str
    types: dict[str, str]


def expand(text: str, own: Mapping[str, str]) -> Expanded:
    """Replace each `%{NAME}`, `%{NAME:field}` and `%{NAME:field:type}`.

    `own` are patterns of the user, which replace those of the library. Raises ValueError for a name that does
    not exist, a field that is named twice, and a pattern that becomes too long.
    """
    known = {**LIBRARY, **own}
    fields: dict[str, str | None] = {}
    size = 0

    def replaced(text: str, outer: tuple[str, ...]) -> str:
        nonlocal size
        if len(outer) > _MAX_DEPTH:
            raise ValueError(f"names are nested more than {_MAX_DEPTH} deep: {' > '.join(outer[:3])} ...")
        size += len(text)
        if size > _MAX_CHARACTERS:
            raise ValueError(f"expands to more than {_MAX_CHARACTERS:,} characters")

        def one(found: re.Match[str]) -> str:
            name, field, kind = found.groups()
            if name not in known:
                near = difflib.get_close_matches(name.upper(), known, n=1)
                raise ValueError(f"unknown name %{{{name}}}" + (f", did you mean {near[0]}?" if near else ""))
            if name in outer:
                raise ValueError(f"%{{{name}}} is defined by itself")
            inner = replaced(known[name], (*outer, name))
            if field is None:
                return f"(?:{inner})"
            if _NAME.fullmatch(field) is None:
                raise ValueError(f"field {field!r} must be letters, digits and _, and begin with a letter")
            if field in fields:
                raise ValueError(f"field {field} is named twice")
            fields[field] = kind
            return f"(?<{field}>{inner})"

        return _REFERENCE.sub(one, text)

    made = replaced(text, ())
    if (at := made.find("%{")) >= 0:
        raise ValueError(f"not a name: {made[at : at + 20]}")
    return Expanded(made, {field: kind for field, kind in fields.items() if kind is not None})
