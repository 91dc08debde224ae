"""`spark.readStream`: batches, triggers, limits, restarts."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.running import ADMISSION_CONTROL, Sink, reached, run, start
from tests.spark.support import LONG, Bench, assert_exactly, expected
from tests.support.waiting import wait_until

AT_ONCE = {"processingTime": "0 seconds"}


def offset_of(checkpoint: Path, batch: int) -> dict[str, Any]:
    """The offset of the only source, as the checkpoint has it."""
    offset: dict[str, Any] = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return offset


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As when the driver dies after the sink has taken a batch and before Spark has written that down."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def no_consumers(bench: Bench, stream: str) -> None:
    wait_until(lambda: not list(bench.js.consumer_names(stream)), "the consumers to be gone", LONG)


# --- triggers


def test_a_query_reads_what_comes_after_its_start_and_nothing_twice(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    query = start(bench.read_stream(spark, stream), sink, tmp_path, **AT_ONCE)
    query.processAllAvailable()
    assert sink.texts == []
    bench.publish(stream, 10, first=11)
    query.processAllAvailable()
    assert_exactly(sink.texts, expected(10, first=11))
    batches = len(sink.tried)
    query.processAllAvailable()
    assert len(sink.tried) == batches
    bench.publish(stream, 10, first=21)
    query.processAllAvailable()
    query.stop()
    assert_exactly(sink.texts, expected(20, first=11))
    no_consumers(bench, stream)


def test_a_batch_waits_until_it_has_enough_messages(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 1)
    frame = bench.read_stream(
        spark, stream, startingPosition="earliest", minMessagesPerTrigger=10, maxTriggerDelay="1h"
    )
    query = start(frame, sink, tmp_path, **AT_ONCE)
    query.processAllAvailable()
    assert sink.sizes == [1]
    bench.publish(stream, 4, first=2)
    query.processAllAvailable()
    assert sink.sizes == [1]
    bench.publish(stream, 6, first=6)
    wait_until(lambda: len(sink.sizes) == 2, "the second batch", LONG)
    query.stop()
    assert sink.sizes == [1, 10]


def test_available_now_leaves_what_comes_later_to_the_next_run(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 100)
    sink.before = lambda number: bench.publish(stream, 10, writer=f"late{number}")
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxMessagesPerTrigger=40)
    run(frame, sink, tmp_path)
    assert_exactly(sink.texts, expected(100))
    # Before 4.2 it is one batch, however large.
    assert sink.sizes == ([40, 40, 20] if ADMISSION_CONTROL else [100])
    rest, sink.before = 10 * len(sink.tried), lambda _: None
    run(frame, sink, tmp_path)
    late = [f"late{number}-{count}" for number in range(rest // 10) for count in range(1, 11)]
    assert_exactly(sink.texts, [*expected(100), *late])
    tried = len(sink.tried)
    run(frame, sink, tmp_path)
    assert len(sink.tried) == tried


def test_available_now_that_failed_goes_on_where_it_was(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 100)
    failing = 1 if ADMISSION_CONTROL else 0

    def fail(number: int) -> None:
        if number == failing:
            raise RuntimeError("the sink is full")

    sink.before = fail
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxMessagesPerTrigger=40)
    with pytest.raises(Exception, match="the sink is full"):
        run(frame, sink, tmp_path)
    assert sink.sizes == [40][:failing]
    bench.publish(stream, 10, first=101)
    sink.before = lambda _: None
    run(frame, sink, tmp_path)
    # The batch that failed has the same rows again; before 4.2 it is the only one of this run.
    if ADMISSION_CONTROL:
        assert (sink.tried, sink.sizes) == ([0, 1, 1, 2], [40, 40, 30])
    else:
        assert (sink.tried, sink.sizes) == ([0, 0], [100])
        run(frame, sink, tmp_path)
    assert_exactly(sink.texts, expected(110))


def test_once_is_one_batch_whatever_the_limits_say(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 100)
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxMessagesPerTrigger=40)
    run(frame, sink, tmp_path, once=True)
    assert sink.sizes == [100]
    bench.publish(stream, 100, first=101)
    run(frame, sink, tmp_path, once=True)
    # Before 4.2 nobody says that it is the only batch: after a restart the limits hold.
    assert sink.sizes == ([100, 100] if ADMISSION_CONTROL else [100, 40])
    assert_exactly(sink.texts, expected(200 if ADMISSION_CONTROL else 140))


# --- limits


def test_no_batch_takes_more_messages_than_it_may(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 100)
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxMessagesPerTrigger=30)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 100, query)
    # Before 4.2 the first batch of a new query is not limited.
    first = [30, 30, 30, 10] if ADMISSION_CONTROL else [100]
    assert sink.sizes == first
    bench.publish(stream, 100, first=101)
    reached(sink, 200, query)
    query.stop()
    assert max(sink.sizes[len(first) :]) <= 30
    bench.publish(stream, 100, first=201)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 300, query)
    query.stop()
    assert max(sink.sizes[len(first) :]) <= 30
    assert_exactly(sink.texts, expected(300))


def test_no_batch_takes_many_more_bytes_than_it_may(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 1)
    # The first batch is this one, so that all versions keep to the limit from here on.
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxBytesPerTrigger=30_000)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 1, query)
    with bench.js.publisher() as publisher:
        for number in range(2, 102):
            publisher.send(f"{stream}.a", f"w-{number}".ljust(1000).encode())
    reached(sink, 101, query)
    query.stop()
    assert all(sum(map(len, rows)) <= 31_000 for rows in sink.batches.values())
    assert_exactly((text.strip() for text in sink.texts), expected(101))


def test_a_message_that_is_larger_than_the_limit_is_read_all_the_same(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 3)
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxBytesPerTrigger=1)
    run(frame, sink, tmp_path)
    assert sink.sizes == ([1, 1, 1] if ADMISSION_CONTROL else [3])
    assert_exactly(sink.texts, expected(3))


def test_streams_take_turns_when_a_batch_has_no_room_for_all(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    streams, sink = [bench.stream() for _ in range(3)], Sink()
    for number, stream in enumerate(streams):
        bench.publish(stream, 1, writer=f"first{number}")
    options = {"startingPosition": "earliest", "maxMessagesPerTrigger": 1}
    frame = bench.read_stream(spark, ",".join(streams), **options)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 3, query)
    query.stop()
    for number, stream in enumerate(streams):
        bench.publish(stream, 4, writer=f"w{number}")
    query = start(frame, sink, tmp_path, **AT_ONCE)  # All are there from its first batch on.
    reached(sink, 15, query)
    query.stop()
    assert max(sink.sizes[0 if ADMISSION_CONTROL else 1 :]) == 1
    taken = [text.partition("-")[0] for text in sink.texts[3:]]
    assert Counter(taken[:9]) == {"w0": 3, "w1": 3, "w2": 3}


# --- restarts


def test_the_first_batch_tried_again_begins_where_latest_was_at_first(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)

    def fail(_: int) -> None:
        raise RuntimeError("the sink is full")

    sink.before = fail
    frame = bench.read_stream(spark, stream)
    with pytest.raises(Exception, match="the sink is full"):
        run(frame, sink, tmp_path, **AT_ONCE)
    assert [path.name for path in (tmp_path / "commits").glob("[0-9]*")] == []
    bench.publish(stream, 20, first=11)
    sink.before = lambda _: None
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 20, query)
    query.stop()
    assert_exactly(sink.texts, expected(20, first=11))


def test_the_first_batch_tried_again_has_the_same_rows_though_latest_has_moved(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    """As when messages come after "latest" was resolved and before the end of the first batch was."""
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    frame = bench.read_stream(spark, stream)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    query.processAllAvailable()
    query.stop()
    bench.publish(stream, 20, first=11)
    log = tmp_path / "offsets" / "0"
    offset = offset_of(tmp_path, 0)
    offset["streams"][stream]["next_seq"] = 16
    offset.pop("initial")
    log.write_text("\n".join([*log.read_text().splitlines()[:-1], json.dumps(offset)]))
    (tmp_path / "offsets" / ".0.crc").unlink()
    forget_commit(tmp_path, 0)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 20, query)
    query.stop()
    assert_exactly(sink.batches[0], expected(5, first=11))
    assert_exactly(sink.texts, expected(20, first=11))


def test_a_batch_that_is_tried_again_has_the_same_rows(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    frame = bench.read_stream(spark, stream, startingPosition="earliest")
    run(frame, sink, tmp_path)
    bench.publish(stream, 10, first=11)
    run(frame, sink, tmp_path)
    once = dict(sink.batches)
    forget_commit(tmp_path, max(once))
    bench.publish(stream, 10, first=21)
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, 30, query)
    query.stop()
    assert sink.tried.count(max(once)) == 2
    assert {number: sink.batches[number] for number in once} == once
    assert_exactly(sink.texts, expected(30))


@pytest.mark.faults
def test_stopped_and_started_at_random_nothing_is_lost_or_doubled(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    stream, sink, published, kept = bench.stream(), Sink(), 0, set[str]()
    options = {"startingPosition": "earliest", "maxMessagesPerTrigger": 17, "minPartitions": 3}
    frame = bench.read_stream(spark, stream, **options)
    for _ in range(3):
        count = chance.randrange(1, 60)
        bench.publish(stream, count, first=published + 1)
        new = range(published + 1, published + count + 1)
        gone = set(chance.sample(new, chance.randrange(0, min(count, 5)))) - {published + 1}
        for sequence in gone:
            bench.js.get_stream(stream).delete_message(sequence)
        kept |= {f"w-{number}" for number in new if number not in gone}
        published += count
        query = start(frame, sink, tmp_path, **AT_ONCE)
        # At least one row: Spark refuses a checkpoint that was interrupted in its very first write.
        reached(sink, max(len(kept) - chance.randrange(0, 20), 1), query)
        query.stop()
    query = start(frame, sink, tmp_path, **AT_ONCE)
    reached(sink, len(kept), query)
    query.stop()
    assert_exactly(sink.texts, kept)
    no_consumers(bench, stream)


# --- what a checkpoint and the progress show


def test_a_checkpoint_holds_versioned_offsets_and_no_address_or_secret(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    options = {"startingPosition": json.dumps({stream: 4}), "user": "me", "password": "s3cret"}
    run(bench.read_stream(spark, stream, **options), sink, tmp_path)
    assert_exactly(sink.texts, expected(7, first=4))
    created = bench.js.get_stream(stream).cached_info.created.isoformat(timespec="microseconds")
    assert offset_of(tmp_path, 0) == {
        "version": 1,
        "streams": {stream: {"created": created, "began": 4, "next_seq": 11}},
    }
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"s3cret" not in written
    assert bench.url.removeprefix("nats://").encode() not in written


def test_the_progress_shows_how_far_the_stream_is_ahead(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 10)
    frame = bench.read_stream(spark, stream, startingPosition="earliest", maxMessagesPerTrigger=4)
    query = run(frame, sink, tmp_path)
    shown = [json.loads(each.json)["sources"][0] for each in query.recentProgress if each.numInputRows]
    ends = [source["endOffset"]["streams"][stream]["next_seq"] for source in shown]
    latest = [source["latestOffset"] for source in shown]
    if ADMISSION_CONTROL:
        assert ends == [5, 9, 11]
        assert [offset["streams"][stream]["next_seq"] for offset in latest] == [11, 11, 11]
    else:
        # It shows what was planned, as it does for a source that cannot tell.
        assert (ends, latest) == ([11], [source["endOffset"] for source in shown])


# --- what is done with it


def counted(frame: DataFrame) -> DataFrame:
    windows = frame.groupBy(F.window("timestamp", "100 milliseconds"))
    return windows.agg(F.count("*").alias("messages"), F.min("sequence").alias("first"))


def test_a_watermark_on_the_timestamp_closes_windows(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    bench.publish(stream, 5)
    rows = bench.read(spark, stream).collect()
    last = max(row.timestamp for row in rows)

    def later() -> bool:
        bench.publish(stream, 1, writer="later")
        newest = bench.read(spark, stream).agg(F.max("timestamp")).head(1)[0][0]
        return bool((newest - last).total_seconds() > 0.5)

    wait_until(later, "messages half a second later", LONG)
    table = bench.read(spark, stream)
    newest = table.agg(F.max("timestamp")).head(1)[0][0]
    closed = [
        (row.first, row.messages) for row in counted(table).filter(F.col("window.end") <= newest).collect()
    ]
    found: list[tuple[int, int]] = []
    frame = bench.read_stream(spark, stream, startingPosition="earliest")
    query = (
        counted(frame.withWatermark("timestamp", "0 seconds"))
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(tmp_path))
        .foreachBatch(lambda batch, _: found.extend((row.first, row.messages) for row in batch.collect()))
        .start()
    )
    wait_until(lambda: len(found) >= len(closed) or query.exception() is not None, "closed windows", LONG)
    query.stop()
    assert sorted(found) == sorted(closed)
    assert sum(count for _, count in found) >= 5


def test_a_stream_can_be_used_twice_in_one_query(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream, sink = bench.stream(), Sink()
    bench.publish(stream, 6)
    frame = bench.read_stream(spark, stream, startingPosition="earliest")
    some = frame.filter("sequence <= 2").union(frame.filter("sequence > 4"))
    run(some, sink, tmp_path / "union")
    assert_exactly(sink.texts, [*expected(2), *expected(2, first=5)])
    joined = frame.alias("one").join(
        frame.select(F.col("sequence").alias("s"), F.col("subject").alias("same")), F.expr("sequence = s")
    )
    twice = Sink()
    run(joined.select("data"), twice, tmp_path / "join")
    assert_exactly(twice.texts, expected(6))
