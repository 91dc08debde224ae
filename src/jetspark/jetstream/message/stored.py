"""A message as a stream holds it, however it was read: as JSON from the leader, or by direct get."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.model.base import time_from_wire
from jetspark.jetstream.model.requests import StoredMsg
from jetspark.wire import MsgFrame
from jetspark.wire.headers import NO_HEADERS, Headers

__all__ = ["StoredMessage", "from_answer", "from_frame", "is_stored", "not_direct_get", "parse_direct_get"]


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A message in a stream. It was read, not delivered: there is nothing to acknowledge."""

    #: Name of the stream that holds it. A mirror that answers for its origin gives its own name.
    stream: str
    #: Its sequence in that stream.
    sequence: int
    #: Its subject.
    subject: str
    #: Its payload.
    data: bytes
    #: Its headers, as they were published.
    headers: Headers = NO_HEADERS
    #: When it was stored, UTC. Handed back to the server it is exact to the nanosecond.
    timestamp: datetime

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(stream={self.stream!r}, sequence={self.sequence}, "
            f"subject={self.subject!r}, {len(self.data)} bytes)"
        )


def from_answer(stream: str, answer: StoredMsg) -> StoredMessage:
    """The message in an answer to `STREAM.MSG.GET`."""
    return StoredMessage(
        stream=stream,
        sequence=answer.sequence,
        subject=answer.subject,
        data=answer.data,
        headers=Headers.parse(answer.hdrs) if answer.hdrs else NO_HEADERS,
        timestamp=answer.time,
    )


_NEVER: Final = datetime.min.replace(tzinfo=UTC)

# The headers that a direct get adds after those of the message itself.
_STREAM = b"Nats-Stream"
_SUBJECT = b"Nats-Subject"
_SEQUENCE = b"Nats-Sequence"
_TIMESTAMP = b"Nats-Time-Stamp"
_ADDED = frozenset({_STREAM, _SUBJECT, _SEQUENCE, _TIMESTAMP, b"Nats-Num-Pending", b"Nats-Last-Sequence"})
# The same in the order of current servers: for a million messages, parsing line by line is slow.
_BEGINNING: Final = b"Nats-Stream: "
_IN_ORDER: Final = re.compile(
    rb"Nats-Stream: ([^\r]*)\r\nNats-Subject: ([^\r]*)\r\nNats-Sequence: ([0-9]{1,18})"
    rb"\r\nNats-Time-Stamp: ([^\r]*)(?:\r\nNats-Num-Pending: [0-9]+\r\nNats-Last-Sequence: [0-9]+)?\r\n\r\n\Z"
)
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")
_FIRST_LINE: Final = b"NATS/1.0\r\n"


def parse_direct_get(header: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Stream, subject, sequence, time and own header block of an answer. Raises `RemoteProtocolError`."""
    start = header.rfind(_BEGINNING)
    match = _IN_ORDER.match(header, start) if start >= 0 else None
    if match is None:
        return _parse_direct_get_lines(header)
    # The server puts its headers over the last two bytes of the message's block, which should be a line end.
    own = header[:start]
    if own == _FIRST_LINE:
        own = b""
    elif own.endswith(b"\r\n"):
        own += b"\r\n"
    stream, subject, sequence, time = match.groups()
    return stream, subject, sequence, time, own


def _parse_direct_get_lines(header: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    lines = header.rstrip(b"\r\n").split(b"\r\n")
    added: dict[bytes, bytes] = {}
    # From the end, and each once: the message may have headers of these names, as a republished one does.
    while len(lines) > 1:
        name, _, value = lines[-1].partition(b": ")
        if name not in _ADDED or name in added:
            break
        added[name] = value
        lines.pop()
    own = b"\r\n".join(lines) + b"\r\n\r\n" if len(lines) > 1 else b""
    try:
        found = added[_STREAM], added[_SUBJECT], added[_SEQUENCE], added[_TIMESTAMP], own
    except KeyError as error:
        raise not_direct_get(header) from error
    if _NUMBER.fullmatch(added[_SEQUENCE]) is None:
        raise not_direct_get(header)
    return found


def from_frame(frame: MsgFrame) -> StoredMessage:
    """The message in an answer to a direct get. Raises `RemoteProtocolError` for other frames."""
    stream, subject, sequence, time, own = parse_direct_get(frame.header)
    try:
        return StoredMessage(
            stream=stream.decode(),
            sequence=int(sequence),
            subject=subject.decode("utf-8", "surrogateescape"),
            data=frame.data,
            headers=Headers.parse(own) if own else NO_HEADERS,
            timestamp=time_from_wire(time.decode()) or _NEVER,
        )
    except ValueError as error:
        raise not_direct_get(frame.header) from error


def is_stored(header: bytes) -> bool:
    """Whether an answer to a direct get has a message, which may have its own status line."""
    return _BEGINNING in header


def not_direct_get(header: bytes) -> RemoteProtocolError:
    """The error for a header block that does not come from a direct get."""
    return RemoteProtocolError(f"not an answer to a direct get: {header[:200]!r}")
