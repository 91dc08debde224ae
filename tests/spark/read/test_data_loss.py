"""Messages removed before they were read: an error or a warning, and never a repeated row."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import jetspark
from jetspark import DataLoss, StreamConfig
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.timing import Timing
from jetspark.server import Server
from jetspark.spark.options import parse_options
from jetspark.spark.read.offsets import Offset, StreamOffset, ranges_between
from jetspark.spark.read.planning import Limits
from jetspark.spark.read.tracker import Tracker
from tests.spark.running import Sink, error_of, run
from tests.spark.support import LONG, Bench, assert_exactly, expected, texts
from tests.support.waiting import wait_until

# --- changes to streams that hold the messages 11 to 20, for a query that has read 1 to 10


def purge(bench: Bench, name: str) -> None:
    bench.js.get_stream(name).purge(sequence=16)


def purge_all(bench: Bench, name: str) -> None:
    bench.js.get_stream(name).purge()


def age(bench: Bench, name: str) -> None:
    """All of them are too old, and then the limit is as wide as before."""
    stream = bench.js.get_stream(name)
    stream.update(stream.config.replace(max_age=0.1, duplicate_window=0.1))
    wait_until(lambda: stream.info().state.messages == 0, "the end of the messages", LONG)
    stream.update(stream.config.replace(max_age=3600.0))


def crowd_out(bench: Bench, name: str) -> None:
    """Five stay."""
    stream = bench.js.get_stream(name)
    stream.update(stream.config.replace(max_msgs=5))


def recreate(bench: Bench, name: str) -> None:
    """A new one with the same name, whose messages have the same sequences.

    It is no shorter: a shorter one is not believed at once, and a test below has one.
    """
    bench.js.delete_stream(name)
    bench.js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
    bench.publish(name, 20, writer="again")


#: The remaining messages of 11 to 20, the end of the loss, and the error.
Change = Callable[[Bench, str], None]
CHANGES: dict[Change, tuple[list[str], int | None, str]] = {
    purge: (expected(5, first=16), 16, "purged; the stream begins at 16 now"),
    purge_all: ([], 21, "the stream is empty; it was purged"),
    age: ([], 21, "or reached max_age=3600.0"),
    crowd_out: (expected(5, first=16), 16, "removed by max_msgs=5"),
    recreate: (expected(20, writer="again"), None, "the stream was deleted and created again"),
}


def said(name: str, first: int, end: int | None) -> str:
    return f"stream {name} lost the sequences [{first}, {'...' if end is None else end}): "


def test_what_is_lost_between_batches_is_raised_or_logged(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    """One query for several streams, to each of which something happens."""
    streams, sink, wanted = {change: bench.stream() for change in CHANGES}, Sink(), list[str]()

    def read(fail_on_data_loss: str) -> None:
        options = {"startingPosition": "earliest", "failOnDataLoss": fail_on_data_loss}
        run(bench.read_stream(spark, ",".join(streams.values()), **options), sink, tmp_path)

    def publish(name: str, *, first: int = 1) -> None:
        bench.publish(name, 10, first=first, writer=f"{name}/w")

    for name in streams.values():
        publish(name)
        wanted += expected(10, writer=f"{name}/w")
    read("true")
    assert_exactly(sink.texts, wanted)
    for change, name in streams.items():
        left, end, cause = CHANGES[change]
        publish(name, first=11)
        change(bench, name)
        message = error_of(lambda: read("true"))
        assert said(name, 11, end) in message
        assert cause in message
        assert "failOnDataLoss" in message
        read("false")
        wanted += [text if change is recreate else f"{name}/{text}" for text in left]
        assert_exactly(sink.texts, wanted)
        # From here on it is as if nothing had been.
        bench.publish(name, 2, writer=f"{name}/new")
        wanted += expected(2, writer=f"{name}/new")
    read("true")
    assert_exactly(sink.texts, wanted)


@pytest.mark.parametrize(
    "change", [purge, purge_all, crowd_out, recreate], ids=lambda change: change.__name__
)
def test_what_is_lost_while_a_batch_is_read_is_raised_or_logged(
    spark: SparkSession, bench: Bench, tmp_path: Path, change: Change
) -> None:
    """The first batch is planned, fails, and is tried again: it has to be what was planned.

    "Earliest" is somewhere else by then, which must not hide what is lost.
    """
    name, sink = bench.stream(), Sink()
    bench.publish(name, 20)

    def fail(_: int) -> None:
        raise RuntimeError("the sink is full")

    def read(fail_on_data_loss: str) -> None:
        options = {"startingPosition": "earliest", "failOnDataLoss": fail_on_data_loss, "minPartitions": 3}
        run(bench.read_stream(spark, name, **options), sink, tmp_path)

    sink.before = fail
    assert "the sink is full" in error_of(lambda: read("true"))
    sink.before = lambda _: None
    change(bench, name)
    left, end, cause = CHANGES[change]
    message = error_of(lambda: read("true"))
    assert f"stream {name} lost the sequences [" in message
    assert cause in message
    if end is not None:
        assert f", {end}): " in message
    read("false")
    if change is recreate:
        # Nothing of the planned batch is left; the messages of the new stream come in the next one.
        assert sink.batches[0] == []
        read("false")
    assert_exactly(sink.texts, left)


def test_gaps_that_are_no_losses_are_passed(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    """Deleted messages between others, purged subjects, and messages that newer ones replaced."""
    deleted, replaced, sink = bench.stream(), bench.stream(max_msgs_per_subject=1), Sink()
    frame = bench.read_stream(spark, f"{deleted},{replaced}", startingPosition="earliest")
    wanted: list[str] = []
    for first in (1, 11):
        bench.publish(deleted, 5, first=first, writer="d")
        bench.publish(deleted, 3, first=first, writer="purged", token="b")
        bench.publish(deleted, 2, first=first, writer="last")
        bench.js.get_stream(deleted).delete_message(first + 2)
        bench.js.get_stream(deleted).purge(subject=f"{deleted}.b")
        wanted += [text for text in expected(5, first=first, writer="d") if text != f"d-{first + 2}"]
        wanted += expected(2, first=first, writer="last")
        for token in ("x", "y"):
            bench.publish(replaced, 10, first=first, writer=token, token=token)
            wanted.append(f"{token}-{first + 9}")
        run(frame, sink, tmp_path)
        assert_exactly(sink.texts, wanted)
    table = bench.read(spark, f"{deleted},{replaced}")
    assert_exactly(texts(table), [text for text in wanted if text not in ("x-10", "y-10")])


# --- tables


def test_a_table_from_a_sequence_that_is_gone_is_a_loss_and_from_the_earliest_is_none(
    spark: SparkSession, bench: Bench
) -> None:
    name = bench.stream()
    bench.publish(name, 20)
    purge(bench, name)
    three = json.dumps({name: 3})
    assert_exactly(texts(bench.read(spark, name)), expected(5, first=16))
    message = error_of(lambda: bench.read(spark, name, startingPosition=three).collect())
    assert said(name, 3, 16) in message
    kept = bench.read(spark, name, startingPosition=three, failOnDataLoss="false")
    assert_exactly(texts(kept), expected(5, first=16))


def test_what_a_table_loses_while_it_is_read_is_a_loss_if_it_was_asked_for_by_sequence(
    spark: SparkSession, bench: Bench
) -> None:
    """It is planned when it is collected for the first time; the second time reads the same ranges."""
    name = bench.stream()
    bench.publish(name, 20)
    one = json.dumps({name: 1})
    strict = bench.read(spark, name, startingPosition=one).select("data")
    lenient = bench.read(spark, name, startingPosition=one, failOnDataLoss="false").select("data")
    whatever = bench.read(spark, name).select("data")

    def found(frame: DataFrame) -> list[str]:
        return [bytes(row.data).decode() for row in frame.collect()]

    for frame in (strict, lenient, whatever):
        assert_exactly(found(frame), expected(20))
    purge(bench, name)
    assert said(name, 1, 16) in error_of(strict.collect)
    assert_exactly(found(lenient), expected(5, first=16))
    assert_exactly(found(whatever), expected(5, first=16))
    recreate(bench, name)
    for frame in (strict, whatever):
        message = error_of(frame.collect)
        assert f"{said(name, 1, 21)}the stream was deleted and created again" in message
    assert found(lenient) == []
    assert_exactly(texts(bench.read(spark, name)), expected(20, writer="again"))
    bench.js.delete_stream(name)
    assert f"{said(name, 1, 21)}the stream was deleted" in error_of(whatever.collect)


# --- streams that are shorter than they were. Without Spark, which would be slow, and would wait longer


async def test_a_shorter_stream_that_was_created_again_is_another_one(shared_server: Server) -> None:
    name = f"S{secrets.token_hex(4)}"
    async with await jetspark.connect(shared_server.url) as nc:
        js = JetStream(nc)
        js.api.timing = Timing(stream_missing=0.1)
        config = StreamConfig(name=name, subjects=[f"{name}.>"])
        created = (await (await js.create_stream(config)).info()).created
        before = Offset({name: StreamOffset(created=created, began=1, next_seq=11)})
        await js.delete_stream(name)
        await js.create_stream(config)
        for _ in range(5):
            await js.publish(f"{name}.a")
        strict = Tracker(js, parse_options({"stream": name}))
        with pytest.raises(DataLoss, match=re.escape(said(name, 11, None))):
            await strict.advance(before, Limits())
        lenient = Tracker(js, parse_options({"stream": name, "failOnDataLoss": "false"}))
        [wanted] = ranges_between(before, await lenient.advance(before, Limits()))
        assert (wanted.first_seq, wanted.next_seq) == (1, 6)


async def test_behind_the_end_of_a_restored_stream_reading_goes_on_there(shared_server: Server) -> None:
    """Even if the query began after that end."""
    name = f"S{secrets.token_hex(4)}"
    async with await jetspark.connect(shared_server.url) as nc:
        js = JetStream(nc)
        js.api.timing = Timing(stream_missing=0.1)
        stream = await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], first_seq=41))
        for _ in range(10):
            await js.publish(f"{name}.a")
        created = (await stream.info()).created
        before = Offset({name: StreamOffset(created=created, began=71, next_seq=81)})
        strict = Tracker(js, parse_options({"stream": name}))
        with pytest.raises(DataLoss, match=re.escape(said(name, 51, 81))):
            await strict.advance(before, Limits())
        lenient = Tracker(js, parse_options({"stream": name, "failOnDataLoss": "false"}))
        offset = await lenient.advance(before, Limits())
        assert ranges_between(before, offset) == []
        for _ in range(5):
            await js.publish(f"{name}.a")
        later = await lenient.advance(offset, Limits())
        for start in (before, offset):
            [wanted] = ranges_between(start, later)
            assert (wanted.first_seq, wanted.next_seq) == (51, 56)
