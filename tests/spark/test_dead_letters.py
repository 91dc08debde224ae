"""The option `deadLetters`: what a consumer gave up, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from jetspark import ConsumerConfig, blocking
from jetspark.server import Server
from tests.spark.running import ADMISSION_CONTROL, error_of
from tests.spark.support import LONG, Bench, assert_exactly, expected, finish, texts, to_parquet
from tests.support.waiting import wait_until


@pytest.fixture
def own(server: Server) -> Iterator[Bench]:
    """On a server of its own, because one stream captures the advisories of all."""
    with blocking.connect(server.url) as connection:
        js = connection.jetstream(timeout=30)
        js.create_advisory_stream()
        yield Bench(server.url, js)


def give_up(bench: Bench, stream: str, known: int, *, reason: str = "") -> None:
    """Let the messages that wait become dead letters: terminated, or never acknowledged."""
    consumer = bench.js.get_consumer(stream, "worker")

    def done() -> bool:
        for message in consumer.fetch_no_wait(100):
            if reason:
                message.term(reason)
            else:
                message.nak()
        return bench.js.get_stream("ADVISORIES").cached_info.state.messages >= known and (
            len(list(bench.js.dead_letters(stream, "worker"))) >= known
        )

    wait_until(done, f"{known} dead letters", LONG)


def table(spark: SparkSession, bench: Bench, stream: str, **options: object) -> DataFrame:
    reader = spark.read.format("jetstream").option("servers", bench.url)
    return reader.options(
        deadLetters=f"{stream}/worker", **{key: str(each) for key, each in options.items()}
    ).load()


def test_dead_letters_are_a_table_joined_to_their_messages(
    spark: SparkSession, own: Bench, tmp_path: Path
) -> None:
    stream = own.stream()
    own.js.create_consumer(stream, ConsumerConfig(durable_name="worker", max_deliver=2))
    own.js.publish(f"{stream}.a", b"poison", headers={"Trace": "t1"})
    give_up(own, stream, 1)
    own.publish(stream, 2)
    give_up(own, stream, 3, reason="cannot be parsed")
    own.js.get_stream(stream).delete_message(3)
    rows = {row.sequence: row for row in table(spark, own, stream).collect()}
    assert sorted(rows) == [1, 2, 3]
    first = rows[1]
    assert (first.stream, first.consumer, first.kind, first.reason) == (
        stream,
        "worker",
        "max_deliveries",
        None,
    )
    assert (first.deliveries, first.gone, first.subject, bytes(first.data)) == (
        2,
        False,
        f"{stream}.a",
        b"poison",
    )
    assert first.headers == {"Trace": ["t1"]}
    assert first.timestamp <= first.given_up
    assert (rows[2].kind, rows[2].reason, bytes(rows[2].data)) == ("terminated", "cannot be parsed", b"w-1")
    assert (rows[3].gone, rows[3].data, rows[3].subject, rows[3].headers) == (True, None, None, None)
    # As a stream, with a checkpoint.
    reader = spark.readStream.format("jetstream").option("servers", own.url)
    frame = reader.options(deadLetters=f"{stream}/worker", startingPosition="earliest").load()
    finish(to_parquet(frame, tmp_path))
    own.publish(stream, 1, first=3)
    give_up(own, stream, 4, reason="again")
    finish(to_parquet(frame, tmp_path))
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.sequence for row in found.collect()) == [1, 2, 3, 4]
    # SQL over poison messages.
    found.createOrReplaceTempView("poison")
    counts = spark.sql("SELECT kind, count(*) AS n FROM poison GROUP BY kind").collect()
    assert {row.kind: row.n for row in counts} == {"max_deliveries": 1, "terminated": 3}


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="Spark passes no start offset before 4.2")
def test_a_poison_message_reaches_max_deliver_is_in_the_table_and_handled_after_a_replay(
    spark: SparkSession, own: Bench, tmp_path: Path
) -> None:
    stream = own.stream(retention="workqueue", allow_direct=True)
    own.js.create_consumer(stream, ConsumerConfig(durable_name="worker", max_deliver=3, max_ack_pending=100))
    own.publish(stream, 1, writer="poison")
    give_up(own, stream, 1)
    own.publish(stream, 4)
    frame = own.read_stream(spark, stream, consumer="worker", maxMessagesPerTrigger=100)
    finish(to_parquet(frame, tmp_path))
    assert_exactly(texts(spark.read.parquet(str(tmp_path / "out"))), expected(4))
    [row] = table(spark, own, stream).collect()
    assert (row.sequence, row.deliveries, bytes(row.data)) == (1, 3, b"poison-1")
    [letter] = own.js.dead_letters(stream, "worker")
    assert own.js.replay_dead_letter(letter).sequence == 6
    own.js.purge_dead_letters(stream, "worker", messages=True)
    finish(to_parquet(frame, tmp_path))
    assert_exactly(texts(spark.read.parquet(str(tmp_path / "out"))), [*expected(4), "poison-1"])
    assert own.js.get_stream(stream).cached_info.state.messages == 0
    assert table(spark, own, stream).count() == 0


def test_without_captured_advisories_the_way_out_is_said(spark: SparkSession, server: Server) -> None:
    reader = spark.read.format("jetstream").option("servers", server.url)
    said = error_of(lambda: reader.option("deadLetters", "ORDERS/worker").load().collect())
    assert "no stream captures $JS.EVENT.ADVISORY" in said
    assert "create_advisory_stream" in said


def test_options_of_other_reads_are_refused(spark: SparkSession, bench: Bench) -> None:
    assert "deadLetters must be STREAM/CONSUMER" in error_of(
        lambda: spark.read.format("jetstream").option("deadLetters", "ORDERS").load()
    )
    said = error_of(lambda: bench.read(spark, "A", deadLetters="A/b"))
    assert "options deadLetters and stream exclude each other" in said
