"""The programs of docs/spark.md run as they are, and print the tables that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.docs.console import mask
from tests.spark.running import VERSION

PAGE = (Path(__file__).parents[2] / "docs/spark.md").read_text()
URL = "nats://127.0.0.1:4222"


def block(kind: str, text: str) -> str:
    """The first block of this kind that contains a text."""
    blocks: list[str] = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)
    return next(each for each in blocks if text in each)


def rows(table: str) -> list[str]:
    """The lines of a table with its values, without what differs from run to run, sorted."""
    lines = [re.sub(r" *\| *", "|", mask(line)) for line in table.splitlines() if line.startswith("|")]
    return sorted(re.sub(r"\|\d+\|$", "|", line) for line in lines)


@pytest.fixture
def orders(server: Server) -> Server:
    """A server with the stream of the guide."""
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        for number in range(1, 6):
            subject = "orders.eu" if number % 2 else "orders.us"
            js.publish(subject, b'{"id": %d}' % number, headers={"Source": "shop"})
    return server


def execute(spark: SparkSession, server: Server, text: str, tmp_path: Path) -> None:
    text = text.replace(URL, server.url).replace("/data/", f"{tmp_path}/")
    exec(compile(text, "docs/spark.md", "exec"), {"spark": spark})


def test_reading_prints_the_table_of_the_guide(
    spark: SparkSession, orders: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(spark, orders, block("python", "columns = ["), tmp_path)
    assert rows(capsys.readouterr().out) == rows(block("console", "|headers           |stream|"))
    execute(spark, orders, block("python", 'writeStream.format("console")'), tmp_path)


def test_writing_twice_stores_the_rows_of_the_guide_once(
    spark: SparkSession, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with blocking.connect(server.url) as connection:
        connection.jetstream().create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    for _ in range(2):
        execute(spark, server, block("python", "messages.write.format"), tmp_path)
    table = spark.read.format("jetstream").option("servers", server.url).option("stream", "ORDERS").load()
    table.selectExpr(
        "subject", "string(data) AS data", "map_filter(headers, (k, v) -> true) AS headers", "sequence"
    ).show(truncate=False)
    assert rows(capsys.readouterr().out) == rows(block("console", "Nats-Msg-Id -> [order-2]"))


@pytest.mark.skipif(VERSION < (4, 1), reason="Spark 4.0 inserts only rows with all columns of a table")
def test_the_statements_of_the_guide_run(spark: SparkSession, orders: Server) -> None:
    text = block("sql", "CREATE TABLE").replace(URL, orders.url).replace("2026-11-15", "2020-01-01")
    session = spark.newSession()  # Its views are its own.
    try:
        found = [
            [tuple(row) for row in session.sql(statement).collect()]
            for statement in filter(str.strip, text.split(";\n"))
        ]
    finally:
        session.sql("DROP TABLE IF EXISTS orders")
    assert sorted(found[3]) == [("orders.eu", '{"id": 7}'), ("orders.new", '{"id": 6}')]
    assert found[4] == [(2,)]
    assert sorted(found[6]) == [("orders.eu", 4), ("orders.new", 1), ("orders.us", 2)]
