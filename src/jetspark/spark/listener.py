"""A `StreamingQueryListener` that reports queries on `format("jetstream")`: lag, rows and batches.

Spark calls it on the driver, for all queries of a session. Queries without a source of jetspark are ignored.
Spark waits for its listeners, so all requests to a server run in a thread.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from jetspark.errors import Error
from jetspark.jetstream.context import JetStream
from jetspark.metrics import MetricSample, job_samples
from jetspark.reports.jobs import JobBatch, JobStatus, job_name
from jetspark.spark.connections import PLANNING_TIMEOUT, Lease, process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.query_lag import end_offsets, known_lag
from jetspark.spark.reports import JobReporter

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["ProgressListener"]

logger = logging.getLogger("jetspark")

#: Ended queries that metrics still show.
_ENDED: Final = 100
#: Seconds between attempts to connect.
_RETRY: Final = 60.0


class _Query:
    """The state of a query."""

    def __init__(self, run: str, status: JobStatus) -> None:
        self.run = run
        self.status = status
        self.reporter: JobReporter | None = None
        self.ended = False


class ProgressListener(StreamingQueryListener):
    """Reports queries to the control stream, where `jetspark console` shows them, and to metrics.

    ```python
    listener = ProgressListener(servers="nats://127.0.0.1:4222")
    spark.streams.addListener(listener)
    jetspark.metrics.register(listener)
    ```

    The options are those of `format("jetstream")` to connect with. `reports=False` reports nothing to the
    control stream. Queries continue if the server cannot be reached or refuses reports. Raises `UsageError`
    for invalid options.
    """

    def __init__(self, *, reports: bool = True, **options: str) -> None:
        super().__init__()
        self._options = parse_options(options).connection if reports else None
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}
        self._thread = ThreadPoolExecutor(1, "jetspark-reports")
        self._tried = -_RETRY

    def samples(self) -> Iterator[MetricSample]:
        """The metrics of the queries: see `jetspark.metrics.register`."""
        with self._lock:
            queries = list(self._queries.values())
        for query in queries:
            yield from job_samples(query.status.report())

    # --- for Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the streams of a query are in its progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: Mapping[str, Any] = event.progress
        offsets = end_offsets(progress)
        if not offsets:
            return
        query = self._query(progress, offsets)
        behind = known_lag(progress)
        if behind is not None:
            query.status.measure(behind)
        if rows := int(progress["numInputRows"] or 0):
            milliseconds = (progress["durationMs"] or {}).get("triggerExecution", 0)
            query.status.add(
                JobBatch(
                    id=int(progress["batchId"]),
                    at=round(time.time(), 3),
                    rows=rows,
                    seconds=milliseconds / 1000,
                    lag=query.status.report().lag,
                )
            )
        if self._options is not None and (query.reporter is None or behind is None):
            self._submit(lambda: self._report(query, offsets if behind is None else []))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the last progress is still valid."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            query = self._queries.get(str(event.id))
            if query is None or query.run != str(event.runId):
                return
            query.ended = True
            ended = [key for key, each in self._queries.items() if each.ended]
            for key in ended[:-_ENDED]:
                del self._queries[key]
        error = event.exception
        if error is None:
            query.status.change("stopped")
        else:
            query.status.change("failed", _summary(error))
        self._submit(lambda: self._stop(query))

    # --- internals

    def _query(self, progress: Mapping[str, Any], offsets: list[Mapping[str, Any]]) -> _Query:
        key, run = str(progress["id"]), str(progress["runId"])
        with self._lock:
            query = self._queries.get(key)
            if query is None or query.run != run:
                names = sorted({name for offset in offsets for name in offset["streams"]})
                # The id of a query persists in its checkpoint.
                status = JobStatus(
                    job_name(progress["name"] or "query", key),
                    source=",".join(names),
                    sink=str(progress["sink"]["description"])[:200],
                )
                status.change("running")
                query = self._queries[key] = _Query(run, status)
            return query

    def _submit(self, work: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # The interpreter ends.
            self._thread.submit(work)

    # --- in the thread

    def _report(self, query: _Query, unmeasured: list[Mapping[str, Any]]) -> None:
        lease = self._connect()
        if lease is None:
            return
        if unmeasured:
            connection = lease.connection
            with contextlib.suppress(Error):
                query.status.measure(connection.run(_waiting(connection.js, unmeasured)))
        if query.reporter is None:
            query.reporter = JobReporter(lease, query.status)
        else:
            lease.release()

    def _stop(self, query: _Query) -> None:
        if query.reporter is not None:
            query.reporter.stop()

    def _connect(self) -> Lease | None:
        if time.monotonic() < self._tried + _RETRY:
            return None
        assert self._options is not None
        try:
            return process_connection(self._options, retry_for=PLANNING_TIMEOUT)
        except Error as error:
            logger.debug("no reports of queries: %s", error)
            self._tried = time.monotonic()
            return None


async def _waiting(js: JetStream, offsets: list[Mapping[str, Any]]) -> int:
    """How many messages wait for a query now, as the server says."""
    waiting = 0
    for offset in offsets:
        for name, stream in offset["streams"].items():
            if "consumer" in offset:
                consumer = await js.consumer_info(name, offset["consumer"])
                waiting += consumer.num_pending + consumer.num_ack_pending
            else:
                state = (await js.get_stream(name)).cached_info.state
                waiting += max(state.last_seq + 1 - stream["next_seq"], 0)
    return waiting


def _summary(error: str) -> str:
    """The line of a stack trace that says what happened."""
    if found := re.search(r"jetspark\.errors\.\w+: (.+)", error):
        return found[1].strip()
    causes = re.findall(r"^Caused by: (.+)$", error, re.MULTILINE)
    return str(causes[-1] if causes else error.strip().partition("\n")[0]).strip()
