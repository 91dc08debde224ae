"""Runs the queries of a job to their end: reports progress, stops on request, and explains failures."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from jetspark.logs.job.errors import SPARK_ERRORS, explained, spark_explained
from jetspark.logs.job.job import STOPPED, Job
from jetspark.logs.job.preflight import Outputs
from jetspark.spark.query_lag import end_offsets, known_lag

__all__ = ["BatchProgress", "Runner"]

#: Seconds between two checks.
_LOOK: Final = 0.2
_NEXT_RUN: Final = "Nothing is lost: the next run repeats the batch"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchProgress:
    """A finished batch, and the totals of this run."""

    query: str
    batch: int
    #: Lines read.
    lines: int
    #: Rows written: lines, or counts.
    rows: int
    dead_letters: int
    seconds: float
    lines_per_second: float
    #: Messages left to read in the streams; None if Spark does not report it, as before 4.2.
    lag: int | None
    #: Stream sequences processed since the checkpoint was created.
    reached: int
    total_lines: int
    total_rows: int
    total_dead_letters: int


class Runner:
    """One run of a job."""

    def __init__(self, job: Job, report: Callable[[BatchProgress], None]) -> None:
        self._job = job
        self._report = report
        self._reported: dict[str, int] = {}
        self._totals = {"lines": 0, "rows": 0, "dead_letters": 0}
        #: Set it to stop after the current batch.
        self.stop: Final = threading.Event()
        #: Set it to stop at once; the next run repeats the batch.
        self.stop_now: Final = threading.Event()

    @property
    def totals(self) -> dict[str, int]:
        """`lines`, `rows` and `dead_letters` so far."""
        return dict(self._totals)

    def run(self, outputs: Outputs, *, once: bool = False) -> None:
        """Run until the queries end or are stopped. Raises `Error` if a query or Spark fails."""
        with self._job.locked():
            started = self._job.start(outputs, once=once)
            with spark_explained(_NEXT_RUN):
                self._watch(started)

    def _watch(self, started: dict[str, StreamingQuery]) -> None:
        queries = list(started.values())
        try:
            while any(query.isActive for query in queries):
                self._look(started)
                if self.stop_now.is_set():
                    break
                if self.stop.is_set():
                    self._job.stop()
                    # A query that waits for lines or for its trigger is between two batches.
                    for query in queries:
                        if query.isActive and not query.status["isTriggerActive"]:
                            query.stop()
                if any(_failed(query) for query in queries):
                    break
                self.stop_now.wait(_LOOK)
        finally:
            with contextlib.suppress(*SPARK_ERRORS):  # Without Spark, the queries have ended.
                for query in queries:
                    query.stop()
                self._look(started)
        for query in queries:
            if (failed := _failed(query)) is not None:
                raise explained(failed, _NEXT_RUN)

    def _look(self, queries: dict[str, StreamingQuery]) -> None:
        for kind, query in queries.items():
            # Spark's progress is long, and there is none to report without a result.
            for progress in query.recentProgress if self._job.has_results(kind) else ():
                if progress["batchId"] > self._reported.get(kind, -1):
                    self._report_batch(kind, progress)

    def _report_batch(self, kind: str, progress: Any) -> None:
        number, lines = int(progress["batchId"]), int(progress["numInputRows"])
        done = self._job.batch(kind, number)
        if done is None and lines == 0:
            return  # Spark also reports idle triggers.
        self._reported[kind] = number
        rows, letters = (done.rows, done.dead_letters) if done is not None else (0, 0)
        if done is not None and done.lines is not None:
            lines = done.lines
        seconds = float(progress["durationMs"].get("triggerExecution", 0)) / 1000
        if kind != "dead-letters":  # It reads the same lines as the other query.
            self._totals["lines"] += lines
        self._totals["rows"] += rows
        self._totals["dead_letters"] += letters
        self._report(
            BatchProgress(
                query=kind,
                batch=number,
                lines=lines,
                rows=rows,
                dead_letters=letters,
                seconds=seconds,
                lines_per_second=round(lines / seconds, 1) if seconds else 0.0,
                lag=known_lag(progress),
                reached=_reached(progress),
                total_lines=self._totals["lines"],
                total_rows=self._totals["rows"],
                total_dead_letters=self._totals["dead_letters"],
            )
        )


def _reached(progress: Any) -> int:
    streams = [stream for offset in end_offsets(progress) for stream in offset["streams"].values()]
    return sum(stream["next_seq"] - stream["began"] for stream in streams)


def _failed(query: StreamingQuery) -> BaseException | None:
    error = None if query.isActive else query.exception()
    return None if error is None or STOPPED in str(error) else error
