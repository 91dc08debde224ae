"""Work-queue and interest streams: reading them does not disturb their consumers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark import ConsumerConfig
from tests.spark.running import Sink, error_of, run
from tests.spark.support import Bench, assert_exactly, expected, texts


@pytest.fixture(params=["workqueue", "interest"])
def queue(request: pytest.FixtureRequest, bench: Bench) -> str:
    """A stream with a consumer `worker`."""
    stream = bench.stream(retention=request.param, allow_direct=True)
    bench.js.create_consumer(stream, ConsumerConfig(durable_name="worker"))
    return stream


def test_a_queue_is_read_without_a_trace(spark: SparkSession, bench: Bench, queue: str) -> None:
    for token in ("a", "b", "c"):
        bench.publish(queue, 10, writer=token, token=token)
    for filters, writers in (("", "abc"), ("{0}.a", "a"), ("{0}.a,{0}.c", "ac"), ("{0}.x,{0}.y", "")):
        options = {"subjects": filters.format(queue)} if filters else {}
        found = texts(bench.read(spark, queue, minPartitions=2, **options))
        assert_exactly(found, [text for writer in writers for text in expected(10, writer=writer)])
    assert list(bench.js.consumer_names(queue)) == ["worker"]
    info = bench.js.consumer_info(queue, "worker")
    assert (info.num_pending, info.num_ack_pending, info.delivered.stream_seq) == (30, 0, 0)
    assert bench.js.get_stream(queue).cached_info.state.messages == 30


def test_a_query_reads_what_is_there_and_what_is_worked_off_is_no_loss(
    spark: SparkSession, bench: Bench, queue: str, tmp_path: Path
) -> None:
    sink, worker = Sink(), bench.js.get_consumer(queue, "worker")
    frame = bench.read_stream(spark, queue, startingPosition="earliest")
    bench.publish(queue, 10)
    run(frame, sink, tmp_path)
    for message in worker.fetch(10, expires=5):
        message.ack_sync()
    bench.publish(queue, 10, first=11)
    run(frame, sink, tmp_path)
    bench.publish(queue, 10, first=21)
    # Among them some that no query has seen.
    for message in worker.fetch(15, expires=5):
        message.ack_sync()
    run(frame, sink, tmp_path)
    assert_exactly(sink.texts, [*expected(20), *expected(5, first=26)])
    assert list(bench.js.consumer_names(queue)) == ["worker"]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_without_direct_gets_one_is_told_how_to_allow_them(
    spark: SparkSession, bench: Bench, tmp_path: Path, retention: str
) -> None:
    stream = bench.stream(retention=retention)
    said = f"stream {stream} has retention {retention} and does not allow direct gets"
    for action in (
        lambda: bench.read(spark, stream).collect(),
        lambda: run(bench.read_stream(spark, stream), Sink(), tmp_path),
    ):
        message = error_of(action)
        assert said in message
        assert "allow_direct=True" in message
