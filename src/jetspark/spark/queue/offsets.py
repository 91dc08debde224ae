"""The offsets of a query that is a worker of a consumer, as Spark stores them in the checkpoint. Pure.

An offset is JSON, version 1, and holds the messages of the batch that it ends:

```
{"version": 1, "consumer": "worker", "batch": 7,
 "streams": {"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "delivered": {"1": "1-5000,5003"}}}}
```

`batch` counts the batches, so that two with the same messages differ. Each stream has its creation time,
because a stream that is created again restarts its sequences, and the delivered sequences by the number of
deliveries. `ack` is the beginning of the acknowledgement subjects, if it is not the usual one.

The key order is fixed, because Spark compares offsets as text. Offsets hold no secrets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from jetspark.errors import UsageError
from jetspark.spark.queue.sequences import MOST, parse_sequences, show_sequences

__all__ = ["Delivered", "QueueOffset"]

_VERSION: Final = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Delivered:
    """Messages of one stream that the consumer delivered to this query."""

    created: datetime
    #: How often each message was delivered, by sequence, in order.
    messages: Mapping[int, int] = dataclasses.field(default_factory=dict)
    #: The beginning of the acknowledgement subjects; None for `$JS.ACK.<stream>.<consumer>`.
    ack: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOffset:
    """The messages of one batch."""

    consumer: str
    batch: int = 0
    streams: Mapping[str, Delivered] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(each.messages) for each in self.streams.values())

    def to_json(self) -> dict[str, Any]:
        streams = {name: _to_json(each) for name, each in sorted(self.streams.items())}
        return {"version": _VERSION, "consumer": self.consumer, "batch": self.batch, "streams": streams}

    @classmethod
    def from_json(cls, json: Mapping[str, Any], consumer: str) -> QueueOffset:
        """Parse a stored offset. Raises `UsageError` if it is not one of this consumer."""
        if json.get("consumer") != consumer:
            other = f"of consumer {json['consumer']}" if json.get("consumer") else "without option consumer"
            raise UsageError(
                f"the checkpoint belongs to a query {other:.300}, not to one of consumer {consumer}",
                hint="Give every query its own checkpointLocation",
            )
        if json.get("version") != _VERSION:
            raise UsageError(
                f"the checkpoint holds an offset of version {json.get('version')!r:.80}; "
                f"this jetspark reads {_VERSION}",
                hint="Use the version of jetspark that wrote it, or a new checkpointLocation",
            )
        try:
            streams = {name: _from_json(each) for name, each in json["streams"].items()}
            return cls(consumer=consumer, batch=int(json["batch"]), streams=streams)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the checkpoint holds an offset that is not of format jetstream: {json!r:.200}",
                hint="Give every query its own checkpointLocation",
            ) from error


def _to_json(each: Delivered) -> dict[str, Any]:
    by_count: dict[int, list[int]] = {}
    for sequence, count in each.messages.items():
        by_count.setdefault(count, []).append(sequence)
    delivered = {str(count): show_sequences(by_count[count]) for count in sorted(by_count)}
    ack = {} if each.ack is None else {"ack": each.ack}
    return {"created": each.created.isoformat(timespec="microseconds"), **ack, "delivered": delivered}


def _from_json(json: Mapping[str, Any]) -> Delivered:
    messages: dict[int, int] = {}
    for count, text in json["delivered"].items():
        messages |= dict.fromkeys(parse_sequences(text), int(count))
        if len(messages) > MOST:
            raise ValueError("too many sequences")
    ack = json.get("ack")
    if ack is not None and not isinstance(ack, str):
        raise ValueError("not a subject")
    return Delivered(
        created=datetime.fromisoformat(json["created"]), messages=dict(sorted(messages.items())), ack=ack
    )
