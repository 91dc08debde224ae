"""Options as Spark hands them over: names in any case, and errors that a user sees at once."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.running import Sink, error_of, run
from tests.spark.support import Bench, assert_exactly, expected, texts


@pytest.fixture(params=["read", "readStream"])
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    """Both ways to read."""
    return lambda: getattr(spark, request.param).format("jetstream")


def test_bad_options_fail_when_a_stream_is_loaded(reader: Any) -> None:
    for options, said in (
        ({}, "missing option stream"),
        ({"stream": "ORDERS", "failOnDataLoss": "maybe"}, "option failOnDataLoss must be true or false"),
        ({"stream": "ORDERS", "minPartitions": "0"}, "option minPartitions must be a whole number"),
        ({"stream": "ORDERS", "startingPositon": "latest"}, "Did you mean startingPosition?"),
        ({"stream": "ORDERS", "group": "worker"}, "unknown option 'group'"),
        ({"stream": "ORDERS", "servers": "nats://me:s3cret@host"}, "servers must not contain a user"),
    ):
        message = error_of(reader().options(**options).load)
        assert said in message
        assert "s3cret" not in message
    assert "load() takes no path" in error_of(lambda: reader().load("ORDERS"))


def test_names_may_be_written_in_any_case(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    options = {
        "SERVERS": bench.url,
        "Stream": stream,
        "startingposition": "EARLIEST",
        "FAILONDATALOSS": "False",
    }
    table = spark.read.format("jetstream").options(**options, ENDINGPOSITION=f'{{"{stream}": 6}}').load()
    assert_exactly(texts(table), expected(5))
    frame = spark.readStream.format("JetStream").options(**options, maxmessagespertrigger="100").load()
    run(frame, sink, tmp_path)
    assert_exactly(sink.texts, expected(10))


def test_options_of_the_other_way_to_read_are_refused(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    for name, value in (
        ("maxMessagesPerTrigger", 5),
        ("maxBytesPerTrigger", 5),
        ("progressConsumer", "p"),
    ):
        message = error_of(partial(lambda n, v: bench.read(spark, stream, **{n: v}).collect(), name, value))
        assert f"option {name} is for readStream, not for read" in message
    for name, value in (("endingPosition", "latest"), ("endingTimestamp", "2026-01-31")):
        message = error_of(
            partial(
                lambda n, v: run(bench.read_stream(spark, stream, **{n: v}), Sink(), tmp_path / n),
                name,
                value,
            )
        )
        assert f"option {name} is for read, not for readStream" in message


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    options = bench.options(stream)
    table = spark.read.format("jetstream").options(**options).schema("data string")
    assert "the schema of a stream is fixed" in error_of(lambda: table.load().collect())
    frame = spark.readStream.format("jetstream").options(**options).schema("data string")
    message = error_of(lambda: run(frame.load(), Sink(), tmp_path))
    assert "the schema of a stream is fixed" in message


def test_without_headers_there_is_no_such_column(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 5)
    table = bench.read(spark, stream, includeHeaders="false")
    assert table.columns == ["subject", "data", "stream", "sequence", "timestamp"]
    assert_exactly(texts(table), expected(5))
    frame = bench.read_stream(spark, stream, includeHeaders="false", startingPosition="earliest")
    assert frame.columns == table.columns
    run(frame, sink, tmp_path)
    assert_exactly(sink.texts, expected(5))


def test_headers_can_be_columns(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    with bench.js.publisher() as publisher:
        publisher.send(f"{stream}.a", b"1", headers={"Log-Host": ["web1", "web2"], "trace": "\u00fc"})
        publisher.send(f"{stream}.a", b"2", headers={"log-host": ""})
        publisher.send(f"{stream}.a", b"3")
    options = {"includeHeaders": "false", "headerColumns": "host=Log-Host,Trace"}
    table = bench.read(spark, stream, **options)
    assert table.columns == ["subject", "data", "stream", "sequence", "timestamp", "host", "Trace"]
    found = [(row.host, row.Trace) for row in table.orderBy("sequence").collect()]
    assert found == [("web1", "\u00fc"), ("", None), (None, None)]
    run(bench.read_stream(spark, stream, **options, startingPosition="earliest"), sink, tmp_path)
    assert sorted(sink.texts) == ["1", "2", "3"]


def test_secrets_are_in_no_plan(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    for options in ({"user": "me", "password": "s3cret"}, {"token": "s3cret"}):
        frame = bench.read(spark, stream, **options)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            frame.explain("extended")
            frame.explain("formatted")
        assert stream in shown.getvalue() or "jetstream" in shown.getvalue()
        assert "s3cret" not in shown.getvalue()


def test_secrets_in_files_are_in_no_plan_whatever_spark_hides(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    (tmp_path / "hidden").write_text("s3cret")
    before = spark.conf.get("spark.sql.redaction.options.regex")
    assert before is not None
    shown = io.StringIO()
    try:
        spark.conf.set("spark.sql.redaction.options.regex", "nothing")
        for options in (
            {"user": "me", "passwordFile": tmp_path / "hidden"},
            {"tokenFile": tmp_path / "hidden"},
        ):
            with contextlib.redirect_stdout(shown):
                bench.read_stream(spark, stream, **options).explain("extended")
                bench.read(spark, stream, **options).explain("formatted")
    finally:
        spark.conf.set("spark.sql.redaction.options.regex", before)
    assert "jetstream" in shown.getvalue()
    assert "s3cret" not in shown.getvalue()


def test_a_stream_that_is_not_there_is_named(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    assert "stream NOTHERE not found" in error_of(lambda: bench.read(spark, "NOTHERE").collect())
    frame = bench.read_stream(spark, "NOTHERE")
    assert "stream NOTHERE not found" in error_of(lambda: run(frame, Sink(), tmp_path))
