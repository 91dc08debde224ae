"""A message as a stream holds it, however it was read: as JSON from the leader, or by direct get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.model import time_from_wire
from jetspark.jetstream.requests import StoredMsg
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import NO_HEADERS, Headers

__all__ = ["StoredMessage", "from_answer", "from_frame"]


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

# What a direct get says about a message, in headers after those of the message itself.
_STREAM = b"Nats-Stream"
_SUBJECT = b"Nats-Subject"
_SEQUENCE = b"Nats-Sequence"
_TIMESTAMP = b"Nats-Time-Stamp"
_ADDED = frozenset({_STREAM, _SUBJECT, _SEQUENCE, _TIMESTAMP, b"Nats-Num-Pending", b"Nats-Last-Sequence"})


def from_frame(frame: MsgFrame) -> StoredMessage:
    """The message in an answer to a direct get. Raises `RemoteProtocolError` if it is none."""
    lines = frame.header.rstrip(b"\r\n").split(b"\r\n")
    added: dict[bytes, bytes] = {}
    # From the end, and each once: a message may bring headers of these names along, as a republished does.
    while len(lines) > 1:
        name, _, value = lines[-1].partition(b": ")
        if name not in _ADDED or name in added:
            break
        added[name] = value
        lines.pop()
    try:
        return StoredMessage(
            stream=added[_STREAM].decode(),
            sequence=int(added[_SEQUENCE]),
            subject=added[_SUBJECT].decode("utf-8", "surrogateescape"),
            data=frame.data,
            headers=Headers.parse(b"\r\n".join(lines)) if len(lines) > 1 else NO_HEADERS,
            timestamp=time_from_wire(added[_TIMESTAMP].decode()) or _NEVER,
        )
    except (KeyError, ValueError) as error:
        raise RemoteProtocolError(f"not an answer to a direct get: {frame.header[:200]!r}") from error
