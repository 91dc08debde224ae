"""Several streams as one: names with `*`, streams that come and go, another choice after a restart."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jetspark import StreamConfig
from tests.spark.running import Sink, error_of, reached, run, start
from tests.spark.support import Bench, assert_exactly, expected, texts

AT_ONCE = {"processingTime": "0 seconds"}


@pytest.fixture
def prefix() -> str:
    """What the names of the test's streams begin with."""
    return f"P{secrets.token_hex(4)}_"


def make(bench: Bench, name: str, messages: int = 0) -> None:
    """A stream with messages that carry its name."""
    bench.js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
    bench.publish(name, messages, writer=name)


def test_a_pattern_is_all_streams_that_fit(spark: SparkSession, bench: Bench, prefix: str) -> None:
    for name in ("A1", "A2", "B1"):
        make(bench, prefix + name, 5)
    wanted = {name: expected(5, writer=prefix + name) for name in ("A1", "A2", "B1")}
    for pattern, names in (
        ("*", ["A1", "A2", "B1"]),
        ("A*", ["A1", "A2"]),
        ("*1", ["A1", "B1"]),
        ("A2", ["A2"]),
    ):
        found = texts(bench.read(spark, prefix + pattern))
        assert_exactly(found, [text for name in names for text in wanted[name]])
    found = texts(bench.read(spark, f"{prefix}A*,{prefix}B1"))
    assert_exactly(found, [text for each in wanted.values() for text in each])


def test_many_small_streams_share_tasks_and_come_whole_and_in_order(
    spark: SparkSession, bench: Bench, prefix: str
) -> None:
    """Beside a large one, which is split; with gaps, and one that is read without a trace."""
    sizes = {f"{prefix}{number:02}": number % 5 for number in range(40)}
    for name, size in sizes.items():
        make(bench, name, size)
    bench.js.get_stream(f"{prefix}04").delete_message(2)
    large, queue = f"{prefix}30B", f"{prefix}30C"
    make(bench, large, 21_000)
    bench.js.create_stream(
        StreamConfig(name=queue, subjects=[f"{queue}.>"], retention="workqueue", allow_direct=True)
    )
    bench.publish(queue, 50)
    sequences = {name: list(range(1, size + 1)) for name, size in sizes.items() if size}
    sequences |= {f"{prefix}04": [1, 3, 4], large: list(range(1, 21_001)), queue: list(range(1, 51))}
    for options, least, most in (({}, 2, 64), ({"minPartitions": 5}, 5, 5)):
        rows = bench.read(spark, f"{prefix}*", **options)
        tasks: dict[int, set[str]] = {}
        found: dict[str, list[int]] = {}
        for row in rows.select("stream", "sequence", F.spark_partition_id().alias("task")).collect():
            tasks.setdefault(row.task, set()).add(row.stream)
            found.setdefault(row.stream, []).append(row.sequence)
        assert found == sequences
        assert least <= len(tasks) <= most
        assert sum(map(len, tasks.values())) <= len(sequences) + len(tasks)


def test_no_stream_that_fits_is_an_error_of_a_table(spark: SparkSession, bench: Bench, prefix: str) -> None:
    message = error_of(lambda: bench.read(spark, f"{prefix}*").collect())
    assert f"no stream matches {prefix}*" in message


def test_a_query_waits_for_streams_and_reads_new_ones_from_their_first_message(
    spark: SparkSession, bench: Bench, prefix: str, tmp_path: Path
) -> None:
    """Whatever the starting position is: that is for what is there when it starts."""
    sink = Sink()
    frame = bench.read_stream(spark, f"{prefix}*", startingPosition="latest")
    query = start(frame, sink, tmp_path, **AT_ONCE)
    query.processAllAvailable()
    assert sink.texts == []
    make(bench, f"{prefix}A", 5)
    reached(sink, 5, query)
    make(bench, f"{prefix}B", 5)
    bench.publish(f"{prefix}A", 5, first=6, writer=f"{prefix}A")
    reached(sink, 15, query)
    query.stop()
    make(bench, f"{prefix}C", 5)
    run(frame, sink, tmp_path)
    if len(sink.texts) < 20:
        run(frame, sink, tmp_path)  # Before 4.2 a run may end with the batch that was stopped.
    assert_exactly(
        sink.texts,
        [
            *expected(10, writer=f"{prefix}A"),
            *expected(5, writer=f"{prefix}B"),
            *expected(5, writer=f"{prefix}C"),
        ],
    )


def test_a_query_can_be_given_other_streams_when_it_is_started_again(
    spark: SparkSession, bench: Bench, prefix: str, tmp_path: Path
) -> None:
    one, other = f"{prefix}A", f"{prefix}B"
    make(bench, one, 5)
    make(bench, other, 5)
    sink = Sink()

    def read(streams: str) -> None:
        run(bench.read_stream(spark, streams, startingPosition="earliest"), sink, tmp_path)

    read(one)
    assert_exactly(sink.texts, expected(5, writer=one))
    read(f"{one},{other}")
    assert_exactly(sink.texts, [*expected(5, writer=one), *expected(5, writer=other)])
    bench.publish(one, 5, first=6, writer=one)
    bench.publish(other, 5, first=6, writer=other)
    read(other)
    assert_exactly(sink.texts, [*expected(5, writer=one), *expected(10, writer=other)])
    # What it left out is where it was: nothing is skipped or repeated when it comes back.
    read(f"{prefix}*")
    assert_exactly(sink.texts, [*expected(10, writer=one), *expected(10, writer=other)])


def test_a_stream_of_a_pattern_that_is_deleted_is_a_loss_unless_that_may_be(
    spark: SparkSession, bench: Bench, prefix: str, tmp_path: Path
) -> None:
    one, other = f"{prefix}A", f"{prefix}B"
    make(bench, one, 5)
    make(bench, other, 5)
    sink = Sink()
    options = {"startingPosition": "earliest"}
    run(bench.read_stream(spark, f"{prefix}*", **options), sink, tmp_path)
    bench.js.delete_stream(one)
    bench.publish(other, 5, first=6, writer=other)
    strict = bench.read_stream(spark, f"{prefix}*", **options)
    message = error_of(lambda: run(strict, sink, tmp_path))
    assert f"stream {one} lost the sequences [6, ...): the stream was deleted" in message
    run(bench.read_stream(spark, f"{prefix}*", failOnDataLoss="false", **options), sink, tmp_path)
    assert_exactly(sink.texts, [*expected(5, writer=one), *expected(10, writer=other)])
