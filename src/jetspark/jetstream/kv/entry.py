"""A revision of a key: a value, or the tombstone of one."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from jetspark.wire.headers import Headers

__all__ = ["KEY_OPERATION", "ROLLUP", "KeyValueEntry", "KeyValueOperation", "operation_in", "operation_of"]

KEY_OPERATION: Final = "KV-Operation"
ROLLUP: Final = "Nats-Rollup"
_MARKER: Final = "Nats-Marker-Reason"
#: Every tombstone has one of these in its headers. Only messages with one of them are parsed.
_MARKS: Final = (KEY_OPERATION.encode(), _MARKER.encode())


class KeyValueOperation(StrEnum):
    """The effect of a revision on its key."""

    #: It has a new value.
    PUT = "PUT"
    #: Its value was deleted.
    DELETE = "DEL"
    #: Its value was deleted, with all earlier revisions.
    PURGE = "PURGE"


class KeyValueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A revision of a key."""

    #: Name of the bucket.
    bucket: str
    #: The key.
    key: str
    #: The value; empty in a tombstone, and where only metadata was asked for.
    value: bytes
    #: Its number in the bucket. Later revisions, of any key, have higher ones.
    revision: int
    #: When it was stored, UTC.
    created: datetime
    #: Its effect on the key.
    operation: KeyValueOperation = KeyValueOperation.PUT
    #: In a watch and in a history: matching revisions that were still to come. Otherwise 0.
    delta: int = 0
    #: Seconds after `created` until it expires, if it was stored with a `ttl`.
    ttl: float | None = None

    @property
    def deleted(self) -> bool:
        """Whether it is a tombstone."""
        return self.operation is not KeyValueOperation.PUT

    def __repr__(self) -> str:
        about = f"{len(self.value)} bytes" if not self.deleted else str(self.operation)
        return f"{type(self).__name__}({self.bucket}, {self.key!r}, revision {self.revision}, {about})"


_OPERATIONS: Final = {operation.value: operation for operation in KeyValueOperation}
_DURATION: Final = re.compile(
    r"(?P<plain>[0-9]{1,12})|(?:(?P<h>[0-9]{1,9})h)?(?:(?P<m>[0-9]{1,9})m)?(?:(?P<s>[0-9]{1,9}(?:\.[0-9]{1,9})?)s)?"
)
#: ADR-48: why the server removed the last revision of a key and left a marker.
_REASONS: Final = {
    "MaxAge": KeyValueOperation.PURGE,
    "Purge": KeyValueOperation.PURGE,
    "Remove": KeyValueOperation.DELETE,
}


def operation_of(block: bytes) -> tuple[KeyValueOperation, float | None]:
    """The effect of a message with this header block on its key, and its own TTL in seconds, if any."""
    if not block or (b"Nats-TTL" not in block and not any(mark in block for mark in _MARKS)):
        return KeyValueOperation.PUT, None
    return operation_in(Headers.parse(block))


def operation_in(headers: Headers) -> tuple[KeyValueOperation, float | None]:
    """The same for headers."""
    operation = _OPERATIONS.get(headers.get(KEY_OPERATION, ""))
    if operation is None:
        reason = headers.get(_MARKER)
        # A reason of a newer server: whatever it is, the last revision was removed.
        operation = KeyValueOperation.PUT if reason is None else _REASONS.get(reason, KeyValueOperation.PURGE)
    return operation, _seconds(headers.get("Nats-TTL", ""))


def _seconds(ttl: str) -> float | None:
    """A TTL as the server reads it: whole seconds, or a duration such as `1h30m0s`. Otherwise None."""
    found = _DURATION.fullmatch(ttl)
    if found is None or not ttl:
        return None
    if found["plain"]:
        return float(found["plain"])
    return 3600 * float(found["h"] or 0) + 60 * float(found["m"] or 0) + float(found["s"] or 0)
