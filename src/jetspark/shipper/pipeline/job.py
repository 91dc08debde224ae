"""The job: the streaming queries that a configuration means, and what they do with a batch.

Rows: one query. A batch is read and parsed once, its dead letters are published, then its rows are written.
Counts: two queries, because Spark counts what is left of the lines after those that do not parse; each has a
checkpoint of its own.

Whatever is done with a batch can be done again and adds nothing: see `tables` and `targets`. So it does not
matter where a batch is interrupted; Spark runs it again, with the same lines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from jetspark.shipper.pipeline.config import Config
from jetspark.shipper.pipeline.config_file import Where
from jetspark.shipper.pipeline.parsing import parse_lines
from jetspark.shipper.pipeline.preflight import Targets
from jetspark.shipper.pipeline.tables import clean_up, write_batch
from jetspark.shipper.pipeline.targets import as_dead_letters, as_messages, planned_at

__all__ = ["STOPPED", "Batch", "Job"]

#: In the message of the error that ends a query between two batches.
STOPPED: Final = "jetspark pipeline: stopped between two batches"


class Batch(NamedTuple):
    """What became of a batch."""

    query: str
    number: int
    rows: int
    dead_letters: int
    seconds: float


class Job:
    """The queries of one configuration."""

    def __init__(self, spark: SparkSession, config: Config, where: Where) -> None:
        self._spark = spark
        self._config = config
        self._where = where
        self._began = datetime.now(UTC)
        self._lock = threading.Lock()
        self._batches: dict[tuple[str, int], Batch] = {}
        self._stopping = threading.Event()

    # --- what would run

    def rows(self) -> DataFrame:
        """The lines as rows, those that do not parse among them. Raises `UsageError` for wrong SQL."""
        reading = self._spark.readStream.format("jetstream").options(**self._config.source_options())
        return parse_lines(reading.load(), self._config, self._where)

    def written(self) -> DataFrame:
        """What the sink gets."""
        good = self.rows().where(F.col("_reason").isNull())
        counts = self._config.counts
        if counts is None:
            return good.select(*self._config.row_columns)
        windows = good.withWatermark("time", counts.watermark).groupBy(
            F.window("time", counts.window).alias("window"), *counts.by
        )
        return windows.count().select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            *counts.by,
            "count",
        )

    def plan(self) -> str:
        """What Spark makes of it."""
        execution = self.written()._jdf.queryExecution()
        return str(execution.analyzed().toString())

    # --- running

    def start(self, targets: Targets, *, once: bool = False) -> dict[str, StreamingQuery]:
        """Start the queries; by name. With `once`, they end when they have read what is there."""
        config = self._config
        if config.sink.path is not None:
            clean_up(self._spark, config.sink.path)
        if config.counts is None:
            return {"rows": self._start("rows", self.rows(), self._row_batch(targets), once=once)}
        queries = {"counts": self._start("counts", self.written(), self._count_batch(targets), once=once)}
        if targets.dead_letters is not None:
            bad = self.rows().where(F.col("_reason").isNotNull())
            dead = self._start("dead-letters", bad, self._dead_batch(targets), once=once)
            queries["dead-letters"] = dead
        return queries

    def stop(self) -> None:
        """Begin no further batch."""
        self._stopping.set()

    def batch(self, query: str, number: int) -> Batch | None:
        """What became of a batch, if it is done."""
        with self._lock:
            return self._batches.pop((query, number), None)

    def _start(
        self, name: str, frame: DataFrame, work: Callable[[DataFrame, int], tuple[int, int]], *, once: bool
    ) -> StreamingQuery:
        checkpoint = f"{self._config.checkpoint}/{name}"

        def each(batch: DataFrame, number: int) -> None:
            if self._stopping.is_set():
                raise RuntimeError(STOPPED)
            began = time.monotonic()
            rows, letters = work(batch, number)
            done = Batch(name, number, rows, letters, time.monotonic() - began)
            with self._lock:
                self._batches[name, number] = done

        writer = frame.writeStream.queryName(f"{self._config.name}-{name}").foreachBatch(each)
        writer = writer.option("checkpointLocation", checkpoint)
        trigger = "available-now" if once else self._config.trigger
        if trigger == "available-now":
            return writer.trigger(availableNow=True).start()
        if trigger == "once":
            return writer.trigger(once=True).start()
        return writer.trigger(processingTime=trigger).start()

    # --- what is done with a batch; rows and dead letters are counted

    def _row_batch(self, targets: Targets) -> Callable[[DataFrame, int], tuple[int, int]]:
        def work(frame: DataFrame, number: int) -> tuple[int, int]:
            # Kept, because it is used twice: what is read again might be another thing by then.
            frame.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                is_bad = F.col("_reason").isNotNull()
                found = {
                    row["bad"]: row["count"] for row in frame.groupBy(is_bad.alias("bad")).count().collect()
                }
                good, bad = found.get(False, 0), found.get(True, 0)
                since = self._planned_before(frame, "rows", number)
                if bad:
                    self._bury(frame.where(is_bad), targets, since)
                if good:
                    self._write(frame.where(~is_bad), targets, number, since)
                return good, bad
            finally:
                frame.unpersist()

        return work

    def _count_batch(self, targets: Targets) -> Callable[[DataFrame, int], tuple[int, int]]:
        def work(frame: DataFrame, number: int) -> tuple[int, int]:
            frame.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                rows = frame.count()
                if rows:
                    self._write(frame, targets, number, self._planned_before(frame, "counts", number))
                return rows, 0
            finally:
                frame.unpersist()

        return work

    def _dead_batch(self, targets: Targets) -> Callable[[DataFrame, int], tuple[int, int]]:
        def work(frame: DataFrame, number: int) -> tuple[int, int]:
            frame.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                bad = frame.count()
                if bad:
                    self._bury(frame, targets, self._planned_before(frame, "dead-letters", number))
                return 0, bad
            finally:
                frame.unpersist()

        return work

    def _planned_before(self, frame: DataFrame, query: str, number: int) -> datetime | None:
        """When a batch was planned, if that was before this job began: then parts of it may be done."""
        planned = planned_at(frame, f"{self._config.checkpoint}/{query}", number)
        return planned if planned < self._began else None

    def _bury(self, bad: DataFrame, targets: Targets, since: datetime | None) -> None:
        if targets.dead_letters is not None:
            letters = as_dead_letters(bad, self._config.name, targets.most_bytes)
            targets.dead_letters.publish(letters, since=since)

    def _write(self, good: DataFrame, targets: Targets, number: int, since: datetime | None) -> None:
        config = self._config
        if config.sink.format == "console":
            good.select(*config.written_columns).show(config.sink.rows, truncate=False)
        elif config.sink.format == "jetstream":
            assert targets.sink is not None
            keys = None if config.counts is None else config.written_columns[:-1]
            messages = as_messages(good, config.name, config.written_columns, keys)
            targets.sink.publish(messages, since=since)
        else:
            write_batch(good, config, number)
