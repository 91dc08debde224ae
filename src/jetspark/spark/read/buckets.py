"""Buckets as tables: the revisions of keys, the current keys, the objects of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from jetspark.jetstream.context import JetStream
from jetspark.jetstream.kv.entry import KeyValueEntry, operation_of
from jetspark.jetstream.objects.info import ObjectInfo
from jetspark.jetstream.read.ranges import Chunk
from jetspark.jetstream.retry import retry
from jetspark.spark.connections import process_connection
from jetspark.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BucketPartition", "read_bucket", "revisions"]

#: Rows of a batch, and bytes of values after which it is full.
_ROWS: Final = 10_000
_BYTES: Final = 4 * 1024 * 1024


class BucketPartition(InputPartition):
    """All current keys of a bucket, or all objects of a store.

    They are one task: only a reader of all revisions knows which one of a key is the newest.
    """

    def __init__(self) -> None:
        super().__init__(None)


def revisions(chunk: Chunk, stream: str) -> pa.RecordBatch:
    """Messages of a key-value bucket as rows: key, value, revision, operation, created."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and planning does not need it

    from jetspark.arrow import record_batch  # noqa: PLC0415

    columns = record_batch(chunk, stream, headers=False)
    # `$KV.<bucket>.<key>`: a mirror has the bucket of its origin there.
    keys = [frame.subject.decode("utf-8", "replace").split(".", 2)[-1] for frame in chunk]
    operations = [operation_of(frame.header)[0].value for frame in chunk]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.string()),
            columns.column("data"),
            columns.column("sequence"),
            pa.array(operations, pa.string()),
            columns.column("timestamp"),
        ],
        names=["key", "value", "revision", "operation", "created"],
    )


def read_bucket(options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a `BucketPartition`."""
    with process_connection(options.connection, retry_for=options.retry_seconds) as connection:
        if options.object_store is not None:
            yield from map(_object_rows, connection.iterate(_objects(connection.js, options.object_store)))
        else:
            yield from map(_key_rows, connection.iterate(_current(connection.js, options)))


async def _current(js: JetStream, options: SourceOptions) -> AsyncIterator[list[KeyValueEntry]]:
    bucket = str(options.bucket)
    kv = await retry(lambda: js.key_value(bucket))
    entries: list[KeyValueEntry] = []
    size = 0
    async with kv.watch(options.keys or ">", ignore_deletes=True) as changes:
        async for entry in changes.initial():
            entries.append(entry)
            size += len(entry.value)
            if len(entries) >= _ROWS or size >= _BYTES:
                yield entries
                entries, size = [], 0
    if entries:
        yield entries


def _key_rows(entries: Sequence[KeyValueEntry]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    return pa.RecordBatch.from_arrays(
        [
            pa.array([entry.key.encode(errors="replace").decode() for entry in entries], pa.string()),
            pa.array([entry.value for entry in entries], pa.binary()),
            pa.array([entry.revision for entry in entries], pa.int64()),
            pa.array([entry.operation.value for entry in entries], pa.string()),
            pa.array([entry.created for entry in entries], pa.timestamp("us", tz="UTC")),
        ],
        names=["key", "value", "revision", "operation", "created"],
    )


async def _objects(js: JetStream, bucket: str) -> AsyncIterator[list[ObjectInfo]]:
    store = await retry(lambda: js.object_store(bucket))
    infos: list[ObjectInfo] = []
    async with store.watch(ignore_deletes=True) as changes:
        async for info in changes.initial():
            infos.append(info)
            if len(infos) >= _ROWS:
                yield infos
                infos = []
    if infos:
        yield infos


def _object_rows(infos: Sequence[ObjectInfo]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    text = pa.string()
    return pa.RecordBatch.from_arrays(
        [
            pa.array([info.name for info in infos], text),
            pa.array([info.size for info in infos], pa.int64()),
            pa.array([info.chunks for info in infos], pa.int64()),
            pa.array([info.digest for info in infos], text),
            pa.array([info.modified for info in infos], pa.timestamp("us", tz="UTC")),
            pa.array([info.description for info in infos], text),
            pa.array([list(info.metadata.items()) for info in infos], pa.map_(text, text)),
            pa.array([info.link.bucket if info.link else None for info in infos], text),
            pa.array([info.link.name if info.link else None for info in infos], text),
        ],
        names=[
            *("name", "size", "chunks", "digest", "modified", "description", "metadata"),
            *("link_bucket", "link_name"),
        ],
    )
