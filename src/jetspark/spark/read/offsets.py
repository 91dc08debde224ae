"""How far a streaming query has read, as Spark stores it in the checkpoint. Pure.

An offset is JSON, version 1:

```
{"version": 1,
 "streams": {"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 1, "next_seq": 1235}}}
```

Each stream has three fields. `created` is its creation time: a stream that is deleted and created again
restarts its sequences. `began` is the sequence at which this query began to read it. `next_seq` is the next
sequence to read: a batch reads from the `next_seq` of its start up to, excluding, the `next_seq` of its end.

`"initial": true` marks the offset before the first batch. Spark asks for it again when it retries that batch,
and "latest" may have moved by then. The first batch therefore uses the `began` of its end offset, which is in
the checkpoint. So do streams that join later.

The key order is fixed, because Spark compares offsets as text. Offsets hold no secrets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from jetspark.errors import UsageError
from jetspark.jetstream.read.ranges import StreamRange

__all__ = ["Offset", "StreamOffset", "ranges_between"]

_VERSION: Final = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamOffset:
    """How far a query has read one stream."""

    created: datetime
    began: int
    next_seq: int


@dataclasses.dataclass(frozen=True)
class Offset:
    """How far a query has read its streams."""

    streams: Mapping[str, StreamOffset]
    initial: bool = False

    def to_json(self) -> dict[str, Any]:
        streams = {
            name: {
                "created": stream.created.isoformat(timespec="microseconds"),
                "began": stream.began,
                "next_seq": stream.next_seq,
            }
            for name, stream in sorted(self.streams.items())
        }
        mark = {"initial": True} if self.initial else {}
        return {"version": _VERSION, **mark, "streams": streams}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Offset:
        """Parse a stored offset. Raises `UsageError` for another format or a later version."""
        version = json.get("version")
        if version != _VERSION:
            raise UsageError(
                f"the checkpoint holds an offset of version {version!r}; this jetspark reads {_VERSION}",
                hint="Use the version of jetspark that wrote it, or a new checkpointLocation",
            )
        try:
            streams = {
                name: StreamOffset(
                    created=datetime.fromisoformat(stream["created"]),
                    began=int(stream["began"]),
                    next_seq=int(stream["next_seq"]),
                )
                for name, stream in json["streams"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the checkpoint holds an offset that is not of format jetstream: {json!r:.200}",
                hint="Give every query its own checkpointLocation",
            ) from error
        return cls(streams, bool(json.get("initial")))


def ranges_between(start: Offset, end: Offset) -> list[StreamRange]:
    ranges = []
    for name, stream in sorted(end.streams.items()):
        first_seq = _first_seq(None if start.initial else start.streams.get(name), stream)
        if first_seq < stream.next_seq:
            ranges.append(
                StreamRange(
                    stream=name, created=stream.created, first_seq=first_seq, next_seq=stream.next_seq
                )
            )
    return ranges


def _first_seq(before: StreamOffset | None, stream: StreamOffset) -> int:
    if before is None or before.created != stream.created:
        return stream.began
    if before.next_seq > stream.next_seq and stream.began != before.began:
        return stream.began  # Rolled back: the sequences after its new end hold other messages than before.
    return before.next_seq
