"""SQL: streams as views and tables, `INSERT`, and tables as they grow."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from jetspark import KeyValueConfig
from tests.spark.running import VERSION, Sink, error_of, run
from tests.spark.support import Bench, assert_exactly, expected, finish, texts
from tests.spark.writing import payloads

inserts = pytest.mark.skipif(
    VERSION < (4, 1), reason="Spark 4.0 inserts only rows with all columns of a table"
)


@pytest.fixture
def named(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """Makes names of tables, which are dropped at the end."""
    names: list[str] = []

    def make() -> str:
        names.append(f"t{secrets.token_hex(4)}")
        return names[-1]

    yield make
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, name: str, **options: str) -> str:
    listed = ", ".join(f"{key} '{value}'" for key, value in options.items())
    spark.sql(f"CREATE TABLE {name} USING jetstream OPTIONS ({listed}) TBLPROPERTIES (team 'shop')")
    return name


# --- what Spark passes: if this changes, `jetspark.spark.table` may become simpler


def probe(notes: Path) -> type[DataSource]:
    """A source that writes down the options and the metadata of the first column that Spark passes to it."""

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return "probe"

        def note(self, call: str, schema: StructType | None = None) -> None:
            with notes.open("a") as file:
                metadata = schema[0].metadata if schema else {}
                file.write(json.dumps([call, dict(self.options), metadata]) + "\n")

        def schema(self) -> StructType:
            self.note("schema")
            mark = {"made_with": self.options.get("a")}
            return StructType([StructField("x", StringType(), metadata=mark), StructField("y", LongType())])

        def reader(self, schema: StructType) -> DataSourceReader:
            self.note("reader", schema)

            class Reader(DataSourceReader):
                def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
                    yield "read", 1

            return Reader()

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            self.note("writer", schema)

            class Writer(DataSourceWriter):
                def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
                    list(iterator)
                    return WriterCommitMessage()

            return Writer()

    return Probe


@inserts
def test_spark_passes_the_options_of_a_table_only_when_it_is_created(
    spark: SparkSession, tmp_path: Path, named: Callable[[], str]
) -> None:
    notes = tmp_path / "notes"
    spark.dataSource.register(probe(notes))

    def passed(statement: str) -> list[list[Any]]:
        notes.write_text("")
        spark.sql(statement).collect()
        return [json.loads(line) for line in notes.read_text().splitlines()]

    one, other = named(), named()
    ((_, options, _),) = passed(f"CREATE TABLE {one} USING probe OPTIONS (a 'one')")
    assert options | {"owner": ""} == {"a": "one", "option.a": "one", "provider": "probe", "owner": ""}
    passed(f"CREATE TABLE {other} USING probe OPTIONS (a 'other')")
    mark = {"made_with": "one"}
    assert passed(f"SELECT * FROM {one}") == [["reader", {}, mark]]
    assert passed(f"INSERT INTO {one} (y) VALUES (2)") == [["writer", {}, mark]]
    assert passed(f"INSERT INTO {one} (y) SELECT y FROM {other}")[-1] == ["writer", {}, mark]
    # Rows that have the columns of the table already keep the metadata of where they come from.
    assert passed(f"INSERT INTO {other} SELECT * FROM {one}")[-1] == ["writer", {}, mark]


# --- views and tables


@inserts
def test_a_stream_is_a_temporary_view_to_read_and_to_insert_into(spark: SparkSession, bench: Bench) -> None:
    stream, view = bench.stream(), f"v{secrets.token_hex(4)}"
    bench.publish(stream, 10)
    options = f"servers '{bench.url}', stream '{stream}'"
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING jetstream OPTIONS ({options})")
    spark.sql(f"INSERT INTO {view} (subject, data) VALUES ('{stream}.b', binary('w-11'))")
    rows = spark.sql(f"SELECT sequence, string(data) AS text FROM {view} WHERE sequence > 9 ORDER BY 1")
    assert [row.text for row in rows.collect()] == ["w-10", "w-11"]
    spark.sql(f"DROP VIEW {view}")


@inserts
def test_a_table_is_read_written_and_followed_with_the_same_options(
    spark: SparkSession, bench: Bench, named: Callable[[], str], tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 3)
    options = {"subject": f"{stream}.b", "startingPosition": "earliest", "maxMessagesPerTrigger": "1000"}
    table = create(spark, named(), servers=bench.url, stream=stream, **options)
    assert_exactly(texts(spark.table(table)), expected(3))
    spark.sql(f"INSERT INTO {table} (data) VALUES (binary('w-4')), (binary('w-5'))")
    spark.sql(f"INSERT INTO {table} BY NAME SELECT '{stream}.c' AS subject, binary('w-6') AS data")
    assert_exactly(texts(spark.sql(f"SELECT * FROM {table}")), expected(6))
    assert texts(spark.sql(f"SELECT data FROM {table} WITH (subjects = '{stream}.c')")) == ["w-6"]
    run(spark.readStream.table(table), sink, tmp_path)
    assert_exactly(sink.texts, expected(6))
    assert "cannot be overwritten" in error_of(
        lambda: spark.sql(f"INSERT OVERWRITE {table} (data) VALUES (X'31')")
    )


@inserts
def test_data_frames_are_written_into_tables(
    spark: SparkSession, bench: Bench, named: Callable[[], str]
) -> None:
    stream = bench.stream()
    table = create(spark, named(), servers=bench.url, stream=stream, subject=f"{stream}.b")
    rows = spark.sql("SELECT binary('w-1') AS data")
    rows.writeTo(table).append()
    spark.sql("SELECT binary('w-2') AS data").write.format("jetstream").mode("append").saveAsTable(table)
    whole = spark.sql(f"SELECT '{stream}.c', binary('w-3'), null, null, null, null")
    whole.write.insertInto(table)
    assert_exactly(payloads(bench.js, stream), expected(3))


@inserts
def test_rows_are_copied_from_table_to_table_by_their_columns(
    spark: SparkSession, bench: Bench, named: Callable[[], str]
) -> None:
    stream, target = bench.stream(), bench.stream()
    bench.publish(stream, 5)
    source = create(spark, named(), servers=bench.url, stream=stream)
    copy = create(spark, named(), servers=bench.url, stream=target, subject=f"{target}.all")
    spark.sql(f"INSERT INTO {copy} (data, headers) SELECT data, headers FROM {source}")
    assert_exactly(payloads(bench.js, target), expected(5))
    said = error_of(lambda: spark.sql(f"INSERT INTO {copy} SELECT * FROM {source}"))
    assert "a row has a sequence" in said
    assert "INSERT INTO t (subject, data)" in said
    assert len(payloads(bench.js, stream)) == len(payloads(bench.js, target)) == 5


@inserts
def test_a_bucket_is_a_table(spark: SparkSession, bench: Bench, named: Callable[[], str]) -> None:
    kv = bench.js.create_key_value(KeyValueConfig(bucket=f"B{secrets.token_hex(4)}"))
    table = create(spark, named(), servers=bench.url, bucket=kv.bucket)
    spark.sql(f"INSERT INTO {table} (key, value) VALUES ('eur', binary('1.1')), ('usd', binary('1.0'))")
    assert {row.key for row in spark.table(table).collect()} == {"eur", "usd"}
    assert kv.get("eur").value == b"1.1"


# --- errors


def test_mistakes_in_the_options_of_a_table_are_named(
    spark: SparkSession, bench: Bench, named: Callable[[], str]
) -> None:
    name = named()
    said = error_of(lambda: create(spark, name, servers=bench.url, straem="A"))
    assert "unknown option 'straem'" in said
    assert "Did you mean stream?" in said
    said = error_of(lambda: create(spark, name, servers=bench.url, stream="A", user="u", password="s3cret"))
    assert "option password cannot be an option of a table" in said
    assert "s3cret" not in said


def test_statements_for_which_spark_drops_the_options_are_refused(
    spark: SparkSession, bench: Bench, named: Callable[[], str], tmp_path: Path
) -> None:
    stream = bench.stream()
    bench.publish(stream, 1)
    options = f"OPTIONS (servers '{bench.url}', stream '{stream}')"
    rows = f"SELECT '{stream}.a' AS subject, 'x' AS data"
    said = error_of(lambda: spark.sql(f"CREATE TABLE {named()} USING jetstream {options} AS {rows}"))
    assert "a write without options" in said
    assert "CREATE TABLE ... AS SELECT" in said
    table = named()
    spark.sql(f"CREATE TABLE {table} (subject STRING, data BINARY) USING jetstream {options}")
    assert "created without a list of columns" in error_of(lambda: spark.table(table).collect())
    table = create(spark, named(), servers=bench.url, stream=stream)
    frame = bench.read_stream(spark, stream, startingPosition="earliest").select("subject", "data")
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert "a write without options" in error_of(lambda: finish(writer.toTable(table)))
    assert payloads(bench.js, stream) == ["w-1"]
