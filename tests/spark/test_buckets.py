"""Buckets as tables, and rows into buckets."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jetspark import KeyValueConfig, ObjectMeta, ObjectStoreConfig, StreamConfig, UsageError, blocking
from jetspark.spark.options import Use, parse_options
from jetspark.spark.write.keys import as_messages, check_key_columns, key_check
from jetspark.spark.write.rows import RowEncoder
from tests.spark.support import Bench, finish
from tests.support.cases import for_each


@pytest.fixture
def kv(bench: Bench) -> Iterator[blocking.KeyValue]:
    name = f"T{secrets.token_hex(6)}"
    yield bench.js.create_key_value(KeyValueConfig(bucket=name, history=5))
    bench.js.delete_key_value(name)


def table(spark: SparkSession, bench: Bench, **options: str) -> DataFrame:
    return spark.read.format("jetstream").options(servers=bench.url, **options).load()


def rows(frame: DataFrame) -> list[tuple[str, bytes, str]]:
    found = sorted(frame.collect(), key=lambda row: row.revision)
    return [(row.key, bytes(row.value), row.operation) for row in found]


def test_a_bucket_is_read_as_a_table_a_history_and_a_stream_and_written(
    spark: SparkSession, bench: Bench, kv: blocking.KeyValue, tmp_path: Path
) -> None:
    kv.put("a", b"1")
    kv.put("a", b"2")
    kv.put("b.x", b"3")
    kv.put("gone", b"4")
    kv.delete("gone")
    assert rows(table(spark, bench, bucket=kv.bucket)) == [("a", b"2", "PUT"), ("b.x", b"3", "PUT")]
    assert rows(table(spark, bench, bucket=kv.bucket, keys="b.*")) == [("b.x", b"3", "PUT")]
    history = [("a", b"1", "PUT"), ("a", b"2", "PUT"), ("b.x", b"3", "PUT")]
    history += [("gone", b"4", "PUT"), ("gone", b"", "DEL")]
    assert rows(table(spark, bench, bucket=kv.bucket, includeHistory="true")) == history

    changes = spark.readStream.format("jetstream").options(
        servers=bench.url, bucket=kv.bucket, startingPosition="earliest"
    )
    query = changes.load().writeStream.format("memory").queryName("changes").trigger(availableNow=True)
    finish(query.option("checkpointLocation", str(tmp_path / "changes")).start())
    assert rows(spark.table("changes")) == history

    copy = bench.js.create_key_value(KeyValueConfig(bucket=f"{kv.bucket}-copy"))
    writing = (
        changes.load()
        .coalesce(1)
        .writeStream.format("jetstream")
        .options(servers=bench.url, bucket=copy.bucket)
    )
    finish(writing.option("checkpointLocation", str(tmp_path / "copy")).trigger(availableNow=True).start())
    assert {key: copy.get(key).value for key in copy.keys()} == {"a": b"2", "b.x": b"3"}
    bench.js.delete_key_value(copy.bucket)

    new = spark.createDataFrame(
        [("c", "5", None), ("a", None, "DEL"), ("b.x", "ignored", "PURGE"), ("d", "6", "PUT")],
        "key string, value string, operation string",
    ).coalesce(1)
    new.write.format("jetstream").options(servers=bench.url, bucket=kv.bucket).mode("append").save()
    assert {key: kv.get(key).value for key in kv.keys()} == {"c": b"5", "d": b"6"}
    assert [entry.operation for entry in kv.history("b.x")] == ["PURGE"]
    assert [entry.operation for entry in kv.history("a")] == ["PUT", "PUT", "DEL"]


def test_a_write_into_a_missing_bucket_names_the_bucket(
    spark: SparkSession, bench: Bench, kv: blocking.KeyValue, tmp_path: Path
) -> None:
    missing = f"{kv.bucket}-missing"
    message = f"no bucket '{missing}' to write to. Create it with js.create_key_value(...)"
    rows = spark.createDataFrame([("a", "1")], "key string, value string")
    with pytest.raises(PySparkException) as caught:
        rows.write.format("jetstream").options(servers=bench.url, bucket=missing).mode("append").save()
    assert f"option bucket: {message}" in str(caught.value)

    # Another stream that stores the subjects does not make a bucket.
    kv.put("a", b"1")
    bench.js.create_stream(StreamConfig(name=f"OTHER-{missing}", subjects=[f"$KV.{missing}.>"]))
    changes = spark.readStream.format("jetstream").options(
        servers=bench.url, bucket=kv.bucket, startingPosition="earliest"
    )
    writing = changes.load().writeStream.format("jetstream").options(servers=bench.url, bucket=missing)
    with pytest.raises(PySparkException) as caught:
        finish(writing.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
    assert f"option bucket: {message}" in str(caught.value)
    bench.js.delete_stream(f"OTHER-{missing}")


def test_objects_are_read_as_a_table(spark: SparkSession, bench: Bench) -> None:
    name = f"T{secrets.token_hex(6)}"
    store = bench.js.create_object_store(ObjectStoreConfig(bucket=name, storage="memory"))
    info = store.put(ObjectMeta(name="a", description="d", metadata={"k": "v"}), b"data")
    store.add_link("l", info)
    store.put("gone", b"")
    store.delete("gone")
    found = {row.name: row for row in table(spark, bench, objectStore=name).collect()}
    assert found.keys() == {"a", "l"}
    assert (found["a"].size, found["a"].digest, found["a"].metadata) == (4, info.digest, {"k": "v"})
    assert (found["l"].link_bucket, found["l"].link_name) == (name, "a")
    bench.js.delete_object_store(name)


@for_each(
    ("options", "complaint"),
    [
        ({"bucket": "a b"}, "bucket"),
        ({"bucket": "a", "stream": "S"}, "stream"),
        ({"bucket": "a", "subjects": "x"}, "bucket and subjects exclude each other: use option keys"),
        ({"bucket": "a", "keys": "a.>,a.b"}, "do not overlap"),
        ({"bucket": "a", "keys": "a b"}, "keys"),
        ({"objectStore": "a", "bucket": "b"}, "exclude each other"),
        ({"objectStore": "a", "subjects": "x"}, "exclude each other. Remove one of them"),
        ({"objectStore": "a", "startingPosition": "earliest"}, "exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(options)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("options", [{"keys": "a"}, {"includeHistory": "true"}])
def test_options_of_buckets_need_one(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="needs option bucket"):
        parse_options({"stream": "S", **options}).check_read(Use.BATCH)


def test_bounds_are_for_revisions() -> None:
    bounded = {"bucket": "a", "startingPosition": "earliest"}
    with pytest.raises(UsageError, match="includeHistory"):
        parse_options(bounded).check_read(Use.BATCH)
    parse_options(bounded).check_read(Use.STREAM)
    parse_options(bounded | {"includeHistory": "true"}).check_read(Use.BATCH)


def test_rows_become_messages_of_the_stream_of_the_bucket() -> None:
    columns: dict[str, Any] = {
        "key": ["a", "b", "c"],
        "value": [b"1", b"2", None],
        "operation": ["PUT", "PURGE", None],
        "msg_id": ["x", None, None],
    }
    assert as_messages("t", columns) == {
        "subject": ["$KV.t.a", "$KV.t.b", "$KV.t.c"],
        "data": [b"1", None, None],
        "headers": [None, {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}, None],
        "msg_id": ["x", None, None],
    }
    with pytest.raises(UsageError, match="PUT, DEL or PURGE"):
        as_messages("t", {"key": ["a"], "value": [b""], "operation": ["del"]})


@pytest.mark.parametrize(("key", "complaint"), [(None, "is null"), ("a b", "not valid"), ("ä", "not valid")])
def test_a_row_with_an_invalid_key_is_an_error_or_a_dead_letter(key: str | None, complaint: str) -> None:
    columns = as_messages("t", {"key": ["a", key], "value": [b"1", b"2"]})

    def encoder(dead_letters: str | None) -> RowEncoder:
        return RowEncoder(
            subject=None,
            stream="KV_t",
            id_prefix="",
            place="here",
            max_size=1000,
            dead_letters=dead_letters,
            subject_column="key",
            check_subject=key_check("t"),
        )

    with pytest.raises(UsageError, match=f"column key, row 2 of here: .*{complaint}"):
        list(encoder(None).messages(columns))
    assert [each.subject for each in encoder("dead").messages(columns)] == ["$KV.t.a", "dead"]


@for_each(
    ("fields", "complaint"),
    [
        ({"value": StringType()}, "key and value"),
        ({"key": StringType()}, "key and value"),
        ({"key": LongType(), "value": StringType()}, "column key must be string"),
        ({"key": StringType(), "value": LongType()}, "column value must be string or binary"),
        ({"key": StringType(), "value": BinaryType(), "more": StringType()}, "unknown column more"),
    ],
)
def test_columns_that_do_not_fit_are_refused(fields: dict[str, Any], complaint: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(UsageError, match=complaint):
        check_key_columns(schema)


def test_a_table_can_be_written_as_it_was_read() -> None:
    from jetspark.spark.schema import BUCKET_SCHEMA

    check_key_columns(BUCKET_SCHEMA)
