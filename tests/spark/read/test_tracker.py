"""What a query asks the server when it plans. Without Spark, which would be slow."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jetspark import Connection, StreamConfig, connect
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.read.listing import concurrently
from jetspark.server import Server
from jetspark.spark.options import parse_options
from jetspark.spark.read.offsets import ranges_between
from jetspark.spark.read.planning import Limits
from jetspark.spark.read.tracker import Tracker


@pytest_asyncio.fixture
async def nc(server: Server) -> AsyncIterator[Connection]:
    async with await connect(server.url) as connection:
        yield connection


@pytest.fixture
def js(nc: Connection) -> JetStream:
    return JetStream(nc)


NAMES = [f"S{number:03}" for number in range(300)]


async def make(js: JetStream, *names: str) -> None:
    async def one(name: str) -> None:
        await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory"))
        await js.publish(f"{name}.a", b"x")

    await concurrently(one, names)


async def test_a_batch_asks_for_its_streams_once(js: JetStream, nc: Connection) -> None:
    """For the names, and for two pages of streams."""
    await make(js, *NAMES)
    tracker = Tracker(js, parse_options({"stream": "S*", "startingPosition": "earliest"}))
    start = await tracker.begin()
    for first_seq in (1, 2):
        before = nc.statistics.out_msgs
        end = await tracker.advance(start, Limits())
        assert await tracker.latest(end) == end
        ranges = await tracker.clipped(ranges_between(start, end))
        assert nc.statistics.out_msgs - before == 3
        assert [(each.stream, each.first_seq, each.next_seq) for each in ranges] == [
            (name, first_seq, first_seq + 1) for name in NAMES
        ]
        await concurrently(lambda name: js.publish(f"{name}.a", b"x"), NAMES)
        start = end


async def test_what_changed_since_is_seen_when_it_is_asked_for_again(js: JetStream) -> None:
    await make(js, "A")
    tracker = Tracker(js, parse_options({"stream": "A", "startingPosition": "earliest"}))
    start = await tracker.begin()
    end = await tracker.advance(start, Limits())
    [wanted] = await tracker.clipped(ranges_between(start, end))
    assert (wanted.first_seq, wanted.next_seq) == (1, 2)
    assert (await tracker.latest(end)).streams["A"].next_seq == 2
    await js.publish("A.a", b"x")
    assert (await tracker.latest(end)).streams["A"].next_seq == 3


async def test_of_a_repeated_batch_that_is_lost_one_sequence_stays_so_that_a_task_reports_it(
    js: JetStream,
) -> None:
    await make(js, "A")
    for _ in range(9):
        await js.publish("A.a", b"x")
    options = parse_options({"stream": "A", "startingPosition": "earliest"})
    start = await (tracker := Tracker(js, options)).begin()
    end = await tracker.advance(start, Limits(max_messages=6))
    for sequence, expected in ((4, (3, 7)), (7, (6, 7)), (8, (6, 7)), (11, (6, 7))):
        await (await js.get_stream("A")).purge(sequence=sequence)
        [wanted] = await Tracker(js, options).clipped(ranges_between(start, end))
        assert (wanted.first_seq, wanted.next_seq) == expected


async def test_a_stream_deleted_between_two_batches_does_not_stop_the_others(js: JetStream) -> None:
    await make(js, *NAMES[:20])
    tracker = Tracker(
        js, parse_options({"stream": "S*", "startingPosition": "earliest", "failOnDataLoss": "false"})
    )
    start = await tracker.begin()
    end = await tracker.advance(start, Limits())
    await js.delete_stream("S007")
    await make(js, "S999")
    await js.publish("S003.a", b"x")
    later = await tracker.advance(end, Limits())
    ranges = await tracker.clipped(ranges_between(end, later))
    assert [(each.stream, each.first_seq, each.next_seq) for each in ranges] == [
        ("S003", 2, 3),
        ("S999", 1, 2),
    ]
