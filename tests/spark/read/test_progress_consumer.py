"""`progressConsumer`: the lag of a query, seen in NATS."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from jetspark import ConsumerConfig
from tests.spark.running import Sink, error_of, reached, run, start
from tests.spark.support import LONG, Bench, assert_exactly, expected
from tests.support.waiting import wait_until

AT_ONCE = {"processingTime": "0 seconds"}


def pending(bench: Bench, stream: str, name: str = "spark") -> int:
    """The `num_pending` of the consumer."""
    return bench.js.consumer_info(stream, name).num_pending


def has(bench: Bench, stream: str, count: int) -> None:
    """Wait until there is a consumer with so much pending."""

    def done() -> bool:
        return "spark" in bench.js.consumer_names(stream) and pending(bench, stream) == count

    wait_until(done, f"{count} pending", LONG)


def test_a_consumer_shows_how_much_is_not_committed_yet(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(allow_atomic=True), Sink()
    bench.publish(stream, 10)
    frame = bench.read_stream(spark, stream, startingPosition="earliest", progressConsumer="spark")
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 10, query)
    # A batch is committed when the next one begins, not before. These are one: they are stored at once.
    with bench.js.atomic_batch() as batch:
        for text in expected(5, first=11):
            batch.add(f"{stream}.a", text.encode())
    reached(sink, 15, query)
    has(bench, stream, 5)
    bench.publish(stream, 1, first=16)
    reached(sink, 16, query)
    has(bench, stream, 1)
    query.stop()
    bench.publish(stream, 4, first=17)
    has(bench, stream, 5)
    # It is the only consumer, and it delivers no message.
    assert list(bench.js.consumer_names(stream)) == ["spark"]
    info = bench.js.consumer_info(stream, "spark")
    assert (info.config.metadata["jetspark"], info.num_ack_pending) == ("progress of a Spark query", 0)
    # A restart continues with the same consumer.
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 20, query)
    bench.publish(stream, 1, first=21)
    reached(sink, 21, query)
    has(bench, stream, 1)
    query.stop()
    assert_exactly(sink.texts, expected(21))


def test_each_stream_has_one_and_only_what_is_read_counts(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    streams, sink = [bench.stream(), bench.stream()], Sink()
    for stream in streams:
        bench.publish(stream, 5, token="a")
    # The same filter for both: the subjects of a stream begin with its name.
    options = {"subjects": "*.a", "startingPosition": "earliest", "progressConsumer": "spark"}
    query = start(bench.read_stream(spark, ",".join(streams), **options), sink, tmp_path, **AT_ONCE)
    reached(sink, 10, query)
    for count, stream in enumerate(streams, 1):
        bench.publish(stream, count, token="a", first=6)
        bench.publish(stream, 7, token="other", writer="other")
    reached(sink, 13, query)
    bench.publish(streams[0], 1, token="a", first=7)
    reached(sink, 14, query)
    has(bench, streams[0], 1)
    has(bench, streams[1], 0)
    query.stop()


def test_a_consumer_of_an_application_is_refused(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    bench.publish(stream, 5)
    bench.js.create_consumer(stream, ConsumerConfig(durable_name="spark"))
    frame = bench.read_stream(spark, stream, progressConsumer="spark")
    message = error_of(lambda: run(frame, Sink(), tmp_path))
    assert f"consumer spark of stream {stream} is not a progressConsumer" in message
    assert pending(bench, stream) == 5


def test_on_a_work_queue_it_is_refused(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream(retention="workqueue", allow_direct=True)
    frame = bench.read_stream(spark, stream, progressConsumer="spark")
    message = error_of(lambda: run(frame, Sink(), tmp_path))
    assert f"progressConsumer is not possible on stream {stream}" in message
    assert list(bench.js.consumer_names(stream)) == []


def test_a_query_goes_on_when_its_consumer_is_deleted(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    frame = bench.read_stream(spark, stream, startingPosition="earliest", progressConsumer="spark")
    query = start(frame, sink, tmp_path, **AT_ONCE)
    for number in range(1, 4):
        bench.publish(stream, 1, first=number)
        reached(sink, number, query)
    wait_until(lambda: "spark" in bench.js.consumer_names(stream), "the consumer", LONG)
    bench.js.delete_consumer(stream, "spark")
    bench.publish(stream, 1, first=4)
    reached(sink, 4, query)
    bench.publish(stream, 1, first=5)
    reached(sink, 5, query)
    has(bench, stream, 1)
    query.stop()
    assert_exactly(sink.texts, expected(5))
