"""Messages as Arrow record batches: columns are made of whole lists at a time, not of one message after the
other. Needs pyarrow; nothing in jetspark loads this module by itself.

| column      | type                       |                                                        |
|-------------|----------------------------|--------------------------------------------------------|
| `subject`   | `string`                   | what is no UTF-8 is replaced                           |
| `data`      | `binary`                   |                                                        |
| `headers`   | `map<string, list<string>>` | empty, never null; left out on demand                 |
| `stream`    | `string`                   |                                                        |
| `sequence`  | `int64`                    | in the stream                                          |
| `timestamp` | `timestamp[us, UTC]`       | when the stream stored it                              |

These are the types that Spark takes: never `large_*`, never nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from jetspark.jetstream.metadata import parse_metadata
from jetspark.jetstream.stored import StoredMessage
from jetspark.wire.frames import MsgFrame
from jetspark.wire.headers import Headers

if TYPE_CHECKING:
    from jetspark.jetstream.ranges import Chunk

__all__ = ["SCHEMA", "SCHEMA_WITHOUT_HEADERS", "record_batch"]

_VALUES: Final = pa.list_(pa.field("element", pa.string()))
_HEADERS: Final = pa.map_(pa.string(), _VALUES)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

#: The columns of a batch.
SCHEMA: Final = pa.schema(
    [
        ("subject", pa.string()),
        ("data", pa.binary()),
        ("headers", _HEADERS),
        ("stream", pa.string()),
        ("sequence", pa.int64()),
        ("timestamp", _TIMESTAMP),
    ]
)
SCHEMA_WITHOUT_HEADERS: Final = SCHEMA.remove(SCHEMA.get_field_index("headers"))

#: Tokens of an acknowledgement subject without domain; the sequence is the fourth of them from the end.
_TOKENS_V1: Final = 9

_subject = attrgetter("subject")
_data = attrgetter("data")
_header = attrgetter("header")
_reply = attrgetter("reply")
_headers = attrgetter("headers")
_sequence = attrgetter("sequence")
_timestamp = attrgetter("timestamp")


def record_batch(chunk: Chunk, stream: str, *, headers: bool = True) -> pa.RecordBatch:
    """The messages of one chunk, which are all of `stream`."""
    if chunk and isinstance(chunk[0], StoredMessage):
        stored = chunk
        subjects = _strings([subject.encode("utf-8", "surrogateescape") for subject in map(_subject, stored)])
        sequences = pa.array(list(map(_sequence, stored)), pa.int64())
        timestamps = pa.array(list(map(_timestamp, stored)), _TIMESTAMP)
        entries = [list(each.multi_items()) for each in map(_headers, stored)]
    else:
        frames = cast(list[MsgFrame], chunk)
        subjects = _strings(list(map(_subject, frames)))
        sequences, timestamps = _places(list(map(_reply, frames)))
        blocks = list(map(_header, frames)) if headers else []
        entries = [_entries(block) for block in blocks] if any(blocks) else [[]] * len(frames)
    columns = [
        subjects,
        pa.array(list(map(_data, chunk)), pa.binary()),
        _header_column(entries) if headers else None,
        pa.repeat(pa.scalar(stream, pa.string()), len(chunk)),
        sequences,
        timestamps,
    ]
    return pa.RecordBatch.from_arrays(
        [column for column in columns if column is not None],
        schema=SCHEMA if headers else SCHEMA_WITHOUT_HEADERS,
    )


def _strings(texts: Sequence[bytes]) -> pa.StringArray:
    try:
        return pa.array(texts, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text.decode("utf-8", "replace") for text in texts], pa.string())


def _places(replies: list[bytes]) -> tuple[pa.Int64Array, pa.TimestampArray]:
    """Sequences and times, out of acknowledgement subjects."""
    if all(reply.count(b".") == _TOKENS_V1 - 1 for reply in (replies[:1] + replies[-1:])):
        try:
            tokens = pc.split_pattern(pa.array(replies, pa.string()), ".", max_splits=4, reverse=True)
            sequences = pc.list_element(tokens, 1).cast(pa.int64())
            nanoseconds = pc.list_element(tokens, 3).cast(pa.int64())
            return sequences, _microseconds(nanoseconds)
        except pa.ArrowInvalid:
            pass  # Some have a domain and some have none.
    places = [parse_metadata(reply) for reply in replies]
    sequences = pa.array([place.sequence.stream for place in places], pa.int64())
    return sequences, _microseconds(pa.array([place.timestamp_ns for place in places], pa.int64()))


def _microseconds(nanoseconds: pa.Int64Array) -> pa.TimestampArray:
    return pc.divide(nanoseconds, 1000).cast(_TIMESTAMP)


def _entries(block: bytes) -> list[tuple[str, list[str]]]:
    """The names and values of a header block. Most have each name once: those are quickly read."""
    if not block:
        return []
    lines = block.decode("utf-8", "surrogateescape").split("\r\n")[1:-2]
    pairs = [line.partition(":") for line in lines]
    if len({name.lower() for name, _, _ in pairs}) == len(pairs):
        return [(name, [value.removeprefix(" ")]) for name, _, value in pairs]
    return list(Headers.parse(block).multi_items())


def _header_column(entries: list[list[tuple[str, list[str]]]]) -> pa.MapArray:
    flat = list(chain.from_iterable(entries))
    values = pa.ListArray.from_arrays(
        pa.array(_offsets(each for _, each in flat), pa.int32()),
        pa.array([_valid(value) for _, each in flat for value in each], pa.string()),
        type=_VALUES,
    )
    names = pa.array([_valid(name) for name, _ in flat], pa.string())
    return pa.MapArray.from_arrays(pa.array(_offsets(entries), pa.int32()), names, values, type=_HEADERS)


def _offsets(lists: Iterable[Sequence[object]]) -> list[int]:
    return list(accumulate(map(len, lists), initial=0))


def _valid(text: str) -> str:
    """Text that Arrow takes: received bytes that are no UTF-8 are lone surrogates in it."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
