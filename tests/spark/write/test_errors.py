"""Invalid rows are refused with one error, which names the column and the first invalid row."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jetspark.server import Server
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.write.targets import TargetStreams
from tests.spark.running import error_of
from tests.spark.support import Bench, finish
from tests.spark.writing import counted, payloads, start_writing, write


def test_columns_that_cannot_be_written_are_named(spark: SparkSession, bench: Bench) -> None:
    """Every other wrong column is in test_rows.py, where there is no Spark."""
    for columns, message in (
        (["'x' as data"], "missing subject. Add a column subject or the option subject"),
        (["'x' as data", "'a' as subject", "map('k', id) as headers"], ">>, not map<string,bigint>"),
    ):
        frame = spark.range(2).selectExpr(*columns)
        assert message in error_of(partial(write, frame, bench.url))


def streaming(spark: SparkSession, bench: Bench, count: int = 5) -> tuple[str, DataFrame]:
    """A stream with messages, and a frame that reads it as it grows."""
    stream = bench.stream()
    bench.publish(stream, count)
    return stream, bench.read_stream(spark, stream, startingPosition="earliest", minPartitions=1)


def error_of_query(start: Callable[[], StreamingQuery]) -> str:
    """The error of a query, at its start or later."""
    return error_of(lambda: finish(start()))


def test_a_query_is_refused_for_its_columns(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    _, frame = streaming(spark, bench)
    frame = frame.selectExpr("data", "subject", "1 as key")
    assert "unknown column key" in error_of_query(lambda: start_writing(frame, bench.url, tmp_path))


# --- rows

# A column of bad rows, what the error says. Row 3 of the second of two partitions is bad, and the last too.
# Every other bad value is in test_rows.py, where there is no Spark.
BAD_ROWS = [
    ("subject", "cast(null as string)", "is null"),
    ("subject", "'nowhere.a'", "no stream stores 'nowhere.a'. Create one with subjects=['nowhere.a']"),
    ("headers", "map('k', array('v', null))", "the value of 'k' must be a str, not NoneType"),
    ("data", "repeat('x', 1100000)", "bytes with its headers, the server takes 1048576. Split it"),
]


def with_bad_rows(frame: DataFrame, stream: str, column: str, bad: str) -> DataFrame:
    """Rows of which those with `id` 7 and 9 are bad."""
    good = {
        "data": "concat('w-', id + 1)",
        "subject": f"'{stream}.a'",
        "headers": "map('k', array('v'))" if "array" in bad else "map('k', 'v')",
        "msg_id": "cast(null as string)",
    }
    good[column] = f"if(id in (7, 9), {bad}, {good[column]})"
    return frame.selectExpr(*(f"{value} as {name}" for name, value in good.items()))


@pytest.mark.parametrize(("column", "bad", "message"), BAD_ROWS)
def test_the_first_bad_row_and_its_column_are_named(
    spark: SparkSession, bench: Bench, column: str, bad: str, message: str
) -> None:
    stream = bench.stream()
    frame = with_bad_rows(spark.range(0, 10, 1, 2), stream, column, bad)
    said = error_of(lambda: write(frame, bench.url))
    assert f"column {column}, row 3 of partition 1: " in said
    assert message in said
    assert set(payloads(bench.js, stream)) <= {f"w-{number}" for number in range(1, 8)}


def test_a_query_ends_with_the_first_bad_row_and_its_column(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    column, bad, message = BAD_ROWS[0]
    stream = bench.stream()
    _, source = streaming(spark, bench, 10)
    frame = with_bad_rows(source.selectExpr("sequence - 1 as id"), stream, column, bad)
    said = error_of_query(lambda: start_writing(frame, bench.url, tmp_path))
    assert f"column {column}, row 8 of partition 0: " in said
    assert message in said


def test_what_the_stream_refuses_is_named_by_its_row(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream(max_msgs=20, discard="new")
    said = error_of(lambda: write(counted(spark, 50, 1), bench.url, subject=f"{stream}.a"))
    assert "row 21 of partition 0: " in said
    assert "maximum messages" in said


# --- options and streams


def test_a_subject_without_a_stream_is_named_before_tasks_run(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    message = "option subject: no stream stores 'nowhere.a'. Create one with subjects=['nowhere.a']"
    assert message in error_of(lambda: write(counted(spark, 5), bench.url, subject="nowhere.a"))
    _, frame = streaming(spark, bench)
    frame = frame.select("data")
    assert message in error_of_query(lambda: start_writing(frame, bench.url, tmp_path, subject="nowhere.a"))


def test_another_stream_than_the_expected_is_named(spark: SparkSession, bench: Bench) -> None:
    stream, other = bench.stream(), bench.stream()
    said = error_of(lambda: write(counted(spark, 5), bench.url, subject=f"{stream}.a", stream=other))
    assert f"option subject: '{stream}.a' is stored by stream {stream}, not by {other}" in said
    frame = counted(spark, 5, 1).selectExpr("data", f"'{stream}.b' as subject")
    said = error_of(lambda: write(frame, bench.url, stream=other))
    assert f"column subject, row 1 of partition 0: '{stream}.b' is stored by stream {stream}" in said
    assert payloads(bench.js, stream) == []


def test_one_stream_at_a_time_is_written_to(spark: SparkSession, bench: Bench) -> None:
    for stream in ("A,B", "A*"):
        said = error_of(partial(write, counted(spark, 5), bench.url, subject="a", stream=stream))
        assert f"option stream must be a single name for a write, not '{stream}'" in said


def test_options_of_a_read_are_refused(spark: SparkSession, bench: Bench) -> None:
    said = error_of(lambda: write(counted(spark, 5), bench.url, subject="a", startingPosition="earliest"))
    assert "option startingPosition is for read and readStream, not for write and writeStream" in said


def test_a_server_that_is_not_there_is_named(spark: SparkSession) -> None:
    with Server() as gone:
        url = gone.url
    assert url.removeprefix("nats://") in error_of(lambda: write(counted(spark, 5), url, subject="a"))


def test_a_stream_cannot_be_overwritten(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    writer = counted(spark, 5).write.format("jetstream").options(servers=bench.url, subject=f"{stream}.a")
    assert 'Use mode("append")' in error_of(lambda: writer.mode("overwrite").save())
    for mode in ("error", "ignore"):
        assert "append" in error_of(partial(lambda mode: writer.mode(mode).save(), mode)).lower()
    _, frame = streaming(spark, bench)
    counts = frame.groupBy("subject").count().selectExpr("cast(count as string) as data")
    options = {"servers": bench.url, "subject": f"{stream}.a", "checkpointLocation": str(tmp_path)}
    query = counts.writeStream.format("jetstream").options(**options)
    said = error_of_query(lambda: query.outputMode("complete").trigger(availableNow=True).start())
    assert 'a stream cannot be overwritten. Use outputMode("append")' in said
    assert payloads(bench.js, stream) == []


def test_atomic_batches_need_a_stream_that_takes_them(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    said = error_of(lambda: write(counted(spark, 5), bench.url, subject=f"{stream}.a", publishMode="atomic"))
    assert f"stream {stream} does not accept atomic batches. Update it with allow_atomic=True" in said


# --- the duplicate window


def test_a_window_below_what_was_asked_for_is_refused(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream(duplicate_window=60)
    message = (
        f"stream {stream} forgets message ids after 60 s, minDuplicateWindow is 61: rows that are written "
        "again after that are stored twice. Update the stream with duplicate_window=61, or lower "
    )
    options: dict[str, Any] = {"subject": f"{stream}.a", "minDuplicateWindow": 61}
    assert message in error_of(lambda: write(counted(spark, 5), bench.url, **options))
    _, frame = streaming(spark, bench)
    frame = frame.select("data")
    assert message in error_of_query(lambda: start_writing(frame, bench.url, tmp_path, **options))
    assert payloads(bench.js, stream) == []
    write(counted(spark, 5), bench.url, subject=f"{stream}.a", minDuplicateWindow=60)
    assert len(payloads(bench.js, stream)) == 5


def test_a_window_below_the_default_is_warned_of(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    stream, enough = bench.stream(duplicate_window=60), bench.stream()
    options = parse_options({"servers": bench.url})
    lease = process_connection(options.connection, retry_for=10)
    with lease as connection, caplog.at_level(logging.WARNING, "jetspark"):
        targets = TargetStreams(connection.js, options)
        for name in (enough, stream, stream):
            connection.run(targets.find(f"{name}.a"))
    (record,) = (each for each in caplog.records if "forgets" in each.message)
    assert record.levelname == "WARNING"
    assert f"stream {stream} forgets message ids after 60 s, minDuplicateWindow is 120" in record.message
    assert "Update the stream with duplicate_window=120" in record.message
