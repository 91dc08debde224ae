"""The errors that docs/spark.md shows, each provoked, and its programs; those of docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import jetspark.metrics
from jetspark import ConsumerConfig, KeyValueConfig, ObjectStoreConfig, StreamConfig, blocking
from jetspark.server import Server
from tests.docs.console import ROOT, mask
from tests.docs.python import PythonPage, blocks
from tests.spark.running import ADMISSION_CONTROL
from tests.spark.support import LONG, finish
from tests.support.waiting import wait_until

PAGE = ROOT / "docs/spark.md"
URL = '"nats://127.0.0.1:4222"'
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not ADMISSION_CONTROL, reason="the page is about Spark 4.2 and later"),
]

#: The programs that tests/spark/test_guide.py runs, by a text in each.
ELSEWHERE = ("columns = [", 'writeStream.format("console")', "messages.write.format")


def errors() -> list[str]:
    """Every error that the page shows."""
    lines = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    return [line for line in lines if line.startswith("jetspark.errors.")]


@pytest.fixture
def js(server: Server) -> Any:
    """JetStream with the streams of the guide."""
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        js.create_stream(
            StreamConfig(name="JOBS", subjects=["jobs.>"], retention="workqueue", allow_direct=True)
        )
        for number in range(10):
            js.publish("orders.new", b'{"id": %d}' % number)
            js.publish("jobs.resize", b'{"id": %d, "amount": 1}' % number)
        yield js


def write(frame: DataFrame, url: str, **options: str) -> None:
    frame.write.format("jetstream").mode("append").options(servers=url, **options).save()


def read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("jetstream").options(servers=url, **options).load()


def follow(spark: SparkSession, url: str, place: Path, **options: str) -> Any:
    frame = spark.readStream.format("jetstream").options(servers=url, **options).load()
    return frame.writeStream.format("noop").option("checkpointLocation", str(place)).start()


def test_every_error_of_the_guide_is_raised_in_its_words(
    spark: SparkSession, server: Server, js: blocking.JetStream, tmp_path: Path
) -> None:
    js.get_stream("ORDERS").purge(sequence=9)
    js.create_stream(
        StreamConfig(name="JOBS2", subjects=["jobs2.>"], retention="workqueue", allow_direct=False)
    )
    js.create_stream(StreamConfig(name="SHORT", subjects=["short.>"], duplicate_window=10))
    js.create_stream(StreamConfig(name="FULL", subjects=["full.>"], max_msgs=3, discard="new"))
    js.create_consumer("JOBS", ConsumerConfig(durable_name="worker", max_ack_pending=1000))
    url = server.url
    row = spark.sql("SELECT 'x' AS data")
    large = "if(id = 2, repeat('x', 2000000), 'x') AS data"

    def ids(count: int, partitions: int, *columns: str) -> DataFrame:
        return spark.range(0, count, 1, partitions).selectExpr(*columns)

    def delete_the_consumer() -> None:
        query = follow(
            spark, url, tmp_path / "deleted", stream="JOBS", consumer="worker", maxMessagesPerTrigger="1000"
        )
        wait_until(lambda: query.lastProgress is not None or not query.isActive, "a batch", LONG)
        js.delete_consumer("JOBS", "worker")
        query.awaitTermination(LONG)

    provoke: dict[str, Callable[[], object]] = {
        "option maxMessagesPerPartition": lambda: read(
            spark, url, stream="ORDERS", maxMessagesPerPartition="lots"
        ),
        "stream ORDERS lost": lambda: read(
            spark, url, stream="ORDERS", startingPosition='{"ORDERS": 6}'
        ).collect(),
        "stream JOBS2 has retention": lambda: read(spark, url, stream="JOBS2").collect(),
        "consumer worker of stream JOBS has": lambda: follow(
            spark, url, tmp_path / "limited", stream="JOBS", consumer="worker"
        ).awaitTermination(LONG),
        "consumer worker of stream JOBS was": delete_the_consumer,
        "stream SHORT forgets": lambda: write(row, url, subject="short.a", minDuplicateWindow="3600"),
        "stream ORDERS does not accept": lambda: write(row, url, subject="orders.a", publishMode="atomic"),
        "unknown column key": lambda: write(ids(1, 1, "'x' AS data", "'k' AS key"), url, subject="orders.a"),
        "column data must be": lambda: write(ids(1, 1, "id AS data"), url, subject="orders.a"),
        "option subject: no stream": lambda: write(row, url, subject="nowhere.a"),
        "option subject: 'orders.x'": lambda: write(row, url, subject="orders.x", stream="SHORT"),
        "column subject, row 4": lambda: write(
            ids(6, 1, "'x' AS data", "if(id = 3, null, 'orders.a') AS subject"), url
        ),
        "column data, row 1": lambda: write(ids(4, 2, large), url, subject="orders.a"),
        "row 4 of partition 0": lambda: write(ids(5, 1, "'x' AS data"), url, subject="full.a"),
    }
    shown = errors()
    assert len(shown) == len(provoke)
    for line in shown:
        (action,) = [each for text, each in provoke.items() if line.partition(": ")[2].startswith(text)]
        with pytest.raises(PySparkException) as raised:
            action()
        assert line in str(raised.value)


def test_the_other_programs_of_the_guide_run(
    spark: SparkSession,
    server: Server,
    js: blocking.JetStream,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    js.create_stream(StreamConfig(name="DEAD", subjects=["dead.>"]))
    js.create_advisory_stream()
    js.create_consumer("JOBS", ConsumerConfig(durable_name="worker", max_ack_pending=100_000))
    js.publish("jobs.resize", b"poison")
    js.create_key_value(KeyValueConfig(bucket="prices", history=5)).put("eur.usd", b"1.10")
    js.create_object_store(ObjectStoreConfig(bucket="models")).put("model", b"...")
    updates = spark.sql("SELECT 'eur.chf' AS key, binary('0.96') AS value")
    names: dict[str, Any] = {"spark": spark, "F": F, "updates": updates}
    names["messages"] = read(spark, server.url, stream="ORDERS")

    def run_query(query: Any, place: str) -> Any:
        writer = query.option("checkpointLocation", str(tmp_path / f"checkpoint-{place}")).trigger(
            availableNow=True
        )
        started = writer.start()
        finish(started)
        return started

    for text in blocks(PAGE, "python"):
        if any(each in text for each in ELSEWHERE):
            continue
        if "query.lastProgress" in text:
            orders = spark.readStream.format("jetstream").options(
                servers=server.url, stream="ORDERS", startingPosition="earliest"
            )
            names["query"] = run_query(orders.load().writeStream.format("noop"), "progress")
        program = text.replace(URL, f'"{server.url}"').replace('"/data/', f'"{tmp_path}/')
        if '.option("servers"' not in text:
            program = program.replace(
                'format("jetstream")', f'format("jetstream").option("servers", "{server.url}")'
            )
        capsys.readouterr()
        exec(compile(program, "docs/spark.md", "exec"), names)
        if "query.lastProgress" in text:
            printed = [shape(line) for line in capsys.readouterr().out.splitlines()]
            (shown,) = [block for block in blocks(PAGE, "console") if block.startswith("read up to")]
            assert printed == [shape(line) for line in shown.splitlines()]
        elif "ProgressListener" in text:
            remove(names)
        elif "foreachBatch(handle)" in text:
            run_query(names["query"], "jobs")
            assert spark.read.parquet(str(tmp_path / "jobs")).count() == 10
            assert js.get_stream("DEAD").get_last_message("dead.jobs").data == b"poison"

    assert names["malformed"].count() == 0
    assert names["letters"].count() == 0
    assert {row.key for row in names["prices"].collect()} == {"eur.usd", "eur.chf"}
    assert (names["revisions"].count(), names["objects"].count()) == (2, 1)
    assert names["jobs"].isStreaming
    assert names["changes"].isStreaming


async def test_the_programs_of_the_guide_to_metrics_run(spark: SparkSession, server: Server) -> None:
    page = PythonPage(
        "docs/metrics.md",
        replaced={
            URL: f'"{server.url}"',
            "jetspark.metrics.serve(9464)": "served = jetspark.metrics.serve(0)",
        },
    )
    names: dict[str, Any] = {"spark": spark}
    await page.run(names)
    names["served"].close()
    jetspark.metrics.unregister(names["nc"])
    remove(names)


def remove(names: dict[str, Any]) -> None:
    """Remove the listener of a program."""
    names["spark"].streams.removeListener(names["listener"])
    jetspark.metrics.unregister(names["listener"])


def shape(line: str) -> str:
    """The line without times and numbers."""
    return re.sub(r"\d+", "N", mask(line))
