"""One task of a read: planned by `partitions` on the driver, read by `read` on an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from jetspark.errors import DataLoss
from jetspark.jetstream.read.loss import OF_THE_WHOLE_STREAM
from jetspark.jetstream.read.ranges import StreamRange, read_range
from jetspark.jetstream.retry import OUTAGE
from jetspark.spark.connections import process_connection
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.data_loss import report_loss
from jetspark.spark.read.planning import split_ranges

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "partitions_of", "read_partition"]


class RangePartition(InputPartition):
    """One range of one stream."""

    def __init__(self, wanted: StreamRange, *, head_may_vanish: bool = False) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        #: Whether the user asked for whatever the stream holds: messages removed since then are not a loss.
        self.head_may_vanish = head_may_vanish


def partitions_of(
    ranges: Sequence[StreamRange], options: SourceOptions, *, head_may_vanish: bool = False
) -> list[RangePartition]:
    """Split ranges into tasks. Spark does not tell its parallelism here, so this machine's cores decide."""
    pieces = split_ranges(
        ranges,
        parallelism=len(os.sched_getaffinity(0)),
        min_partitions=options.min_partitions,
        max_messages=options.max_messages_per_partition,
    )
    return [RangePartition(piece, head_may_vanish=head_may_vanish) for piece in pieces]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task; none for the plain `InputPartition` that Spark makes of an empty plan."""
    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted

    def on_loss(lost: DataLoss) -> None:
        if partition.head_may_vanish and lost.cause not in OF_THE_WHOLE_STREAM:
            logger.info("%s", lost)
        else:
            report_loss(lost, options)

    connection = process_connection(options.connection, retry_for=OUTAGE)
    from jetspark.arrow import record_batch  # noqa: PLC0415 - slow to import, and planning does not need it

    chunks = read_range(connection.js.api, wanted, subjects=options.subjects, on_loss=on_loss)
    for chunk in connection.iterate(chunks):
        yield record_batch(chunk, wanted.stream, headers=options.include_headers)
