"""Message headers: the block on the wire, its status line, and the mapping that users see.

A block is `NATS/1.0[ <status>[ <description>]]`, then `Name: value` lines, then an empty line. It is parsed
on access. Names compare case-insensitively and keep their case; a name may have several values. A value is
everything after the colon and one space, so that a value is read as it was set.

The server passes on and stores any bytes as a block. Of a malformed one, the valid lines are read,
and the empty name, which no header has, has the whole block as its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from jetspark.errors import RemoteProtocolError, UsageError

__all__ = [
    "NO_HEADERS",
    "NO_RESPONDERS",
    "Headers",
    "HeadersLike",
    "encode_headers",
    "has_status",
    "parse_status",
]

_VERSION = b"NATS/1.0"
# Printable ASCII without the colon and the space: every NATS client can read these.
_NAME = re.compile(r"[!-9;-~]+")
_BAD_IN_VALUE = re.compile(r"[\r\n\x00]")

HeadersLike: TypeAlias = "Headers | Mapping[str, str | Iterable[str]]"


class Headers(Mapping[str, str]):
    """The headers of a message: a mapping of a name, in any case, to its first value.

    `get_all` gives every value of a name, `status` and `description` the status line of messages
    that the server itself sent (404, "No Messages"), and None and "" for others. The name "" is there only
    if the block was malformed; its value is the block, with invalid UTF-8 as `surrogateescape` keeps it.
    """

    __slots__ = ("_values", "description", "status")

    def __init__(self, items: HeadersLike | None = None) -> None:
        self.status: int | None = None
        self.description = ""
        # lower-case name -> the name in its first spelling, and its values
        self._values: dict[str, tuple[str, list[str]]] = {}
        if isinstance(items, Headers):
            self.status, self.description = items.status, items.description
            self._values = {key: (name, list(values)) for key, (name, values) in items._values.items()}
        elif items is not None:
            for name, values in _listed(items):
                for value in values:
                    self._add(name, value)

    @classmethod
    def parse(cls, block: bytes) -> Headers:
        """Parse a header block, any bytes. A malformed block is the value of the name ""."""
        headers = cls()
        if not block:
            return headers
        text = block.decode("utf-8", "surrogateescape")
        first, *lines = text.split("\r\n")
        # The end of the last line, and the empty line.
        readable = text.endswith("\r\n\r\n")
        try:
            headers.status, headers.description = _parse_first_line(first)
        except RemoteProtocolError:
            readable = False
        for line in lines:
            if not line:
                continue
            name, colon, value = line.partition(":")
            if colon and name:
                headers._add(name, value.removeprefix(" "))
            else:
                readable = False
        if not readable:
            headers._add("", text)
        return headers

    def _add(self, name: str, value: str) -> None:
        self._values.setdefault(name.lower(), (name, []))[1].append(value)

    def get_all(self, name: str) -> list[str]:
        """Every value of a header, in order; empty when the header is missing."""
        entry = self._values.get(_key(name))
        return list(entry[1]) if entry else []

    def multi_items(self) -> Iterator[tuple[str, list[str]]]:
        """Each name with all its values."""
        return ((name, list(values)) for name, values in self._values.values())

    def __getitem__(self, name: str) -> str:
        entry = self._values.get(_key(name))
        if entry is None:
            raise KeyError(name)
        return entry[1][0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            mine = {key: values for key, (_, values) in self._values.items()}
            theirs = {key: values for key, (_, values) in other._values.items()}
            return (self.status, self.description, mine) == (other.status, other.description, theirs)
        if isinstance(other, Mapping):
            try:
                return self == Headers(other)
            except UsageError:
                return False
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        items = {name: values[0] if len(values) == 1 else values for name, values in self._values.values()}
        if self.status is None:
            return f"Headers({items!r})"
        return f"Headers({items!r}, status={self.status}, description={self.description!r})"


def _key(name: str) -> str:
    if not isinstance(name, str):
        raise UsageError(f"the name of a header must be a str, not {type(name).__name__}")
    return name.lower()


#: The start of the server's answer to a request that has no subscriber.
NO_RESPONDERS = b"NATS/1.0 503"
#: The headers of all messages without a header block.
NO_HEADERS = Headers()


def has_status(block: bytes) -> bool:
    """Whether a header block starts with a status: the server sent the message, not a user."""
    return block[8:9] == b" " and block.partition(b"\r\n")[0][8:].strip(b" \t") != b""


def parse_status(block: bytes) -> tuple[int | None, str]:
    """The status and description of a header block, without parsing the rest."""
    return _parse_first_line(block.partition(b"\r\n")[0].decode("utf-8", "surrogateescape"))


def _parse_first_line(line: str) -> tuple[int | None, str]:
    version, _, rest = line.partition(" ")
    if version != "NATS/1.0":
        raise RemoteProtocolError(
            f"the peer sent a header block that does not start with NATS/1.0: {line[:64]!r}"
        )
    status, _, description = rest.strip(" \t").partition(" ")
    if not status:
        return None, ""
    if not (status.isascii() and status.isdigit() and len(status) <= 9):
        raise RemoteProtocolError(f"the peer sent a header status that is not a number: {line[:64]!r}")
    return int(status), description.strip(" \t")


def encode_headers(headers: HeadersLike) -> bytes:
    """Encode a header block. Raises `UsageError` for a name or value that would break out of its line."""
    lines = [_VERSION]
    for name, values in headers.multi_items() if isinstance(headers, Headers) else _listed(headers):
        start = _line_start(name)
        for value in values:
            # Most values are printable, and asking that is cheaper than searching.
            if not value.isprintable() and _BAD_IN_VALUE.search(value):
                raise UsageError(
                    f"headers: the value of {name!r} contains a line break or NUL: {value[:64]!r}"
                )
            try:
                lines.append((start + value).encode("utf-8", "surrogateescape"))
            except UnicodeEncodeError:
                raise UsageError(
                    f"headers: the value of {name!r} cannot be encoded: {value[:64]!r}"
                ) from None
    return b"\r\n".join(lines) + b"\r\n\r\n"


@lru_cache(maxsize=1024)
def _line_start(name: str) -> str:
    """The bytes before a value. Raises `UsageError` for an invalid name."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"headers: the name {name!r} is not valid; use printable ASCII without spaces and colons",
            hint=None if name else "The empty name holds the header block of a message that is malformed",
        )
    return f"{name}: "


def _listed(headers: object) -> Iterator[tuple[str, list[str]]]:
    """Each name with a list of its values. Raises `UsageError` for a wrong type.

    The usual types are asked for first, because asking for an abstract class is slow.
    """
    if type(headers) is not dict and not isinstance(headers, Mapping):
        raise UsageError(f"headers must be a mapping of names to values, not {type(headers).__name__}")
    for name, values in headers.items():
        if not isinstance(name, str):
            raise UsageError(f"headers: a name must be a str, not {type(name).__name__}")
        if type(values) is str:
            yield name, [values]
            continue
        # Iterating bytes gives numbers, and empty bytes would silently drop the header.
        several = type(values) is list or (
            isinstance(values, Iterable) and not isinstance(values, str | bytes)
        )
        listed = list(values) if several else [values]
        for value in listed:
            if not isinstance(value, str):
                raise UsageError(f"headers: the value of {name!r} must be a str, not {type(value).__name__}")
        yield name, listed
