"""The rows of a read: types, headers, odd text, times."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jetspark.spark.schema import READ_SCHEMA
from tests.spark.support import LONG, Bench


@pytest.fixture(params=["limits", "workqueue"])
def stream(request: pytest.FixtureRequest, bench: Bench) -> str:
    """Read by a consumer, and by direct get."""
    return bench.stream(retention=request.param, allow_direct=True)


def test_the_schema_is_the_documented_one(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    frame = bench.read(spark, stream)
    assert frame.schema == READ_SCHEMA
    assert frame.schema.simpleString() == (
        "struct<subject:string,data:binary,headers:map<string,array<string>>,"
        "stream:string,sequence:bigint,timestamp:timestamp>"
    )
    assert bench.read_stream(spark, stream).schema == READ_SCHEMA


def test_without_payloads_there_are_sizes(spark: SparkSession, bench: Bench, stream: str) -> None:
    for number in range(30):
        bench.js.publish(f"{stream}.a", bytes(number), headers={"n": str(number)})
    frame = bench.read(spark, stream, includeData="false", headerColumns="n")
    assert frame.schema.names == ["subject", "size", "headers", "stream", "sequence", "timestamp", "n"]
    rows = frame.orderBy("sequence").collect()
    assert [(row.size, row.headers, row.n) for row in rows] == [
        (number, {"n": [str(number)]}, str(number)) for number in range(30)
    ]


def test_a_row_is_what_was_published(spark: SparkSession, bench: Bench, stream: str) -> None:
    js = bench.js
    large = bytes(range(256)) * 4000
    js.publish(f"{stream}.plain", b"text")
    js.publish(f"{stream}.empty", b"")
    js.publish(f"{stream}.binary", b"\x00\xff\xfe")
    js.publish(f"{stream}.large", large)
    js.publish(f"{stream}.ümlaut", "größe".encode())
    js.publish(f"{stream}.headers", b"h", headers={"One": "1", "Many": ["a", "b", "a"], "Empty": ""})
    js.publish(f"{stream}.id", b"i", msg_id="id-1")
    rows = bench.read(spark, stream).orderBy("sequence").collect()
    assert [(row.subject.partition(".")[2], bytes(row.data)) for row in rows] == [
        ("plain", b"text"),
        ("empty", b""),
        ("binary", b"\x00\xff\xfe"),
        ("large", large),
        ("ümlaut", "größe".encode()),
        ("headers", b"h"),
        ("id", b"i"),
    ]
    assert [row.sequence for row in rows] == list(range(1, 8))
    assert {row.stream for row in rows} == {stream}
    assert [row.headers for row in rows] == [{}] * 5 + [
        {"One": ["1"], "Many": ["a", "b", "a"], "Empty": [""]},
        {"Nats-Msg-Id": ["id-1"]},
    ]


def test_times_are_those_of_the_stream_whatever_the_time_zone_of_the_session(
    spark: SparkSession, bench: Bench, stream: str
) -> None:
    bench.publish(stream, 3)
    stored = [bench.js.get_stream(stream).get_message(number).timestamp for number in (1, 2, 3)]
    wanted = [int(time.timestamp() * 1_000_000 + 0.5) for time in stored]
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    for each in (spark, session):
        frame = bench.read(each, stream).select(F.unix_micros("timestamp").alias("us")).orderBy("us")
        assert [row.us for row in frame.collect()] == wanted
    text = (
        bench.read(spark, stream).select(F.col("timestamp").cast("string").alias("t")).orderBy("t").head(1)[0]
    )
    shown = stored[0].astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    assert text.t == shown


def test_what_is_no_utf_8_is_replaced(spark: SparkSession, bench: Bench, stream: str) -> None:
    """Such subjects and headers can only be written by hand; the data is binary anyway."""
    odd = f"{stream}.\udcff\udcfe"
    bench.js.publish(odd, b"\xff", headers={"Odd": "a\udcffb"})
    [row] = bench.read(spark, stream).collect()
    assert row.subject == f"{stream}.��"
    assert row.headers == {"Odd": ["a�b"]}
    assert bytes(row.data) == b"\xff"


def test_columns_of_a_stream_can_be_worked_with(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    bench.js.publish(f"{stream}.a", b'{"price": 5}', headers={"Trace": ["x", "y"]})
    bench.js.publish(f"{stream}.b", b"no json")
    frame = bench.read_stream(spark, stream, startingPosition="earliest").select(
        F.get_json_object(F.col("data").cast("string"), "$.price").cast("int").alias("price"),
        F.element_at("headers", "Trace")[1].alias("trace"),
        F.size("headers").alias("headers"),
    )
    found: list[tuple[object, ...]] = []
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path))
    query = (
        writer.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(LONG)
    assert sorted(found, key=str) == [(5, "y", 1), (None, None, 0)]
