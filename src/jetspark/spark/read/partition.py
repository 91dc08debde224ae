"""One task of a read: planned by `partitions` on the driver, read by `read` on an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from jetspark.errors import DataLoss
from jetspark.jetstream.read.loss import OF_THE_WHOLE_STREAM
from jetspark.jetstream.read.packed import Part, read_ranges
from jetspark.jetstream.read.ranges import Chunk, StreamRange
from jetspark.spark.connections import process_connection
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.buckets import BucketPartition, read_bucket, revisions
from jetspark.spark.read.data_loss import report_loss
from jetspark.spark.read.planning import plan_tasks

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "partitions_of", "read_partition"]


class RangePartition(InputPartition):
    """One or more ranges, each of another stream."""

    def __init__(self, ranges: Sequence[StreamRange], *, head_may_vanish: bool = False) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        #: Whether the user asked for whatever the stream holds: messages removed since then are not a loss.
        self.head_may_vanish = head_may_vanish


def partitions_of(
    ranges: Sequence[StreamRange], options: SourceOptions, *, head_may_vanish: bool = False
) -> list[RangePartition]:
    """Cut ranges into tasks. Spark does not pass its parallelism, so the cores of this machine count."""
    tasks = plan_tasks(
        ranges,
        parallelism=len(os.sched_getaffinity(0)),
        min_partitions=options.min_partitions,
        max_messages=options.max_messages_per_partition,
    )
    return [RangePartition(task, head_may_vanish=head_may_vanish) for task in tasks]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task; none for the plain `InputPartition` that Spark makes of an empty plan."""
    if isinstance(partition, BucketPartition):
        yield from read_bucket(options)
    if not isinstance(partition, RangePartition):
        return

    def on_loss(lost: DataLoss) -> None:
        if partition.head_may_vanish and lost.cause not in OF_THE_WHOLE_STREAM:
            logger.info("%s", lost)
        else:
            report_loss(lost, options)

    with process_connection(options.connection, retry_for=options.retry_seconds) as connection:
        arriving = read_ranges(
            connection.js.api,
            partition.ranges,
            subjects=options.subjects,
            on_loss=on_loss,
            outage=options.retry_seconds,
            headers_only=not options.include_data,
        )
        for parts in connection.iterate(arriving):
            # A batch has messages of consumers, or of direct gets: their metadata is in different places.
            for _, group in groupby(parts, key=lambda part: bool(part[1][0].reply)):
                yield _rows(options, *_joined(list(group)))


def _rows(options: SourceOptions, streams: str | list[str], chunk: Chunk) -> pa.RecordBatch:
    if options.bucket is not None:
        return revisions(chunk, options.stream[0])
    # Slow to import, and planning does not need it.
    from jetspark.arrow import record_batch, with_headers_as_columns, without_data  # noqa: PLC0415

    rows = record_batch if options.include_data else without_data
    batch = rows(chunk, streams, headers=options.include_headers)
    columns = dict(options.header_columns)
    return with_headers_as_columns(batch, chunk, columns) if columns else batch


def _joined(parts: Sequence[Part]) -> tuple[str | list[str], Chunk]:
    """The stream, or the stream of each message if there are several, and the messages."""
    if len(parts) == 1:
        return parts[0]
    streams = [stream for stream, chunk in parts for _ in chunk]
    return streams, list(chain.from_iterable(chunk for _, chunk in parts))
