"""How far a streaming query has read, as Spark keeps it in the checkpoint. Pure.

An offset is JSON, version 1:

```
{"version": 1,
 "streams": {"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 1, "next_seq": 1235}}}
```

Per stream: when it was created, because a stream that is deleted and created again starts over with its
sequences; the sequence at which this query began to read it; and the next sequence to read, so that the range
of a batch is from its start's `next_seq` up to, and without, its end's.

`"initial": true` marks an offset before the first batch. Spark asks for it anew whenever it tries that batch
again, and "latest" has moved by then; so the first batch trusts the `began` of its end instead, which is in
the checkpoint. Streams that join later are read from their `began`, too.

Keys are in a fixed order, because Spark compares offsets as text. Nothing secret is in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from jetspark.errors import UsageError
from jetspark.jetstream.read.stream_range import StreamRange

__all__ = ["Offset", "StreamOffset", "ranges_between"]

_VERSION: Final = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamOffset:
    """How far one stream is read."""

    created: datetime
    began: int
    next_seq: int


@dataclasses.dataclass(frozen=True)
class Offset:
    """How far the streams of a query are read."""

    streams: Mapping[str, StreamOffset]
    initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """What Spark keeps."""
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
        """What Spark kept. Raises `UsageError` for what is not ours, or from a later version."""
        version = json.get("version")
        if version != _VERSION:
            raise UsageError(
                f"the checkpoint holds an offset of version {version!r}, and this jetspark knows {_VERSION}",
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
                hint="Every query needs a checkpointLocation of its own",
            ) from error
        return cls(streams, bool(json.get("initial")))


def ranges_between(start: Offset, end: Offset) -> list[StreamRange]:
    """What a batch reads."""
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
        return stream.began  # It was set back: what follows its new end is not what was read.
    return before.next_seq
