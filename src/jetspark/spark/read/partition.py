"""A task's share of a read: what `partitions` plans on the driver and `read` gets on an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from jetspark.errors import DataLoss
from jetspark.jetstream.read.loss import OF_THE_WHOLE_STREAM
from jetspark.jetstream.read.ranges import read_range
from jetspark.jetstream.read.stream_range import StreamRange
from jetspark.jetstream.retry import OUTAGE
from jetspark.spark.connections import process_connection
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.planning import cut

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "loss", "partitions_of", "read_partition"]


class RangePartition(InputPartition):
    """One range of one stream."""

    def __init__(self, wanted: StreamRange, *, whatever_is_left: bool = False) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        #: Whether the user asked for what the stream holds, so that what leaves it meanwhile is no loss.
        self.whatever_is_left = whatever_is_left


def partitions_of(
    ranges: Sequence[StreamRange], options: SourceOptions, *, whatever_is_left: bool = False
) -> list[RangePartition]:
    """The tasks for some ranges. How many run at once Spark does not tell here: it goes by this machine."""
    pieces = cut(
        ranges,
        parallelism=len(os.sched_getaffinity(0)),
        min_partitions=options.min_partitions,
        max_messages=options.max_messages_per_partition,
    )
    return [RangePartition(piece, whatever_is_left=whatever_is_left) for piece in pieces]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Spark turns a plan without partitions into one of a plain InputPartition."""
    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted

    def on_loss(lost: DataLoss) -> None:
        if partition.whatever_is_left and lost.cause not in OF_THE_WHOLE_STREAM:
            logger.info("%s", lost)
        else:
            loss(lost, options)

    connection = process_connection(options.connection, retry_for=OUTAGE)
    from jetspark.arrow import record_batch  # noqa: PLC0415 - slow to load, and not needed to plan

    chunks = read_range(connection.js, wanted, subjects=options.subjects, on_loss=on_loss)
    for chunk in connection.iterate(chunks):
        yield record_batch(chunk, wanted.stream, headers=options.include_headers)


def loss(lost: DataLoss, options: SourceOptions) -> None:
    """What is lost fails the query, or is said and passed over, as `failOnDataLoss` wants it."""
    if options.fail_on_data_loss:
        lost.hint = (
            "Set failOnDataLoss to false to go on with what is left, or give the stream limits that keep "
            "messages for longer than a query may be behind"
        )
        raise lost
    logger.warning("%s; going on, because failOnDataLoss is false", lost)
