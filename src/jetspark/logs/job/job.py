"""The job: the streaming queries that a configuration means, and what they do with a batch.

Rows: one query. A batch is read and parsed once, its dead letters are published, then its rows are written.
Counts: two queries, because Spark counts what is left of the lines after those that do not parse; each has a
checkpoint of its own.

Whatever is done with a batch can be done again and adds nothing: see `tables` and `targets`. So it does not
matter where a batch is interrupted; Spark runs it again, with the same lines, and `checkpoint` knows that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from jetspark.logs.job.checkpoint import Checkpoint, alone
from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import Where
from jetspark.logs.job.errors import spark_explained
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.preflight import Targets
from jetspark.logs.job.sinks.files import Table
from jetspark.logs.job.sinks.messages import as_dead_letters, as_messages, without_too_large

__all__ = ["STOPPED", "Batch", "Job"]

#: In the message of the error that ends a query between two batches.
STOPPED: Final = "jetspark pipeline: stopped between two batches"


class Batch(NamedTuple):
    """What became of a batch."""

    rows: int
    dead_letters: int


class _Work(NamedTuple):
    """A batch to be done."""

    frame: DataFrame
    number: int
    #: When it was planned, if that was before the job began: then parts of it may be done.
    since: datetime | None


_Worker: TypeAlias = Callable[[_Work, Targets], Batch]


class Job:
    """The queries of one configuration."""

    def __init__(self, spark: SparkSession, config: Config, where: Where) -> None:
        self._spark = spark
        self._config = config
        self._where = where
        self._table: Table | None = None
        self._lock = threading.Lock()
        self._batches: dict[tuple[str, int], Batch] = {}
        self._stopping = threading.Event()

    # --- what would run

    def rows(self, targets: Targets | None = None) -> DataFrame:
        """The lines as rows, those that do not parse among them. Raises `UsageError` for wrong SQL."""
        config = self._config
        reading = self._spark.readStream.format("jetstream").options(**config.source_options())
        rows = parse_lines(reading.load(), config, self._where)
        if targets is None or targets.sink is None:
            return rows
        told = config.written_columns if config.counts is None else config.counts.by
        return without_too_large(rows, told, targets.sink.most_bytes)

    def written(self, targets: Targets | None = None) -> DataFrame:
        """What the sink gets."""
        good = self.rows(targets).where(F.col("_reason").isNull())
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
        """What Spark makes of it. Raises `UsageError`, and `Error` for what Spark refuses."""
        with spark_explained():
            return str(self.written()._jdf.queryExecution().analyzed().toString())

    # --- running

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, no other job has the checkpoint. Raises `UsageError` if one has it."""
        return alone(self._config, self._where)

    def start(self, targets: Targets, *, once: bool = False) -> dict[str, StreamingQuery]:
        """Start the queries; by name. With `once`, they end when they have read what is there.

        Raises `UsageError`, and `Error` for what Spark refuses.
        """
        with spark_explained():
            if self._config.sink.path is not None:
                self._table = Table(self._spark, self._config, self._where)
                self._table.prepare(self._writer.id())
            if self._config.counts is None:
                return {"rows": self._start("rows", self.rows(targets), self._do_rows, targets, once=once)}
            counts = self._start("counts", self.written(targets), self._do_counts, targets, once=once)
            queries = {"counts": counts}
            if targets.dead_letters is not None:
                bad = self.rows(targets).where(F.col("_reason").isNotNull())
                dead = self._start("dead-letters", bad, self._do_dead_letters, targets, once=once)
                queries["dead-letters"] = dead
            return queries

    def stop(self) -> None:
        """Begin no further batch."""
        self._stopping.set()

    def batch(self, query: str, number: int) -> Batch | None:
        """What became of a batch, if it is done."""
        with self._lock:
            return self._batches.pop((query, number), None)

    @property
    def _writer(self) -> Checkpoint:
        """The notes of the query that writes to the sink."""
        return self._checkpoint("rows" if self._config.counts is None else "counts")

    def _checkpoint(self, query: str) -> Checkpoint:
        return Checkpoint(self._spark, f"{self._config.checkpoint}/{query}")

    def _start(
        self, name: str, frame: DataFrame, worker: _Worker, targets: Targets, *, once: bool
    ) -> StreamingQuery:
        checkpoint = self._checkpoint(name)
        last_planned = checkpoint.last_planned()

        def each(batch: DataFrame, number: int) -> None:
            if self._stopping.is_set():
                raise RuntimeError(STOPPED)
            since = checkpoint.planned_at(number) if number <= last_planned else None
            # Kept, because it is used twice: what is read again might be another thing by then.
            batch.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                done = worker(_Work(batch, number, since), targets)
            finally:
                batch.unpersist()
            with self._lock:
                self._batches[name, number] = done

        writer = frame.writeStream.queryName(f"{self._config.name}-{name}").foreachBatch(each)
        writer = writer.option("checkpointLocation", f"{self._config.checkpoint}/{name}")
        trigger = "available-now" if once else self._config.trigger
        if trigger == "available-now":
            return writer.trigger(availableNow=True).start()
        if trigger == "once":
            return writer.trigger(once=True).start()
        return writer.trigger(processingTime=trigger).start()

    # --- what is done with a batch

    def _do_rows(self, work: _Work, targets: Targets) -> Batch:
        is_bad = F.col("_reason").isNotNull()
        found = {
            row["bad"]: row["count"] for row in work.frame.groupBy(is_bad.alias("bad")).count().collect()
        }
        done = Batch(found.get(False, 0), found.get(True, 0))
        if done.dead_letters:
            self._bury(work._replace(frame=work.frame.where(is_bad)), targets)
        self._write(work._replace(frame=work.frame.where(~is_bad)), targets, done.rows)
        return done

    def _do_counts(self, work: _Work, targets: Targets) -> Batch:
        done = Batch(work.frame.count(), 0)
        self._write(work, targets, done.rows)
        return done

    def _do_dead_letters(self, work: _Work, targets: Targets) -> Batch:
        done = Batch(0, work.frame.count())
        if done.dead_letters:
            self._bury(work, targets)
        return done

    def _bury(self, work: _Work, targets: Targets) -> None:
        if targets.dead_letters is not None:
            letters = as_dead_letters(work.frame, self._config.name, targets.dead_letters.most_bytes)
            targets.dead_letters.publish(letters, since=work.since)

    def _write(self, work: _Work, targets: Targets, rows: int) -> None:
        config = self._config
        if self._table is not None and work.since is not None:
            self._table.forget(work.number)
        if not rows:
            return
        if self._table is not None:
            owner = self._writer.id()
            assert owner is not None, "Spark notes it before the first batch"
            self._table.write(work.frame, work.number, owner)
        elif targets.sink is not None:
            keys = None if config.counts is None else config.written_columns[:-1]
            messages = as_messages(work.frame, config.name, config.written_columns, keys)
            targets.sink.publish(messages, since=work.since)
        else:
            work.frame.select(*config.written_columns).show(config.sink.rows, truncate=False)
