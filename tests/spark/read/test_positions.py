"""Where a read begins and ends: the first and the last, sequences, times."""

from __future__ import annotations

import json
import time
from functools import partial, reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.running import Sink, error_of, reached, run, start
from tests.spark.support import Bench, assert_exactly, expected, texts


def halves(bench: Bench) -> tuple[str, str]:
    """A stream of twenty messages, and a time between the first ten and the others."""
    stream = bench.stream()
    bench.publish(stream, 10)
    time.sleep(0.002)  # The stream's clock has to go on.
    bench.publish(stream, 10, first=11)
    middle = bench.js.get_stream(stream).get_message(11).timestamp
    return stream, middle.isoformat()


def named(frame: DataFrame, name: str) -> DataFrame:
    """The data of a read behind a name: many reads are one query then, which is quicker."""
    return frame.select(F.concat(F.lit(f"{name}/").cast("binary"), "data").alias("data"))


def of(found: list[str], name: str) -> list[str]:
    """The data of the read with this name."""
    return [text.removeprefix(f"{name}/") for text in found if text.startswith(f"{name}/")]


# --- tables


def test_a_table_is_what_lies_between_its_bounds(spark: SparkSession, bench: Bench) -> None:
    stream, middle = halves(bench)
    three, five, six, end = (json.dumps({stream: number}) for number in (3, 5, 6, 21))
    tables = [
        ({}, 1, 21),
        ({"startingPosition": "earliest", "endingPosition": "latest"}, 1, 21),
        ({"startingPosition": "latest"}, 21, 21),
        ({"endingPosition": "earliest"}, 1, 1),
        ({"startingPosition": five}, 5, 21),
        ({"endingPosition": five}, 1, 5),
        ({"startingPosition": five, "endingPosition": six}, 5, 6),
        ({"startingPosition": end, "endingPosition": end}, 21, 21),
        ({"startingTimestamp": middle}, 11, 21),
        ({"endingTimestamp": middle}, 1, 11),
        ({"startingTimestamp": middle, "endingTimestamp": middle}, 11, 11),
        ({"startingTimestamp": "2000-01-01", "endingTimestamp": "2100-01-01"}, 1, 21),
        ({"startingTimestamp": "2100-01-01"}, 21, 21),
        ({"startingPosition": five, "endingTimestamp": middle}, 5, 11),
        ({"startingTimestamp": middle, "endingPosition": three}, 11, 11),
    ]
    frames = [named(bench.read(spark, stream, **options), str(options)) for options, _, _ in tables]
    found = texts(reduce(DataFrame.union, frames))
    for options, first, following in tables:
        assert_exactly(of(found, str(options)), expected(following - first, first=first))


def test_bounds_that_cannot_be_are_named(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 10)
    five, eight, future = (json.dumps({stream: number}) for number in (5, 8, 12))
    for options, said in (
        (
            {"startingPosition": eight, "endingPosition": five},
            f"stream {stream}: startingPosition 8 is after endingPosition 5",
        ),
        ({"startingPosition": "latest", "endingPosition": "earliest"}, "11 is after endingPosition 1"),
        ({"startingPosition": future}, f"startingPosition 12 of stream {stream} is in the future"),
        ({"endingPosition": future}, f"endingPosition 12 of stream {stream} is in the future"),
    ):
        assert said in error_of(partial(lambda given: bench.read(spark, stream, **given).collect(), options))


def test_streams_that_a_position_does_not_name_are_read_from_the_default(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    one, other = bench.stream(), bench.stream()
    bench.publish(one, 5, writer="one")
    bench.publish(other, 5, writer="other")
    both, three = f"{one},{other}", json.dumps({one: 3})
    table = bench.read(spark, both, startingPosition=three)
    assert_exactly(texts(table), [*expected(3, writer="one", first=3), *expected(5, writer="other")])
    table = bench.read(spark, both, endingPosition=three)
    assert_exactly(texts(table), [*expected(2, writer="one"), *expected(5, writer="other")])
    sink = Sink()
    run(bench.read_stream(spark, both, startingPosition=three), sink, tmp_path)
    assert_exactly(sink.texts, expected(3, writer="one", first=3))


# --- queries


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_query_begins_where_it_is_told_and_goes_on_where_it_was(
    spark: SparkSession, bench: Bench, tmp_path: Path, fail_on_data_loss: str
) -> None:
    """All of them in one query, which is run twice; the position counts only the first time."""
    stream, middle = halves(bench)
    begins = {
        "default": ({}, 21),
        "earliest": ({"startingPosition": "earliest"}, 1),
        "sequence": ({"startingPosition": json.dumps({stream: 5})}, 5),
        "time": ({"startingTimestamp": middle}, 11),
    }
    frames = [
        named(bench.read_stream(spark, stream, failOnDataLoss=fail_on_data_loss, **options), name)
        for name, (options, _) in begins.items()
    ]
    sink = Sink()
    for last in (20, 30):
        run(reduce(DataFrame.union, frames), sink, tmp_path)
        for name, (_, first) in begins.items():
            assert_exactly(of(sink.texts, name), expected(last - first + 1, first=first))
        bench.publish(stream, 10, first=last + 1)


def test_a_query_cannot_begin_in_the_future(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    bench.publish(stream, 5)
    frame = bench.read_stream(spark, stream, startingPosition=json.dumps({stream: 7}))
    message = error_of(lambda: run(frame, Sink(), tmp_path))
    assert f"startingPosition 7 of stream {stream} is in the future. The next message will be 6" in message


def test_a_stream_may_be_empty_when_a_query_begins(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(first_seq=1000), Sink()
    frame = bench.read_stream(spark, stream, startingPosition="earliest")
    query = start(frame, sink, tmp_path, processingTime="0 seconds")
    query.processAllAvailable()
    bench.publish(stream, 5)
    reached(sink, 5, query)
    query.stop()
    assert_exactly(sink.texts, expected(5))
