"""The reader of a query that is a worker of a consumer. One instance lives in the runner process on the
driver; other instances read on the executors, and get only a partition.

Spark asks for the end of a batch only when it has committed the previous one, so `start` is acknowledged
then. This requires Spark 4.2, which passes `start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from jetspark.spark.connections import PLANNING_TIMEOUT, Lease, ProcessConnection, process_connection
from jetspark.spark.options import SourceOptions
from jetspark.spark.queue.offsets import QueueOffset
from jetspark.spark.queue.partition import partitions_of_batch, read_batch
from jetspark.spark.queue.worker import QueueWorker

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JetStreamQueueReader"]


class JetStreamQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads the batches of a worker."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # Resolved once, so that it is the same in every call for the first batch.
        self._initial: QueueOffset | None = None

    # --- on the driver

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._connection.run(self._worker.begin())
        return self._initial.to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The batch after `start`, which is committed; `start` if there are no messages."""
        return self._connection.run(self._worker.take(self._offset(start))).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """No limit: the worker limits its batches itself."""
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Unknown: the server decides which of the waiting messages this query gets."""
        return None

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop after as many messages as are waiting now."""
        self._worker.stop_after_backlog()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        batch = self._offset(end)
        self._connection.run(self._worker.hold(batch))
        return partitions_of_batch(batch, self._worker.subjects, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge a processed batch. Usually `latestOffset` has done so already."""
        self._connection.run(self._worker.acknowledge(self._offset(end)))

    # --- on the executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_batch(self._options, partition)

    @cached_property
    def _lease(self) -> Lease:
        # For as long as the query runs: this process ends with it.
        return process_connection(self._options.connection, retry_for=PLANNING_TIMEOUT)

    @property
    def _connection(self) -> ProcessConnection:
        return self._lease.connection

    @cached_property
    def _worker(self) -> QueueWorker:
        return QueueWorker(self._connection.js, self._options)

    def _offset(self, json: dict[str, Any]) -> QueueOffset:
        assert self._options.consumer is not None
        return QueueOffset.from_json(json, self._options.consumer)
