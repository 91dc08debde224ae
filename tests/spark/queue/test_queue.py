"""Spark as a worker: `.option("consumer", "worker")`."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark import ConsumerConfig
from tests.spark.running import ADMISSION_CONTROL, VERSION, Sink, error_of, reached, run, start
from tests.spark.support import LONG, Bench, assert_exactly, expected, texts, to_parquet
from tests.support.waiting import wait_until

AT_ONCE = {"processingTime": "0 seconds"}

needs_start = pytest.mark.skipif(not ADMISSION_CONTROL, reason="Spark passes no start offset before 4.2")


def queue(bench: Bench, **config: object) -> str:
    return bench.stream(retention="workqueue", allow_direct=True, **config)


def left(bench: Bench, stream: str) -> int:
    return bench.js.get_stream(stream).cached_info.state.messages


@needs_start
def test_a_work_queue_is_drained_beside_another_worker(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = queue(bench), Sink()
    bench.js.create_consumer(stream, ConsumerConfig(durable_name="worker", ack_wait=600.0))
    bench.publish(stream, 300)
    other = bench.js.get_consumer(stream, "worker")
    theirs = other.fetch(20, expires=10)
    theirs[3].nak()
    frame = bench.read_stream(spark, stream, consumer="worker", maxMessagesPerTrigger=70, minPartitions=3)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    try:
        reached(sink, 281, query)
        for message in theirs:
            message.ack_sync()
        # The last batch is acknowledged without another one after it.
        wait_until(lambda: not left(bench, stream), "an empty queue", LONG)
        assert_exactly(sink.texts, ["w-4", *expected(280, first=21)])
        assert max(sink.sizes) <= 70
        info = bench.js.consumer_info(stream, "worker")
        assert (info.num_pending, info.num_ack_pending) == (0, 0)
    finally:
        query.stop()


@needs_start
def test_a_batch_that_failed_is_repeated_with_the_same_rows_and_nothing_is_delivered_again(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = queue(bench), Sink()
    bench.js.create_consumer(stream, ConsumerConfig(durable_name="worker", ack_wait=2.0))
    bench.publish(stream, 100)
    options = {"consumer": "worker", "maxMessagesPerTrigger": 40}
    frame = bench.read_stream(spark, stream, **options)

    def fail(number: int) -> None:
        if number == 1:
            # Longer than `ack_wait`; the sleep is what is tested.
            time.sleep(4.5)
            assert bench.js.consumer_info(stream, "worker").num_redelivered == 0
            raise RuntimeError("the sink is broken")

    sink.before = fail
    assert "the sink is broken" in error_of(lambda: run(frame, sink, tmp_path))
    # The first batch was acknowledged when the second one was planned.
    assert left(bench, stream) == 60
    sink.before = lambda _: None
    run(frame, sink, tmp_path)
    # The rest may come in pieces.
    assert sink.tried[:4] == [0, 1, 1, 2]
    assert_exactly(sink.texts, expected(100))
    assert left(bench, stream) == 0


@needs_start
@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_several_streams_with_a_filter_and_headers_as_columns(
    spark: SparkSession, bench: Bench, tmp_path: Path, retention: str
) -> None:
    prefix = f"M{secrets.token_hex(3)}"
    names = [bench.stream(retention=retention, allow_direct=True) for _ in range(2)]
    for name in names:
        bench.js.create_consumer(name, ConsumerConfig(durable_name=prefix, filter_subject=f"{name}.a"))
        bench.publish(name, 3, writer=name)
        bench.publish(name, 3, writer="other", token="b")
        bench.js.publish(f"{name}.a", f"{name}-4".encode(), headers={"Trace": name})
    frame = bench.read_stream(
        spark, ",".join(names), consumer=prefix, maxMessagesPerTrigger=100, headerColumns="trace=Trace"
    )
    assert frame.columns[-2:] == ["num_delivered", "trace"]
    query = to_parquet(frame, tmp_path)
    assert query.awaitTermination(LONG)
    table = spark.read.parquet(str(tmp_path / "out"))
    assert_exactly(texts(table), [text for name in names for text in expected(4, writer=name)])
    rows = table.select("stream", "num_delivered", "trace").collect()
    assert Counter(row.num_delivered for row in rows) == {1: 8}
    assert sorted(row.trace for row in rows if row.trace) == sorted(names)
    for name in names:
        info = bench.js.consumer_info(name, prefix)
        assert (info.num_pending, info.num_ack_pending) == (0, 0)


@needs_start
def test_a_consumer_that_is_deleted_ends_the_query_with_a_clear_error(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = queue(bench), Sink()
    bench.publish(stream, 5)
    query = start(bench.read_stream(spark, stream, consumer="worker"), sink, tmp_path, **AT_ONCE)
    reached(sink, 5, query)
    bench.js.delete_consumer(stream, "worker")
    message = error_of(lambda: query.awaitTermination(LONG))
    assert f"consumer worker of stream {stream} was deleted" in message


def test_options_that_do_not_fit_are_refused(spark: SparkSession, bench: Bench) -> None:
    stream = queue(bench)
    said = error_of(lambda: bench.read(spark, stream, consumer="worker").collect())
    assert "option consumer is for readStream, not for read" in said
    said = error_of(lambda: bench.read_stream(spark, stream, consumer="w", startingPosition="earliest"))
    assert "options consumer and startingPosition exclude each other" in said


@pytest.mark.skipif(ADMISSION_CONTROL, reason="Spark passes the start offset")
def test_older_versions_of_spark_are_refused(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    said = error_of(lambda: run(bench.read_stream(spark, queue(bench), consumer="w"), Sink(), tmp_path))
    assert f"option consumer requires Spark 4.2 or later, not {'.'.join(map(str, VERSION))}" in said
