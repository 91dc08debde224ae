"""`spark.readStream`: streams as they grow. One instance lives in the runner process on the driver and plans
batches. Other instances read ranges on the executors, and get only a partition.

Before Spark 4.2, `latestOffset` gets no start offset. The reader then remembers the end of the last batch;
the first batch after a start, when there is nothing to remember, takes everything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jetspark.spark.connections import PLANNING_TIMEOUT, Lease, ProcessConnection, process_connection
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.offsets import Offset, ranges_between
from jetspark.spark.read.partition import partitions_of, read_partition
from jetspark.spark.read.planning import Limits
from jetspark.spark.read.progress_consumer import ProgressConsumer
from jetspark.spark.read.tracker import Tracker

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark before 4.2, which uses none of them.

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A placeholder: `availableNow` is one batch there."""


if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JetStreamStreamReader"]


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads the batches of a streaming query."""

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        # Resolved once: "latest" must not move between two calls for the same batch.
        self._initial: Offset | None = None
        # The end of the last planned batch, for versions of Spark that do not pass it.
        self._reached: Offset | None = None
        # When the last batch was planned, by `clock`.
        self._last_batch = -math.inf

    # --- on the driver

    def initialOffset(self) -> dict[str, Any]:
        return self._begin().to_json()

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the batch that starts at `start`, within the limit; `start` if there is nothing new."""
        options = self._options
        limits = Limits(options.max_messages_per_trigger, options.max_bytes_per_trigger)
        if start is not None:
            before = Offset.from_json(start)
            if isinstance(limit, ReadAllAvailable):
                limits = Limits()
                self._last_batch = -math.inf
        elif self._reached is not None:
            before = self._reached
        else:
            before, limits = self._begin(), Limits()
        after = self._connection.run(self._tracker.advance(before, limits))
        if self._too_few(before, after):
            after = before
        self._reached = after
        return after.to_json()

    def _too_few(self, before: Offset, after: Offset) -> bool:
        """Whether the batch is postponed until it has more messages. The first batch never is."""
        least, now = self._options.min_messages_per_trigger, self._clock()
        if least is None or self._tracker.stopping:
            return False
        waited = now - self._last_batch
        if sum(map(len, ranges_between(before, after))) < least and waited < self._options.max_trigger_delay:
            return True
        if after != before:
            self._last_batch = now
        return False

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options. Spark passes it to `latestOffset`, unless the trigger reads all."""
        options = self._options
        if options.min_messages_per_trigger is not None:
            return ReadMinRows(options.min_messages_per_trigger)
        if options.max_messages_per_trigger is not None:
            return ReadMaxRows(options.max_messages_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the streams, for the progress report of the query."""
        return self._connection.run(self._tracker.latest(self._reached or Offset({}))).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave messages that are stored from now on to the next run."""
        self._connection.run(self._tracker.stop_here())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._reached = Offset.from_json(end)
        ranges = ranges_between(Offset.from_json(start), self._reached)
        return partitions_of(self._connection.run(self._tracker.clipped(ranges)), self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before `end` is processed and will not be read again."""
        if self._progress is not None:
            self._connection.run(self._progress.move(self._connection.js, Offset.from_json(end)))

    # --- on the executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    @cached_property
    def _lease(self) -> Lease:
        # For as long as the query runs: this process ends with it.
        return process_connection(self._options.connection, retry_for=PLANNING_TIMEOUT)

    @property
    def _connection(self) -> ProcessConnection:
        return self._lease.connection

    @cached_property
    def _tracker(self) -> Tracker:
        if self._progress is not None:
            self._connection.run(self._progress.check(self._connection.js, self._options.stream))
        return Tracker(self._connection.js, self._options)

    @cached_property
    def _progress(self) -> ProgressConsumer | None:
        options = self._options
        if options.progress_consumer is None:
            return None
        return ProgressConsumer(options.progress_consumer, options.subjects)

    def _begin(self) -> Offset:
        if self._initial is None:
            self._initial = self._connection.run(self._tracker.begin())
        return self._initial
