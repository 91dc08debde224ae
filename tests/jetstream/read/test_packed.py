"""Reading many ranges: the same as one after the other, each complete, with every loss reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import groupby
from typing import Any

import pytest

import jetspark
from jetspark import Connection, ConsumerConfig, DataLoss, StreamConfig
from jetspark.arrow import record_batch
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.manage import streams
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.read.packed import read_ranges
from jetspark.jetstream.read.ranges import FEW, StreamRange, read_range
from jetspark.server import Server
from tests.support.proxy import TCPProxy


async def make(js: JetStream, name: str, messages: int, *, size: int = 0, **config: Any) -> None:
    """A stream whose messages hold its name and their sequence."""
    await js.create_stream(
        StreamConfig(**{"name": name, "subjects": [f"{name}.*"], "storage": "memory", **config})
    )
    if config.get("retention") == "interest":
        await js.create_consumer(name, ConsumerConfig(durable_name="holder"))
    async with js.publisher() as publisher:
        for number in range(1, messages + 1):
            await publisher.send(f"{name}.{number % 2}", f"{name} {number} ".encode().ljust(size))


async def range_of(js: JetStream, name: str, first_seq: int = 1, next_seq: int | None = None) -> StreamRange:
    info = await streams.info(js.api, name)
    end = info.state.last_seq + 1 if next_seq is None else next_seq
    return StreamRange(stream=name, created=info.created, first_seq=first_seq, next_seq=end)


async def read(js: JetStream, ranges: list[StreamRange], **options: Any) -> list[tuple[str, int]]:
    """The stream and sequence of each message that was read; its data is what it should be."""
    found = []
    async for parts in read_ranges(js.api, ranges, **options):
        for stream, chunk in parts:
            batch = record_batch(chunk, stream)
            numbers = batch.column("sequence").to_pylist()
            data = [bytes(each).split() for each in batch.column("data").to_pylist()]
            assert data == [[stream.encode(), str(number).encode()] for number in numbers]
            found += [(stream, number) for number in numbers]
    return found


SIZES = [0, 1, 3, FEW, FEW + 1, 200, 2, 1500, 5, 900, 1]


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
async def test_ranges_of_any_size_come_whole_and_in_order(
    js: JetStream, nc: Connection, retention: str
) -> None:
    config: dict[str, Any] = {"retention": retention, "allow_direct": retention != "limits"}
    for number, size in enumerate(SIZES):
        await make(js, f"S{number}", size, **config)
    ranges = [await range_of(js, f"S{number}") for number in range(len(SIZES))]
    before = len(nc.session.receivers)
    assert await read(js, ranges) == [
        (f"S{number}", seq) for number, size in enumerate(SIZES) for seq in range(1, size + 1)
    ]
    assert len(nc.session.receivers) == before


@pytest.mark.parametrize("subjects", [("*.1",), ("*.0", "none.*"), ("none.*",)], ids=str)
async def test_filters_apply_to_every_range(js: JetStream, subjects: tuple[str, ...]) -> None:
    for number, size in enumerate(SIZES):
        await make(js, f"S{number}", size)
    ranges = [await range_of(js, f"S{number}") for number in range(len(SIZES))]
    rest = {"*.1": 1, "*.0": 0}.get(subjects[0])
    assert await read(js, ranges, subjects=subjects) == [
        (f"S{number}", seq)
        for number, size in enumerate(SIZES)
        for seq in range(1, size + 1)
        if seq % 2 == rest
    ]


async def test_gaps_are_passed(js: JetStream) -> None:
    ranges = []
    for number in range(20):
        await make(js, f"S{number}", 6)
        ranges.append(await range_of(js, f"S{number}"))
        await (await js.get_stream(f"S{number}")).delete_message(number % 5 + 2)
    assert await read(js, ranges) == [
        (f"S{number}", seq) for number in range(20) for seq in range(1, 7) if seq != number % 5 + 2
    ]


async def test_many_small_streams_need_no_consumer(js: JetStream, nc: Connection) -> None:
    names = [f"S{number:03}" for number in range(200)]
    await concurrently(lambda name: make(js, name, 3), names)
    ranges = [await range_of(js, name) for name in names]
    before = nc.statistics.out_msgs
    async with aclosing(read_ranges(js.api, ranges)) as arriving:
        batches = [parts async for parts in arriving]
    assert [len(parts) for parts in batches] == [200]  # One batch for Spark, not one of each stream.
    assert nc.statistics.out_msgs - before == 200 * (3 + 1)


async def test_few_messages_are_the_same_as_from_a_consumer(js: JetStream) -> None:
    """With and without headers, empty, and with a subject beyond ASCII."""
    await js.create_stream(StreamConfig(name="S", subjects=["s.>"]))
    await js.publish("s.a", b"")
    await js.publish("s.<&>é", bytes(range(256)), headers={"A": ["1", "2"], "B": "ü"})
    for _ in range(FEW):
        await js.publish("s.b", b"x" * 1000)
    few, many = await range_of(js, "S", 1, FEW + 1), await range_of(js, "S", 1, FEW + 2)
    [chunk] = [chunk async for chunk in read_range(js.api, few)]
    [longer] = [chunk async for chunk in read_range(js.api, many)]
    assert record_batch(chunk, "S") == record_batch(longer, "S").slice(0, FEW)
    streams = [name for name, _ in groupby(["S", "T"] * (FEW // 2))]
    assert record_batch(chunk, streams).column("stream").to_pylist() == streams


# --- losses


async def test_each_loss_is_reported_and_the_other_ranges_are_read(js: JetStream) -> None:
    ranges = []
    for number, size in enumerate([3, 3, 3, 3, 30, 3]):
        await make(js, f"S{number}", size)
        ranges.append(await range_of(js, f"S{number}"))
    await (await js.get_stream("S1")).purge(sequence=3)
    await js.delete_stream("S2")
    await make(js, "S2", 3)
    await js.delete_stream("S3")
    losses: list[DataLoss] = []
    found = await read(js, ranges, on_loss=losses.append)
    assert [
        (loss.stream, loss.first_seq, loss.next_seq) for loss in sorted(losses, key=lambda x: x.stream)
    ] == [
        ("S1", 1, 3),
        ("S2", 1, 4),
        ("S3", 1, 4),
    ]
    whole = [(f"S{number}", seq) for number, size in ((0, 3), (4, 30), (5, 3)) for seq in range(1, size + 1)]
    assert found == sorted([*whole, ("S1", 3)])
    with pytest.raises(DataLoss, match="S1 lost the sequences"):
        await read(js, ranges)


async def purge(js: JetStream) -> None:
    await (await js.get_stream("S")).purge()


async def recreate(js: JetStream) -> None:
    await js.delete_stream("S")
    await make(js, "S", 3)


@pytest.mark.parametrize(
    ("disturb", "losses"),
    [
        (purge, []),
        (recreate, [("S", 1, 4)]),
        (lambda js: js.delete_stream("S"), [("S", 1, 4)]),
    ],
    ids=["purged", "recreated", "deleted"],
)
async def test_few_messages_are_returned_only_if_the_stream_is_still_the_same(
    js: JetStream, proxy: TCPProxy, disturb: Callable[[JetStream], Any], losses: list[tuple[str, int, int]]
) -> None:
    """Something happens after the messages arrived, and before the stream is checked."""
    await make(js, "S", 3)
    wanted = await range_of(js, "S")
    arrived, answers = asyncio.Event(), 0

    def stall_then(data: bytes) -> bytes:
        nonlocal answers
        answers += data.count(b"stream_msg_get_response")
        if answers == 3 and not arrived.is_set():
            proxy.stall()
            arrived.set()
        return data

    async with await jetspark.connect(proxy.url) as nc:
        proxy.server_to_client = stall_then
        reported: list[DataLoss] = []
        reading = asyncio.create_task(read(JetStream(nc), [wanted], on_loss=reported.append))
        await arrived.wait()
        await disturb(js)
        proxy.unstall()
        found = await reading
    assert [(loss.stream, loss.first_seq, loss.next_seq) for loss in reported] == losses
    assert found == ([] if losses else [("S", 1), ("S", 2), ("S", 3)])


# --- limits and faults


async def test_large_messages_are_not_read_all_at_once(js: JetStream, nc: Connection) -> None:
    for number in range(40):
        await make(js, f"S{number}", 4, size=500_000)
    ranges = [await range_of(js, f"S{number}") for number in range(40)]
    before = nc.statistics.in_bytes
    async with aclosing(read_ranges(js.api, ranges)) as arriving:
        await anext(arriving)
        await asyncio.sleep(0.3)  # Nothing to wait for: it is what must not come.
        received = nc.statistics.in_bytes - before
    assert received < 30_000_000  # Of 80 MB, 107 as JSON.


async def test_connections_that_break_cost_nothing(js: JetStream, proxy: TCPProxy) -> None:
    names = [f"S{number:03}" for number in range(100)]
    await concurrently(lambda name: make(js, name, 20 if name.endswith("0") else 3), names)
    ranges = [await range_of(js, name) for name in names]
    received = 0

    def cut_sometimes(data: bytes) -> bytes | None:
        nonlocal received
        received += len(data)
        if received > 30_000 and proxy.accepted < 4:
            received = 0
            proxy.cut()
            return None
        return data

    proxy.server_to_client = cut_sometimes
    async with asyncio.timeout(60), await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        found = await read(JetStream(nc), ranges)
    assert found == [(each.stream, seq) for each in ranges for seq in range(1, each.next_seq)]
    assert proxy.accepted >= 4


async def test_a_server_that_is_killed_and_started_again_costs_nothing(server: Server) -> None:
    async with asyncio.timeout(60), await jetspark.connect(server.url, reconnect_wait=0.05) as nc:
        js = JetStream(nc, timeout=30)
        names = [f"S{number:03}" for number in range(100)]
        await concurrently(lambda name: make(js, name, 3, storage="file"), names)
        ranges = [await range_of(js, name) for name in names]
        server.kill()
        reading = asyncio.create_task(read(js, ranges))
        await asyncio.to_thread(server.start)
        assert await reading == [(name, seq) for name in names for seq in (1, 2, 3)]


async def test_leaving_early_leaves_nothing_behind(js: JetStream, nc: Connection, tidy: None) -> None:
    for number in range(10):
        await make(js, f"S{number}", 900, size=10_000)
    ranges = [await range_of(js, f"S{number}") for number in range(10)]
    async with aclosing(read_ranges(js.api, ranges)) as arriving:
        await anext(arriving)
    # Consumers that were being created are deleted once the server has answered.
    async with asyncio.timeout(30):
        for number in range(10):
            while [name async for name in js.consumer_names(f"S{number}")]:
                await asyncio.sleep(0.01)
