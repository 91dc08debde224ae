"""One task of a query that is a worker: planned by `partitions` on the driver, read by `read` on an executor.

A task reads spans of a stream, which may include messages of other workers, and keeps its own.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from jetspark.jetstream.read.ranges import StreamRange
from jetspark.spark.options import SourceOptions
from jetspark.spark.queue.offsets import QueueOffset
from jetspark.spark.queue.sequences import spans
from jetspark.spark.read.partition import RangePartition, partitions_of, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QueuePartition", "partitions_of_batch", "read_batch"]


class QueuePartition(RangePartition):
    """Ranges, and the messages in them that belong to the batch."""

    def __init__(
        self, ranges: Sequence[StreamRange], delivered: dict[str, dict[int, int]], subjects: tuple[str, ...]
    ) -> None:
        super().__init__(ranges)
        #: How often each message was delivered, by stream and sequence.
        self.delivered = delivered
        self.subjects = subjects


def partitions_of_batch(
    batch: QueueOffset, subjects: tuple[str, ...], options: SourceOptions
) -> list[QueuePartition]:
    """Cut a batch into tasks. `subjects` are the filters of its consumers."""
    ordered = {name: list(each.messages) for name, each in batch.streams.items()}
    ranges = [
        StreamRange(stream=name, created=batch.streams[name].created, first_seq=first, next_seq=following)
        for name, sequences in sorted(ordered.items())
        for first, following in spans(sequences)
    ]
    tasks = []
    for part in partitions_of(ranges, options):
        delivered: dict[str, dict[int, int]] = {}
        for each in part.ranges:
            sequences, counts = ordered[each.stream], batch.streams[each.stream].messages
            wanted = sequences[bisect_left(sequences, each.first_seq) : bisect_left(sequences, each.next_seq)]
            delivered.setdefault(each.stream, {}).update((seq, counts[seq]) for seq in wanted)
        tasks.append(QueuePartition(part.ranges, delivered, subjects))
    return tasks


def read_batch(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with the column `num_delivered`."""
    if not isinstance(partition, QueuePartition):
        return
    reading = dataclasses.replace(options, subjects=partition.subjects)
    for batch in read_partition(reading, partition):
        yield _with_deliveries(batch, partition.delivered, batch.num_columns - len(options.header_columns))


def _with_deliveries(
    batch: pa.RecordBatch, delivered: dict[str, dict[int, int]], place: int
) -> pa.RecordBatch:
    """The delivered rows, with their delivery counts as a column at `place`."""
    import pyarrow as pa  # noqa: PLC0415

    sequences = batch.column("sequence").to_pylist()
    if len(delivered) == 1:
        [counts] = delivered.values()
        numbers = list(map(counts.get, sequences))
    else:
        streams = batch.column("stream").to_pylist()
        numbers = [delivered[name].get(each) for name, each in zip(streams, sequences, strict=True)]
    column = pa.array(numbers, pa.int32())
    columns = [*batch.columns[:place], column, *batch.columns[place:]]
    fields = list(batch.schema)
    fields.insert(place, pa.field("num_delivered", pa.int32()))
    whole = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    return whole.filter(column.is_valid()) if column.null_count else whole
