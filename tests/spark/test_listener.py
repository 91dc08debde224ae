"""`ProgressListener`: queries in the control stream and in metrics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

import jetspark.metrics
from jetspark import ConsumerConfig, StreamConfig, UsageError, blocking
from jetspark.reports.jobs import JobReport, read_jobs
from jetspark.server import Server
from jetspark.spark import ProgressListener, lag
from tests.spark.running import ADMISSION_CONTROL
from tests.support.waiting import wait_until

QUERY, RUN = uuid.uuid4(), uuid.uuid4()


@pytest.fixture
def js(server: Server) -> Iterator[blocking.JetStream]:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=["s"]))
        for _ in range(10):
            js.publish("s")
        yield js


def reports(js: blocking.JetStream) -> list[JobReport]:
    return js._bridge.run(read_jobs(js._inner))


def reported(js: blocking.JetStream, **wanted: object) -> JobReport:
    """Wait for a report with these values."""
    found: list[JobReport] = []

    def is_there() -> bool:
        found[:] = [
            job for job in reports(js) if all(getattr(job, key) == value for key, value in wanted.items())
        ]
        return bool(found)

    wait_until(is_there, f"{wanted}")
    return found[0]


def event(
    rows: int, end: dict[str, Any], latest: dict[str, Any] | None, batch: int = 0
) -> QueryProgressEvent:
    source = {
        "description": "jetstream",
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "metrics": {},
    }
    progress = {
        "id": str(QUERY),
        "runId": str(RUN),
        "name": "orders",
        "timestamp": "2026-11-15T10:00:00.000Z",
        "batchId": batch,
        "batchDuration": 1500,
        "durationMs": {"triggerExecution": 1500},
        "eventTime": {},
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1, "metrics": {}},
        "numInputRows": rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent.fromJson({"progress": progress})


def ended(exception: str | None = None) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(QUERY, RUN, exception, None)


def offset(next_seq: int) -> dict[str, Any]:
    return {"version": 1, "streams": {"S": {"created": "x", "began": 1, "next_seq": next_seq}}}


def samples(listener: ProgressListener) -> dict[str, float]:
    registry = CollectorRegistry()
    jetspark.metrics.register(listener, registry=registry)
    return {each.name: each.value for family in registry.collect() for each in family.samples}


def test_a_query_is_reported_with_lag_rows_and_the_error_that_ended_it(
    server: Server, js: blocking.JetStream
) -> None:
    listener = ProgressListener(servers=server.url)
    listener.onQueryProgress(event(4, offset(5), offset(11)))
    listener.onQueryProgress(event(5, offset(10), offset(11), batch=1))
    listener.onQueryProgress(event(0, offset(10), offset(11), batch=2))  # an idle trigger
    job = reported(js, rows=9, lag=1, state="running")
    assert (job.name[:7], job.source, job.sink) == ("orders-", "S", "ForeachBatchSink")
    assert [(each.id, each.rows, each.seconds) for each in job.batches] == [(0, 4, 1.5), (1, 5, 1.5)]
    assert samples(listener)["jetspark_job_rows_total"] == 9
    listener.onQueryTerminated(
        ended("SparkException: x\nCaused by: jetspark.errors.DataLoss: stream S lost [1, 5)\n at")
    )
    assert reported(js, state="failed").error == "stream S lost [1, 5)"
    assert samples(listener)["jetspark_job_up"] == 0


def test_the_lag_of_a_worker_is_what_its_consumer_says(server: Server, js: blocking.JetStream) -> None:
    consumer = js.create_consumer("S", ConsumerConfig(name="w"))
    consumer.fetch(2)
    end = {"version": 1, "consumer": "w", "batch": 1, "streams": {"S": {"delivered": {"1": "1-2"}}}}
    listener = ProgressListener(servers=server.url)
    listener.onQueryProgress(event(2, end, None))
    reported(js, rows=2, lag=10)
    listener.onQueryTerminated(ended())
    reported(js, state="stopped")


def test_without_a_server_or_reports_metrics_are_there_and_other_queries_are_ignored() -> None:
    listener = ProgressListener(reports=False)
    listener.onQueryProgress(event(4, {"topic": {"0": 1}}, {"topic": {"0": 2}}))
    assert samples(listener) == {}
    listener.onQueryProgress(event(4, offset(5), offset(11)))
    found = samples(listener)
    assert (found["jetspark_job_rows_total"], found["jetspark_job_up"]) == (4, 1)
    assert found["jetspark_job_lag_messages"] == (6 if ADMISSION_CONTROL else 0)
    listener.onQueryTerminated(ended())
    assert samples(listener)["jetspark_job_up"] == 0
    with pytest.raises(UsageError, match="unknown"):
        ProgressListener(server="nats://127.0.0.1:4222")


def test_spark_calls_it_and_the_progress_of_a_query_has_its_lag(
    spark: SparkSession, server: Server, js: blocking.JetStream, tmp_path: Path
) -> None:
    listener = ProgressListener(servers=server.url)
    spark.streams.addListener(listener)
    try:
        read = spark.readStream.format("jetstream").options(
            servers=server.url, stream="S", startingPosition="earliest", maxMessagesPerTrigger="4"
        )
        query = (
            read.load()
            .writeStream.format("noop")
            .queryName("few")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        assert query.exception() is None
        found = [lag(each) for each in query.recentProgress if each["numInputRows"]]
        assert found == [lag(json.loads(each.json)) for each in query.recentProgress if each["numInputRows"]]
        if ADMISSION_CONTROL:
            assert [each.streams for each in found if each is not None] == [{"S": 6}, {"S": 2}, {"S": 0}]
        job = reported(js, state="stopped")
        assert (job.name[:4], job.rows, job.lag, job.source) == ("few-", 10, 0, "S")
    finally:
        spark.streams.removeListener(listener)
