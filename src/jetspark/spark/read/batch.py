"""`spark.read`: streams as a table. The bounds are resolved once, when Spark plans the query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from jetspark.errors import DataLoss, StreamNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.loss import cause_of_lost_head, head_may_move
from jetspark.jetstream.read.ranges import StreamRange
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.buckets import BucketPartition
from jetspark.spark.read.data_loss import report_loss
from jetspark.spark.read.partition import partitions_of, read_partition
from jetspark.spark.read.streams import ending_sequences, find_streams, first_seq_of, starting_sequences

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JetStreamReader"]


class JetStreamReader(DataSourceReader):
    """Plans and reads a table scan."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        if options.reads_current:
            return [BucketPartition()]
        with process_connection(options.connection, retry_for=PLANNING_TIMEOUT) as connection:
            ranges = connection.run(self._ranges(connection.js))
        # A sequence asks for exact messages; "earliest" and a time ask for whatever the stream holds.
        exact = isinstance(options.starting_position, tuple)
        return partitions_of(ranges, options, head_may_vanish=not exact)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    async def _ranges(self, js: JetStream) -> list[StreamRange]:
        options = self._options
        streams = await find_streams(js, options.stream)
        if not streams:
            raise StreamNotFound(
                f"no stream matches {', '.join(options.stream)}",
                hint="Check option stream, `domain` and the account",
            )
        first = await starting_sequences(js, options, streams, "earliest")
        following = await ending_sequences(js, options, streams)
        return [self._range(info, first[name], following[name]) for name, info in streams.items()]

    def _range(self, info: StreamInfo, first_seq: int, next_seq: int) -> StreamRange:
        name, state = info.config.name, info.state
        if first_seq > next_seq and self._options.starting_timestamp is None:
            raise UsageError(
                f"stream {name}: startingPosition {first_seq} is after endingPosition {next_seq}"
            )
        head = min(first_seq_of(state), next_seq)
        if first_seq < head:
            if not head_may_move(info.config, state):
                cause = cause_of_lost_head(info.config, state)
                lost = DataLoss(stream=name, first_seq=first_seq, next_seq=head, cause=cause)
                report_loss(lost, self._options)
            first_seq = head
        return StreamRange(stream=name, created=info.created, first_seq=first_seq, next_seq=next_seq)
