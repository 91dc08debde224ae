"""Rows that cannot be handled, from `foreachBatch`: parsed apart, returned, terminated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark import ConsumerConfig, UsageError
from jetspark.jetstream.model.advisories import MessageTerminated
from jetspark.spark import nak_rows, split_poison, term_rows
from tests.spark.running import ADMISSION_CONTROL
from tests.spark.support import LONG, Bench, texts
from tests.support.waiting import wait_until


def parse(rows: DataFrame) -> DataFrame:
    """Numbers are good."""
    number = F.expr("try_cast(string(data) AS int)")
    return rows.withColumns({"number": number, "_reason": F.when(number.isNull(), F.lit("not a\nnumber"))})


def test_rows_that_do_not_parse_become_messages_with_the_reason(spark: SparkSession, bench: Bench) -> None:
    stream, dead = bench.stream(), bench.stream()
    for payload in (b"1", b"two", b"3", b"f" * 100):
        bench.js.publish(f"{stream}.a", payload, headers={"Trace": "x", "Nats-TTL-Not": "y"})
    good, poison = split_poison(bench.read(spark, stream), parse, max_bytes=50)
    assert sorted(row.number for row in good.select("number").collect()) == [1, 3]
    assert "_reason" not in good.columns
    for _ in range(2):  # A repeated batch adds nothing.
        writer = poison.write.format("jetstream").mode("append").option("servers", bench.url)
        writer.option("subject", f"{dead}.x").save()
    letters = {bytes(row.data): row for row in bench.read(spark, dead).collect()}
    assert sorted(letters) == [b"f" * 50, b"two"]
    headers = letters[b"two"].headers
    assert headers["Dead-Letter-Reason"] == ["not a?number"]
    assert headers["Dead-Letter-Stream"] == [stream]
    assert headers["Dead-Letter-Sequence"] == ["2"]
    assert headers["Dead-Letter-Subject"] == [f"{stream}.a"]
    assert '"Trace":["x"]' in headers["Dead-Letter-Headers"][0]
    assert "Dead-Letter-Truncated" not in headers
    assert letters[b"f" * 50].headers["Dead-Letter-Truncated"] == ["true"]


def test_a_parser_that_forgets_columns_is_refused(spark: SparkSession, bench: Bench) -> None:
    rows = bench.read(spark, bench.stream())
    with pytest.raises(UsageError, match="without timestamp, _reason"):
        split_poison(rows, lambda rows: rows.drop("timestamp"))


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="Spark passes no start offset before 4.2")
def test_rows_are_returned_and_terminated_from_foreach_batch(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream(retention="workqueue", allow_direct=True)
    bench.js.create_consumer(stream, ConsumerConfig(durable_name="worker", max_ack_pending=100))
    for number in range(10):
        bench.js.publish(f"{stream}.a", b"%d" % number)
    options = bench.options(stream, consumer="worker", allowNak="true", maxMessagesPerTrigger=100)
    seen: Counter[tuple[str, int]] = Counter()

    def handle(batch: DataFrame, _: int) -> None:
        for row in batch.selectExpr("string(data) AS text", "num_delivered").collect():
            seen[row.text, row.num_delivered] += 1
        assert nak_rows(batch.where("string(data) = '3' AND num_delivered = 1"), options) in (0, 1)
        assert term_rows(batch.where("string(data) = '7'"), options, "never seven") in (0, 1)

    reader = spark.readStream.format("jetstream").options(**options).load()
    writer = reader.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path))
    with bench.js.advisories(["terminated"], stream=stream, consumer="worker") as events:
        query = writer.trigger(processingTime="0 seconds").start()
        try:

            def done() -> bool:
                if error := query.exception():
                    raise error
                return ("3", 2) in seen and not bench.js.get_stream(stream).cached_info.state.messages

            wait_until(done, "an empty queue", LONG)
        finally:
            query.stop()
        event = events.next(timeout=LONG)
    assert isinstance(event, MessageTerminated)
    assert (event.stream_seq, event.reason) == (8, "never seven")
    assert seen == {**{(str(number), 1): 1 for number in range(10)}, ("3", 2): 1}


def test_what_cannot_be_settled_is_an_error(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 1)
    rows = bench.read(spark, stream)
    with pytest.raises(UsageError, match="missing option consumer"):
        term_rows(rows, bench.options(stream))
    with pytest.raises(UsageError, match="needs a query with the option allowNak"):
        nak_rows(rows, bench.options(stream, consumer="worker"))
    with pytest.raises(UsageError, match="no running query is a worker of consumer nobody"):
        nak_rows(rows, bench.options(stream, consumer="nobody", allowNak="true"))
    assert texts(rows) == ["w-1"]
