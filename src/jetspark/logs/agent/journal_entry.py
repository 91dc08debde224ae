"""Entries of systemd's journal: reads the export format, and turns each entry into a line of JSON. No I/O.

The format, which `journalctl --output=export` writes, is one field a line, as `NAME=value`, or as `NAME`, the
size in 8 bytes and the value if this is binary. `__CURSOR` comes first, and a blank line ends the entry.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from jetspark.errors import RemoteProtocolError

__all__ = ["EntryParser", "JournalEntry", "place_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The id of a series of sequence numbers, and the sequence number.
_CURSOR: Final = re.compile(r"s=([0-9a-f]{32});i=([0-9a-f]{1,15});")


class JournalEntry(NamedTuple):
    """An entry, as it is sent."""

    #: Where it is in the journal.
    cursor: str
    #: An object in JSON: `time`, and the fields by their names. A field that occurs several times is a list.
    data: bytes


def place_of(cursor: str) -> tuple[str, int]:
    """The id of the series, and the sequence number of an entry in it. Raises `ValueError`."""
    found = _CURSOR.match(cursor)
    if found is None:
        raise ValueError(f"{cursor[:200]!r} is not a cursor of the journal")
    return found[1], int(found[2], 16)


class EntryParser:
    """Parses the output of journalctl into entries of at most `limit` bytes. Larger ones have cut values."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._fields: dict[str, list[bytes]] = {}
        self._room = limit
        # Bytes to skip of a value that is too large; whether to skip the rest of a line.
        self._skip = 0
        self._in_long_line = False

    def feed(self, data: bytes) -> list[JournalEntry]:
        """The entries that are complete with this data. Raises `RemoteProtocolError`."""
        entries: list[JournalEntry] = []
        rest, at = self._rest + data, 0
        while True:
            skipped = min(self._skip, len(rest) - at)
            at, self._skip = at + skipped, self._skip - skipped
            end = rest.find(b"\n", at)
            if end < 0:
                if self._in_long_line or len(rest) - at > self._limit + 256:  # A name has 64 bytes at most.
                    if not self._in_long_line:
                        self._add(*rest[at:].partition(b"=")[::2])
                    self._in_long_line, at = True, len(rest)
                break
            if self._in_long_line:
                self._in_long_line, at = False, end + 1
            elif end == at:
                at += 1
                entries += self._finish()
            else:
                name, equals, value = rest[at:end].partition(b"=")
                if equals:
                    self._add(name, value)
                    at = end + 1
                    continue
                size = int.from_bytes(rest[end + 1 : end + 9], "little")
                start, kept = end + 9, min(size, self._limit)
                if len(rest) < start + kept:
                    break
                self._add(name, rest[start : start + kept])
                at, self._skip = start + kept, size - kept + 1
        self._rest = rest[at:]
        return entries

    def _add(self, name: bytes, value: bytes) -> None:
        value = value[: self._room]
        self._room -= len(value)
        self._fields.setdefault(name.decode("ascii", "replace"), []).append(value)

    def _finish(self) -> list[JournalEntry]:
        fields, self._fields, self._room = self._fields, {}, self._limit
        if not fields:
            return []
        cursor = fields.get("__CURSOR", [b""])[0].decode("ascii", "replace")
        try:
            place_of(cursor)
        except ValueError as error:
            raise RemoteProtocolError(f"invalid output of journalctl: {error}") from None
        data = _encoded(fields)
        if len(data) > self._limit:
            # A character becomes 6 bytes at most.
            size = max(self._limit // 8 // sum(map(len, fields.values())), 1)
            data = _encoded({name: [value[:size] for value in values] for name, values in fields.items()})
        return [JournalEntry(cursor, data)]


def _encoded(fields: dict[str, list[bytes]]) -> bytes:
    texts = {name: [value.decode("utf-8", "replace") for value in values] for name, values in fields.items()}
    found: dict[str, object] = {
        name: values[0] if len(values) == 1 else values for name, values in texts.items()
    }
    return msgspec.json.encode({"time": _time(fields), **found})


def _time(fields: dict[str, list[bytes]]) -> str | None:
    try:
        time = _EPOCH + timedelta(microseconds=int(fields["__REALTIME_TIMESTAMP"][0]))
    except (KeyError, ValueError, OverflowError):
        return None
    return time.isoformat(timespec="microseconds")
