"""The stable fields of `--json`.

Every field of a model is present, `null` where the server sent none. Names are those of the server and of
the Python API. Durations are seconds, times RFC 3339 in UTC, sizes bytes. The data of a message is text in
`data`, or base64 in `data_base64` if it is not valid UTF-8; the other of the two is `null`.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.wire.headers import Headers

if TYPE_CHECKING:
    from jetspark.core.message import Msg
    from jetspark.jetstream.message.delivered import JetStreamMsg

__all__ = ["delivered_json", "received_json", "stored_json", "to_json"]


def to_json(value: object) -> Any:
    """A value as JSON types: dict, list, text, number, bool or None."""
    match value:
        case StoredMessage():
            return stored_json(value)
        case DeadLetter():
            return {name: to_json(getattr(value, name)) for name in DeadLetter.__struct_fields__}
        case msgspec.Struct():
            fields = {
                field.encode_name: to_json(getattr(value, field.name))
                for field in msgspec.structs.fields(value)
                if field.name != "extra"
            }
            return fields | to_json(getattr(value, "extra", {}))
        case Headers():
            return dict(value.multi_items())
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case enum.Enum():
            return str(value.value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(key): to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case _:
            return value


def _content(message: StoredMessage | Msg) -> dict[str, Any]:
    """The headers with all their values, and the data."""
    headers = dict(message.headers.multi_items())
    try:
        return {"headers": headers, "data": message.data.decode(), "data_base64": None}
    except UnicodeDecodeError:
        return {"headers": headers, "data": None, "data_base64": base64.b64encode(message.data).decode()}


def stored_json(message: StoredMessage) -> dict[str, Any]:
    """A message read from a stream."""
    return {
        "stream": message.stream,
        "sequence": message.sequence,
        "subject": message.subject,
        "timestamp": to_json(message.timestamp),
        **_content(message),
    }


def delivered_json(message: JetStreamMsg) -> dict[str, Any]:
    """A message delivered by a consumer."""
    metadata = message.metadata
    return {
        "stream": metadata.stream,
        "sequence": metadata.sequence.stream,
        "subject": message.subject,
        "timestamp": to_json(metadata.timestamp),
        **_content(message),
        "consumer": metadata.consumer,
        "consumer_sequence": metadata.sequence.consumer,
        "num_delivered": metadata.num_delivered,
        "num_pending": metadata.num_pending,
    }


def received_json(message: Msg) -> dict[str, Any]:
    """A message received by a Core NATS subscription."""
    return {"subject": message.subject, "reply": message.reply or None, **_content(message)}
