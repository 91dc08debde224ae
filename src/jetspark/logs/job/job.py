"""The job: the streaming queries of a configuration, and how they process a batch.

Rows: one query. It reads and parses a batch once, writes the rows, and notes the lines that do not parse on
the way; these few are read again and become dead letters.
Counts: two queries, one for the counts and one for the dead letters, each with its own checkpoint.

Processing a batch again adds nothing: see `sinks` and `target`. So a batch may be interrupted anywhere; Spark
runs it again with the same lines, and `checkpoint` knows that it is a repetition.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from jetspark.logs.job.checkpoint import Checkpoint, lock_checkpoint
from jetspark.logs.job.config import Config, Place
from jetspark.logs.job.dead_letters import as_dead_letters
from jetspark.logs.job.errors import spark_explained
from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.parse.rows import MESSAGE, parse_lines
from jetspark.logs.job.preflight import Outputs
from jetspark.logs.job.target import TRACE_COLUMNS
from jetspark.logs.toml_lines import Where

__all__ = ["STOPPED", "BatchResult", "Job"]

#: Up to this many lines of a batch that do not parse, with up to this many bytes, are read again one by one,
#: on the driver. For more, the batch is read again.
_FEW: Final = 2000
_FEW_BYTES: Final = 16 * 1024 * 1024
#: Marks the error that ends a query between two batches.
STOPPED: Final = "jetspark pipeline: stopped between two batches"


class BatchResult(NamedTuple):
    """How many rows and dead letters a batch produced."""

    rows: int
    dead_letters: int
    #: The lines of the batch; None: as many as Spark read. It counts lines that it reads again twice.
    lines: int | None = None


class _Batch(NamedTuple):
    """A batch to process."""

    frame: DataFrame
    number: int
    #: When it was planned, if an earlier run planned it: then parts of it may be stored.
    since: datetime | None


_Worker: TypeAlias = Callable[[_Batch, Outputs], BatchResult]


class Job:
    """The queries of one configuration."""

    def __init__(self, spark: SparkSession, config: Config, where: Where, *, few: int = _FEW) -> None:
        self._spark = spark
        self._config = config
        self._where = where
        self._few = few
        self._lock = threading.Lock()
        self._results: dict[tuple[str, int], BatchResult] = {}
        self._stopping = threading.Event()
        #: The id of the checkpoint that the table belongs to; None before the first batch of all.
        self._owner: str | None = None

    # --- the frames

    def rows(self, outputs: Outputs | None = None) -> DataFrame:
        """The lines as rows, including the ones that do not parse. Raises `UsageError` for invalid SQL."""
        return self._rows_of(self._config.source.read(self._spark, HEADER_COLUMNS), outputs)

    def _rows_of(self, messages: DataFrame, outputs: Outputs | None) -> DataFrame:
        config = self._config
        rows = parse_lines(messages, config, self._where)
        if outputs is None:
            return rows
        columns = config.written_columns if config.counts is None else config.counts.by
        limited = outputs.sink.limit(rows, columns)
        # Only lines that do not parse carry their message along; all carry their trace context.
        bad = F.col("_reason").isNotNull()
        return limited.withColumns(
            {name: F.when(bad, F.col(name)) for name in MESSAGE if name not in TRACE_COLUMNS}
        )

    def written(self, outputs: Outputs | None = None) -> DataFrame:
        """The rows or counts for the sink."""
        good = self.rows(outputs).where(F.col("_reason").isNull())
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
        """Spark's analyzed plan. Raises `UsageError`, and `Error` if Spark rejects it."""
        with spark_explained():
            return str(self.written()._jdf.queryExecution().analyzed().toString())

    # --- running

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of the checkpoint. Raises `UsageError` if another job holds it."""
        return lock_checkpoint(self._config, self._where)

    def start(self, outputs: Outputs, *, once: bool = False) -> dict[str, StreamingQuery]:
        """Start the queries, by name; `once`: up to the end of the streams. Raises `UsageError`, `Error`."""
        with spark_explained():
            self._owner = self._writer.id()
            outputs.sink.prepare(self._spark, self._owner)
            if self._config.counts is None:
                return {"rows": self._start("rows", self.rows(outputs), self._do_rows, outputs, once=once)}
            counts = self._start("counts", self.written(outputs), self._do_counts, outputs, once=once)
            queries = {"counts": counts}
            if outputs.dead_letters is not None:
                bad = self.rows(outputs).where(F.col("_reason").isNotNull())
                dead = self._start("dead-letters", bad, self._do_dead_letters, outputs, once=once)
                queries["dead-letters"] = dead
            return queries

    def stop(self) -> None:
        """Start no further batch."""
        self._stopping.set()

    def has_results(self, query: str) -> bool:
        """Whether there are results that `batch` did not return yet."""
        with self._lock:
            return any(name == query for name, _ in self._results)

    def batch(self, query: str, number: int) -> BatchResult | None:
        """The result of a batch, or None if it is not done."""
        with self._lock:
            return self._results.pop((query, number), None)

    @property
    def _writer(self) -> Checkpoint:
        """The checkpoint of the query that writes to the sink."""
        return self._checkpoint("rows" if self._config.counts is None else "counts")

    def _checkpoint(self, query: str) -> Checkpoint:
        return Checkpoint(self._spark, f"{self._config.checkpoint}/{query}")

    def _start(
        self, name: str, frame: DataFrame, worker: _Worker, outputs: Outputs, *, once: bool
    ) -> StreamingQuery:
        checkpoint = self._checkpoint(name)
        last_planned = checkpoint.last_planned()

        def each(batch: DataFrame, number: int) -> None:
            if self._stopping.is_set():
                raise RuntimeError(STOPPED)
            since = checkpoint.planned_at(number) if number <= last_planned else None
            result = worker(_Batch(batch, number, since), outputs)
            with self._lock:
                self._results[name, number] = result

        writer = frame.writeStream.queryName(f"{self._config.name}-{name}").foreachBatch(each)
        writer = writer.option("checkpointLocation", f"{self._config.checkpoint}/{name}")
        trigger = "available-now" if once else self._config.trigger
        if trigger == "available-now":
            return writer.trigger(availableNow=True).start()
        if trigger == "once":
            return writer.trigger(once=True).start()
        return writer.trigger(processingTime=trigger).start()

    # --- batches

    @cached_property
    def _measures(self) -> tuple[Column, Sequence[Column]]:
        """Whether a line does not parse, and what is observed in a batch. Made once: columns take time."""
        bad = F.col("_reason").isNotNull()
        place = F.struct("stream", "sequence", F.unix_micros("received"))
        return bad, (
            F.count(F.lit(1)).alias("lines"),
            F.count_if(bad).alias("bad"),
            F.sum(F.when(bad, F.octet_length("_data"))).alias("bytes"),
            # As text: Spark 4.0 observes an array as an object of Java.
            F.to_json(_some(place, bad, self._few)).alias("places"),
        )

    def _do_rows(self, batch: _Batch, outputs: Outputs) -> BatchResult:
        bad, measures = self._measures
        observed = Observation()
        # It counts lines while they are written: there is no second pass, and no copy in a cache.
        rows = batch.frame.observe(observed, *measures)
        self._write(batch._replace(frame=rows.where(~bad)), outputs)
        found = observed.get
        if found["bad"] and outputs.dead_letters is not None:
            if found["bad"] <= self._few and found["bytes"] <= _FEW_BYTES:
                places = sorted(Place(*each.values()) for each in json.loads(found["places"]))
                messages = self._config.source.read_again(self._spark, HEADER_COLUMNS, places)
                letters = self._rows_of(messages, outputs)
            else:
                letters = batch.frame
            self._publish_dead_letters(batch._replace(frame=letters.where(bad)), outputs)
        return BatchResult(found["lines"] - found["bad"], found["bad"], found["lines"])

    def _do_counts(self, batch: _Batch, outputs: Outputs) -> BatchResult:
        with _kept(batch.frame):
            result = BatchResult(batch.frame.count(), 0)
            self._write(batch, outputs)
        return result

    def _do_dead_letters(self, batch: _Batch, outputs: Outputs) -> BatchResult:
        with _kept(batch.frame):
            result = BatchResult(0, batch.frame.count())
            if result.dead_letters:
                self._publish_dead_letters(batch, outputs)
        return result

    def _publish_dead_letters(self, batch: _Batch, outputs: Outputs) -> None:
        if (target := outputs.dead_letters) is not None:
            letters = as_dead_letters(batch.frame, self._config.name, target.max_bytes)
            target.publish(letters, since=batch.since)

    def _write(self, batch: _Batch, outputs: Outputs) -> None:
        if batch.since is not None:
            outputs.sink.forget(batch.number)
        if self._owner is None:
            self._owner = self._writer.id()
        assert self._owner is not None, "Spark writes it before the first batch"
        outputs.sink.write(batch.frame, batch.number, owner=self._owner, since=batch.since)


def _some(value: Column, which: Column, most: int) -> Column:
    """An aggregate: up to `most` values of rows that are not null, where `which` is true."""
    if "k" in inspect.signature(F.max_by).parameters:
        return F.max_by(value, F.when(which, F.col("sequence")), most)
    # Older versions of Spark collect all: about 100 bytes each, if no line parses.
    return F.slice(F.collect_list(F.when(which, value)), 1, most)


@contextlib.contextmanager
def _kept(frame: DataFrame) -> Iterator[None]:
    """Keep the rows of a frame that is used twice: reading it again may give another result."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        frame.unpersist()
