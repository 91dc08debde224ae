"""`spark.read`: a stream as a table."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jetspark.spark import JetStreamDataSource
from tests.spark.running import VERSION, error_of
from tests.spark.support import LONG, Bench, assert_exactly, expected, texts
from tests.support.waiting import wait_until


def no_consumers(bench: Bench, stream: str) -> None:
    wait_until(lambda: not list(bench.js.consumer_names(stream)), "the consumers to be gone", LONG)


def test_a_stream_reads_as_a_table_and_nothing_is_left_behind(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 1000)
    assert_exactly(texts(bench.read(spark, stream)), expected(1000))
    no_consumers(bench, stream)


def test_the_format_can_be_registered(spark: SparkSession, bench: Bench) -> None:
    """Where Spark does not find it by itself, as it does in all other tests."""
    stream = bench.stream()
    bench.publish(stream, 10)

    class Own(JetStreamDataSource):
        """Under a name that Spark cannot have found by itself."""

        @classmethod
        def name(cls) -> str:
            return "own_jetstream"

    spark.dataSource.register(Own)
    table = spark.read.format("own_jetstream").options(**bench.options(stream)).load()
    assert_exactly(texts(table), expected(10))
    # Its own name is taken in 4.0, where it is found by itself; later versions let it be registered again.
    session = spark.newSession()
    if VERSION >= (4, 1):
        session.dataSource.register(JetStreamDataSource)
        assert_exactly(texts(bench.read(session, stream)), expected(10))
    else:
        again = error_of(lambda: session.dataSource.register(JetStreamDataSource))
        assert "DATA_SOURCE_ALREADY_EXISTS" in again


def test_an_empty_stream_is_an_empty_table(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    assert bench.read(spark, stream).collect() == []
    bench.publish(stream, 5)
    bench.js.get_stream(stream).purge()
    assert bench.read(spark, stream).collect() == []


def test_a_range_is_cut_into_as_many_tasks_as_the_options_say(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 100)
    for options, tasks in (
        ({}, 1),
        ({"minPartitions": 7}, 7),
        ({"maxMessagesPerPartition": 15}, 7),
        ({"minPartitions": 9, "maxMessagesPerPartition": 15}, 9),
    ):
        rows = bench.read(spark, stream, **options).select("sequence", F.spark_partition_id().alias("task"))
        found: dict[int, list[int]] = {}
        for row in rows.collect():
            found.setdefault(row.task, []).append(row.sequence)
        assert len(found) == tasks
        # Each task has a range of its own, in order.
        assert [seq for _, part in sorted(found.items()) for seq in part] == list(range(1, 101))


def test_several_streams_are_one_table(spark: SparkSession, bench: Bench) -> None:
    one, other = bench.stream(), bench.stream()
    bench.publish(one, 10, writer="one")
    bench.publish(other, 20, writer="other")
    frame = bench.read(spark, f"{one}, {other}").cache()
    assert_exactly(texts(frame), [*expected(10, writer="one"), *expected(20, writer="other")])
    counts = {row.stream: row["count"] for row in frame.groupBy("stream").count().collect()}
    assert counts == {one: 10, other: 20}
    frame.unpersist()


def test_the_server_filters_by_subject(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    for token in ("a", "b", "c.d"):
        bench.publish(stream, 10, writer=token, token=token)
    for filters, writers in (
        ("{0}.a", "a"),
        ("{0}.*", "ab"),
        ("{0}.b,{0}.c.>", ["b", "c.d"]),
        ("{0}.nothing", ""),
    ):
        found = texts(bench.read(spark, stream, subjects=filters.format(stream), minPartitions=2))
        assert_exactly(found, [text for writer in writers for text in expected(10, writer=writer)])


def test_a_table_can_be_used_more_than_once_in_a_query(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 10)
    frame = bench.read(spark, stream)
    both = frame.filter("sequence = 1").union(frame.filter("sequence = 2"))
    assert_exactly(texts(both), expected(2))
    other = frame.select(F.col("sequence").alias("next"), F.col("data").alias("same"))
    joined = frame.join(other, F.expr("sequence + 1 = next"))
    assert_exactly(texts(joined), expected(9))


def test_a_table_stays_what_it_was_when_it_was_first_read(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 10)
    frame = bench.read(spark, stream)
    assert len(frame.collect()) == 10
    bench.publish(stream, 10, first=11)
    assert len(frame.collect()) == 10
    # Version 4.0 plans anew for what is derived from it.
    assert frame.count() == (10 if VERSION >= (4, 1) else 20)
    assert bench.read(spark, stream).count() == 20


def test_a_few_rows_of_a_large_stream_leave_nothing_behind(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 30_000)
    frame = bench.read(spark, stream, minPartitions=2)
    assert len(frame.limit(5).collect()) == 5
    assert frame.agg(F.sum("sequence")).head(1)[0][0] == 30_000 * 30_001 // 2
    no_consumers(bench, stream)


def test_a_table_can_be_asked_in_sql(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 7, token="a")
    bench.publish(stream, 5, token="b")
    session = spark.newSession()  # Its views are its own.
    bench.read(session, stream).createOrReplaceTempView("orders")
    rows = session.sql("SELECT subject, count(*) AS n, max(sequence) AS last FROM orders GROUP BY subject")
    assert {(row.subject, row.n, row.last) for row in rows.collect()} == {
        (f"{stream}.a", 7, 7),
        (f"{stream}.b", 5, 12),
    }
