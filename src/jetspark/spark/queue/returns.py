"""How `foreachBatch`, in one process, asks the query in another to return messages to the consumer.

With the option `allowNak`, a query listens on `jetspark.return.<consumer>`. A request names a stream and
sequences; the query that holds them in a batch answers how many it has returned. Other queries stay silent.
"""

from __future__ import annotations

import msgspec

from jetspark.core.json import decode_json
from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.message.delivered import nak_body
from jetspark.spark.queue.sequences import parse_sequences, show_sequences

__all__ = ["Answer", "Return", "read_answer", "read_return", "return_subject", "show_return"]


class Return(msgspec.Struct, frozen=True):
    """A request."""

    stream: str
    sequences: str
    #: Seconds until they are delivered again.
    delay: float | None = None


class Answer(msgspec.Struct, frozen=True):
    """How many messages were returned."""

    returned: int


def return_subject(consumer: str) -> str:
    return f"jetspark.return.{consumer}"


def show_return(stream: str, sequences: list[int], delay: float | None) -> bytes:
    return msgspec.json.encode(Return(stream, show_sequences(sequences), delay))


def read_return(data: bytes) -> tuple[str, list[int], bytes]:
    """The stream, the sequences, and the acknowledgement to send. Raises `RemoteProtocolError`."""
    request = decode_json(data, Return, "a request to return messages")
    try:
        return request.stream, parse_sequences(request.sequences), nak_body(request.delay)
    except ValueError as error:
        raise RemoteProtocolError(f"not a request to return messages: {error}") from error


def read_answer(data: bytes) -> int:
    return decode_json(data, Answer, "an answer to a request to return messages").returned
