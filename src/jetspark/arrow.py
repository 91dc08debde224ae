"""Messages as Arrow record batches. Columns are built from whole lists, not message by message.

Requires pyarrow; `import jetspark` does not load this module.

| column      | type                       |                                                        |
|-------------|----------------------------|--------------------------------------------------------|
| `subject`   | `string`                   | invalid UTF-8 is replaced                              |
| `data`      | `binary`                   |                                                        |
| `headers`   | `map<string, list<string>>` | empty, never null; a malformed block under the name "" |
| `stream`    | `string`                   |                                                        |
| `sequence`  | `int64`                    | the sequence in the stream                             |
| `timestamp` | `timestamp[us, UTC]`       | when the stream stored the message                     |

Without `headers` with `headers=False`. Spark accepts exactly these types: never `large_*`, never nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from jetspark.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ModuleNotFoundError as _error:
    _hint = "Install it with `pip install 'jetspark[spark]'`"
    raise MissingExtra("jetspark.arrow needs pyarrow", hint=_hint) from _error

from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.stored import not_direct_get, parse_direct_get
from jetspark.jetstream.model.base import time_from_wire
from jetspark.wire import MsgFrame, arrow_columns, header_column
from jetspark.wire.headers import Headers

if TYPE_CHECKING:
    from jetspark.jetstream.read.ranges import Chunk
    from jetspark.wire.bulk import Columns

__all__ = [
    "SCHEMA",
    "SCHEMA_WITHOUT_HEADERS",
    "record_batch",
    "with_headers_as_columns",
    "without_data",
]

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

#: The start and the end of a header block, as NATS clients write it.
_BEGIN: Final = b"NATS/1.0\r\n"
_END: Final = b"\r\n\r\n"
_EMPTY: Final = b"NATS/1.0\r\n\r\n"

#: The header with the size of a payload that was left out.
_MSG_SIZE: Final = re.compile(rb"Nats-Msg-Size:\s*(\d{1,18})\r\n")

#: Tokens of an acknowledgement subject without a domain; the stream sequence is the fourth from the end.
_TOKENS_V1: Final = 9

_subject = attrgetter("subject")
_data = attrgetter("data")
_header = attrgetter("header")
_reply = attrgetter("reply")


def record_batch(chunk: Chunk, stream: str | Sequence[str], *, headers: bool = True) -> pa.RecordBatch:
    """The messages of one chunk; all of them are from `stream`, or each from the stream in its place."""
    if chunk and (buffers := arrow_columns(chunk, headers)) is not None:
        return _from_buffers(buffers, len(chunk), _stream_column(stream, len(chunk)))
    if chunk and not chunk[0].reply:
        subjects, sequences, timestamps, blocks = _from_direct_gets(list(map(_header, chunk)))
    else:
        subjects = _strings(list(map(_subject, chunk)))
        sequences, timestamps = _from_ack_subjects(list(map(_reply, chunk)))
        blocks = list(map(_header, chunk)) if headers else []
    columns = [
        subjects,
        pa.array(list(map(_data, chunk)), pa.binary()),
        _header_column(blocks) if headers else None,
        _stream_column(stream, len(chunk)),
        sequences,
        timestamps,
    ]
    return pa.RecordBatch.from_arrays(
        [column for column in columns if column is not None],
        schema=SCHEMA if headers else SCHEMA_WITHOUT_HEADERS,
    )


def without_data(chunk: Chunk, stream: str | Sequence[str], *, headers: bool = True) -> pa.RecordBatch:
    """`record_batch` with a column `size`, the bytes of the payload, in place of `data`.

    A consumer that delivers headers only puts the size into one of them, which is not of the message itself.
    """
    sizes: list[int] = []
    frames: Chunk = []
    for frame in chunk:
        size = len(frame.data)
        if not frame.data and (found := _MSG_SIZE.search(frame.header)):
            size = int(found[1])
            header = frame.header[: found.start()] + frame.header[found.end() :]
            own = b"" if header == _EMPTY else header
            frame = MsgFrame(frame.sid, frame.subject, frame.reply, own, b"")  # noqa: PLW2901
        sizes.append(size)
        frames.append(frame)
    batch = record_batch(frames, stream, headers=headers)
    at = batch.schema.get_field_index("data")
    return batch.set_column(at, "size", pa.array(sizes, pa.int64()))


def with_headers_as_columns(
    batch: pa.RecordBatch, chunk: Chunk, columns: Mapping[str, str]
) -> pa.RecordBatch:
    """The batch of a chunk with more columns: for each name, the first value of a header, or null."""
    arrays = [_first_values(chunk, header) for header in columns.values()]
    fields = [pa.field(name, pa.string()) for name in columns]
    schema = pa.schema([*batch.schema, *fields])
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


def _first_values(chunk: Chunk, header: str) -> pa.StringArray:
    """The first value of a header in each message; the case of its name does not matter."""
    own = not chunk or chunk[0].reply  # The header block of a direct get holds more than that of its message.
    if own and chunk and (buffers := header_column(chunk, header.encode())) is not None:
        return pa.Array.from_buffers(pa.string(), len(chunk), list(map(pa.py_buffer, buffers)))
    blocks = map(_header, chunk) if own else _from_direct_gets(list(map(_header, chunk)))[3]
    return pa.array([_first_value(block, header) for block in blocks], pa.string())


def _first_value(block: bytes, header: str) -> str | None:
    return Headers.parse(block.decode("utf-8", "replace").encode()).get(header) if block else None


def _stream_column(stream: str | Sequence[str], count: int) -> pa.StringArray:
    if isinstance(stream, str):
        return pa.repeat(pa.scalar(stream, pa.string()), count)
    return pa.array(stream, pa.string())


def _from_buffers(buffers: Columns, count: int, streams: pa.StringArray) -> pa.RecordBatch:
    subject_offsets, subjects, data_offsets, data, sequences, timestamps, headers = buffers
    arrays = [
        _array(pa.string(), count, subject_offsets, subjects),
        _array(pa.binary(), count, data_offsets, data),
        streams,
        _array(pa.int64(), count, sequences),
        _array(_TIMESTAMP, count, timestamps),
    ]
    if headers is None:
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITHOUT_HEADERS)
    rows, pairs, name_offsets, names, value_offsets, text_offsets, texts = headers
    values = pa.ListArray.from_arrays(
        _array(pa.int32(), pairs + 1, value_offsets),
        _array(pa.string(), pairs, text_offsets, texts),
        type=_VALUES,
    )
    arrays.insert(
        2,
        pa.MapArray.from_arrays(
            _array(pa.int32(), count + 1, rows),
            _array(pa.string(), pairs, name_offsets, names),
            values,
            type=_HEADERS,
        ),
    )
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(kind: pa.DataType, count: int, *buffers: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, *map(pa.py_buffer, buffers)])


def _strings(texts: Sequence[bytes]) -> pa.StringArray:
    try:
        return pa.array(texts, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text.decode("utf-8", "replace") for text in texts], pa.string())


def _from_ack_subjects(replies: list[bytes]) -> tuple[pa.Int64Array, pa.TimestampArray]:
    # No subject has fewer tokens, so the total shows whether one has more, as with a domain.
    if b"".join(replies).count(b".") == (_TOKENS_V1 - 1) * len(replies):
        tokens = pc.split_pattern(pa.array(replies, pa.string()), ".", max_splits=4, reverse=True)
        sequences = pc.list_element(tokens, 1).cast(pa.int64())
        nanoseconds = pc.list_element(tokens, 3).cast(pa.int64())
        return sequences, _microseconds(nanoseconds)
    parsed = [parse_metadata(reply) for reply in replies]
    sequences = pa.array([metadata.sequence.stream for metadata in parsed], pa.int64())
    return sequences, _microseconds(pa.array([metadata.timestamp_ns for metadata in parsed], pa.int64()))


def _microseconds(nanoseconds: pa.Int64Array) -> pa.TimestampArray:
    return pc.divide(nanoseconds, 1000).cast(_TIMESTAMP)


def _from_direct_gets(
    headers: list[bytes],
) -> tuple[pa.StringArray, pa.Int64Array, pa.TimestampArray, Sequence[bytes]]:
    """Subjects, sequences, times and the messages' own header blocks from the headers of direct gets."""
    _, subjects, sequences, times, blocks = zip(*map(parse_direct_get, headers), strict=True)
    try:
        # The server sends nanoseconds, Spark takes microseconds.
        exact = pa.array(times, pa.string()).cast(pa.timestamp("ns", tz="UTC"))
        timestamps = exact.cast(_TIMESTAMP, safe=False)
    except pa.ArrowInvalid:  # A time outside the range of nanoseconds.
        timestamps = pa.array(list(map(_time, headers, times)), _TIMESTAMP)
    return _strings(subjects), pa.array(sequences, pa.string()).cast(pa.int64()), timestamps, blocks


def _time(header: bytes, time: bytes) -> datetime | None:
    try:
        return time_from_wire(time.decode())
    except ValueError as error:
        raise not_direct_get(header) from error


def _header_column(blocks: Sequence[bytes]) -> pa.MapArray:
    """Parse header blocks into one column. The fast path takes blocks that have each name once."""
    if not any(blocks):
        # Built from a repeated zero, because the first array that Arrow makes of a list imports pandas.
        none = pa.array([], pa.string()), pa.array([], _VALUES), _HEADERS
        return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(blocks) + 1), *none)
    lines = []
    for block in blocks:
        if block.startswith(_BEGIN) and block.endswith(_END, len(_BEGIN)):
            lines.append(block[len(_BEGIN) : -len(_END)].split(b"\r\n"))
        elif not block or block == _EMPTY:
            lines.append([])
        else:
            return _any_header_column(blocks)
    offsets = _offsets(lines)
    flat = pa.array(list(chain.from_iterable(lines)), pa.binary())
    try:
        parts = pc.split_pattern(flat.cast(pa.string()), ": ", max_splits=1)
        names, texts = pc.list_element(parts, 0), pc.list_element(parts, 1)
    except pa.ArrowInvalid:  # Invalid UTF-8, or a line without a colon.
        return _any_header_column(blocks)
    several = max(map(len, lines)) > 1
    unusual = pc.or_(pc.match_substring(names, ":"), pc.equal(names, ""))
    if pc.any(unusual).as_py() or (several and _repeats(names, offsets)):
        return _any_header_column(blocks)
    values = pa.ListArray.from_arrays(pa.array(range(len(texts) + 1), pa.int32()), texts, type=_VALUES)
    return pa.MapArray.from_arrays(offsets, names, values, type=_HEADERS)


def _repeats(names: pa.StringArray, offsets: pa.Int32Array) -> bool:
    """Whether a message repeats a name, in upper or lower case."""
    known = pc.utf8_lower(names).dictionary_encode()
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, names))
    keys = pc.add(pc.multiply(rows, len(known.dictionary)), known.indices)
    return bool(pc.count_distinct(keys).as_py() < len(names))


def _any_header_column(blocks: Sequence[bytes]) -> pa.MapArray:
    """The slow path, block by block: repeated names, and blocks that are not as NATS clients write them."""
    entries = [_entries(block) for block in blocks]
    flat = list(chain.from_iterable(entries))
    values = pa.ListArray.from_arrays(
        _offsets([each for _, each in flat]),
        pa.array([value for _, each in flat for value in each], pa.string()),
        type=_VALUES,
    )
    names = pa.array([name for name, _ in flat], pa.string())
    return pa.MapArray.from_arrays(_offsets(entries), names, values, type=_HEADERS)


def _entries(block: bytes) -> list[tuple[str, list[str]]]:
    """Names, spelled as in their first line, each with its values; invalid UTF-8 is replaced."""
    return list(Headers.parse(block.decode("utf-8", "replace").encode()).multi_items())


def _offsets(lists: Sequence[Sequence[object]]) -> pa.Int32Array:
    return pa.array(list(accumulate(map(len, lists), initial=0)), pa.int32())
