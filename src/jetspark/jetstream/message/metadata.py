"""The metadata in an acknowledgement subject: version 1 has 9 tokens, version 2 at least 11."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from jetspark.errors import NotJetStreamMessage

__all__ = ["Metadata", "SequencePair", "parse_metadata"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The most characters of five 64-bit numbers.
_DIGITS = 100


class SequencePair(msgspec.Struct, frozen=True, gc=False):
    """A position in the stream, and in the deliveries of the consumer."""

    stream: int
    consumer: int


class Metadata(msgspec.Struct, frozen=True):
    """Where a message comes from."""

    #: Name of the stream.
    stream: str
    #: Name of the consumer that delivered it.
    consumer: str
    #: Domain of the server; None when it has none.
    domain: str | None
    #: Sequences in the stream and of the consumer.
    sequence: SequencePair
    #: How often it was delivered, this time included.
    num_delivered: int
    #: Matching messages that are still to come.
    num_pending: int
    #: When the stream stored it, in nanoseconds since 1970.
    timestamp_ns: int

    @property
    def timestamp(self) -> datetime:
        """When the stream stored it, UTC, with microseconds."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1000)


def parse_metadata(reply: bytes) -> Metadata:
    """Read an acknowledgement subject. Raises `NotJetStreamMessage` for other subjects."""
    tokens = reply.split(b".")
    count = len(tokens)
    domain: str | None = None
    if count == 9:
        fields = tokens[2:]
    elif count >= 11:
        # The server writes "_" for no domain.
        domain = None if tokens[2] == b"_" else tokens[2].decode("utf-8", "surrogateescape")
        fields = tokens[4:11]
    else:
        fields = []
    if not fields or tokens[0] != b"$JS" or tokens[1] != b"ACK":
        raise _refused(reply)
    stream, consumer, *numbers = fields
    # All at once: this runs for every message that an ordered consumer or an export looks at.
    digits = b"".join(numbers)
    if not (all(numbers) and digits.isdigit() and len(digits) <= _DIGITS):
        raise _refused(reply)
    delivered, stream_sequence, consumer_sequence, timestamp, pending = map(int, numbers)
    return Metadata(
        stream=stream.decode("utf-8", "surrogateescape"),
        consumer=consumer.decode("utf-8", "surrogateescape"),
        domain=domain,
        sequence=SequencePair(stream_sequence, consumer_sequence),
        num_delivered=delivered,
        num_pending=pending,
        timestamp_ns=timestamp,
    )


def _refused(reply: bytes) -> NotJetStreamMessage:
    shown = reply.decode("utf-8", "replace")
    return NotJetStreamMessage(
        f"the reply subject {shown!r} is not an acknowledgement subject",
        hint="Only messages that a consumer delivered have metadata and can be acknowledged",
    )
