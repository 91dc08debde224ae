"""Reading ranges of sequences: all that is there, once, in order, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, pairwise
from typing import Any

import pytest
import pytest_asyncio

import jetspark
from jetspark import (
    APIError,
    ConsumerConfig,
    ConsumerNotFound,
    DataLoss,
    JetStreamUnavailable,
    StreamConfig,
    StreamNotFound,
    Timeout,
    UsageError,
)
from jetspark.arrow import record_batch, without_data
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.lookup import first_at
from jetspark.jetstream.read.ranges import Chunk, StreamRange, read_range, reads_direct
from jetspark.jetstream.stream import Stream
from jetspark.server import Cluster, Server
from jetspark.wire import PubFrame
from tests.support.consuming import until
from tests.support.leaders import leader_of
from tests.support.proxy import TCPProxy
from tests.support.scripted import Peer, ScriptedServer
from tests.support.timing import set_timing

#: Larger than what is buffered ahead: 300 of these are read in several turns.
LARGE = 100_000
MANY = 300


async def make(
    js: JetStream,
    messages: int = 0,
    *,
    size: int = 0,
    subject: Callable[[int], str] = lambda number: f"orders.{number % 3}",
    **config: Any,
) -> Stream:
    """A stream ORDERS; the data of its messages begins with their sequence."""
    stream = await js.create_stream(
        StreamConfig(**{"name": "ORDERS", "subjects": ["orders.>"], "storage": "memory", **config})
    )
    await add(js, 1, messages, size=size, subject=subject)
    return stream


async def add(
    js: JetStream,
    first: int,
    last: int,
    *,
    size: int = 0,
    subject: Callable[[int], str] = lambda number: f"orders.{number % 3}",
) -> None:
    """Messages whose data begins with these numbers."""
    async with js.publisher() as publisher:
        for number in range(first, last + 1):
            await publisher.send(subject(number), f"{number} ".encode().ljust(size))


async def range_of(stream: Stream, first_seq: int = 1, next_seq: int | None = None) -> StreamRange:
    info = await stream.info()
    end = info.state.last_seq + 1 if next_seq is None else next_seq
    return StreamRange(stream=stream.name, created=info.created, first_seq=first_seq, next_seq=end)


async def test_without_payloads_the_same_rows_come_with_their_sizes(js: JetStream) -> None:
    """By single gets, by a consumer, and by direct gets: with the headers of the messages alone."""
    for retention in ("limits", "workqueue"):
        stream = await make(js, 0, retention=retention, allow_direct=True)
        for number in range(40):
            headers = {"n": str(number)} if number % 2 else None
            await js.publish(f"orders.{number}", bytes(number), headers=headers)
        for first_seq, next_seq in ((1, 4), (1, 41)):
            wanted = await range_of(stream, first_seq, next_seq)
            chunks = [chunk async for chunk in read_range(js.api, wanted, headers_only=True)]
            batch = without_data(list(chain.from_iterable(chunks)), "ORDERS")
            whole = [chunk async for chunk in read_range(js.api, wanted)]
            expected = record_batch(list(chain.from_iterable(whole)), "ORDERS")
            assert batch.column("size").to_pylist() == [len(data.as_py()) for data in expected["data"]]
            assert batch.drop_columns(["size"]) == expected.drop_columns(["data"])
        await stream.delete()


async def test_an_outage_may_be_shorter(js: JetStream) -> None:
    wanted = StreamRange(stream="NONE", created=datetime.now(UTC), first_seq=1, next_seq=100)
    await js.connection.close()
    with pytest.raises(jetspark.Error):
        async for _ in read_range(js.api, wanted, outage=0.01):
            pass


def sequences(chunk: Chunk) -> list[int]:
    """Those of a chunk, whose data is what it should be."""
    batch = record_batch(chunk, "ORDERS")
    found: list[int] = batch.column("sequence").to_pylist()
    assert [int(data.split()[0]) for data in batch.column("data").to_pylist()] == found
    return found


async def read(js: JetStream, wanted: StreamRange, *subjects: str, **options: Any) -> list[int]:
    """The sequences that were read."""
    found = []
    async for chunk in read_range(js.api, wanted, subjects=subjects, **options):
        assert chunk
        found += sequences(chunk)
    return found


async def no_consumers(stream: Stream) -> None:
    async def none() -> bool:
        return not [name async for name in stream.consumer_names()]

    await until(none, "the consumers to be gone")


@pytest.fixture(params=["limits", "workqueue", "interest"])
def retention(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Streams of all kinds: the first is read by a consumer, the others by direct get."""
    return {"retention": request.param, "allow_direct": request.param != "limits"}


async def hold(stream: Stream, config: dict[str, Any]) -> None:
    """An interest stream keeps nothing without a consumer."""
    if config["retention"] == "interest":
        await stream.create_consumer(ConsumerConfig(durable_name="holder"))


# --- what is read


async def test_a_whole_stream_comes_in_order_in_several_chunks(js: JetStream) -> None:
    stream = await make(js, 25_000, size=1000)  # More than fits into the buffer.
    sizes, found = [], []
    async for chunk in read_range(js.api, await range_of(stream)):
        sizes.append(len(chunk))
        found += sequences(chunk)
    assert found == list(range(1, 25_001))
    assert len(sizes) > 1
    await no_consumers(stream)


async def test_a_part_is_exactly_that_part(js: JetStream, retention: dict[str, Any]) -> None:
    stream = await make(js, **retention)
    await hold(stream, retention)
    await add(js, 1, 30)
    for first_seq, next_seq in [(1, 2), (1, 31), (7, 20), (30, 31), (5, 5), (9, 3)]:
        assert await read(js, await range_of(stream, first_seq, next_seq)) == list(range(first_seq, next_seq))


FILTERS: dict[tuple[str, ...], list[int]] = {
    (): [4, 5, 6, 7, 8, 9, 10],
    ("orders.1",): [4, 7, 10],
    ("orders.>",): [4, 5, 6, 7, 8, 9, 10],
    ("orders.*",): [4, 5, 6, 7, 8, 9, 10],
    ("orders.1", "orders.2"): [4, 5, 7, 8, 10],
    ("orders.0", "orders.*.x"): [6, 9],
    ("orders.7",): [],
    ("orders.7", "orders.8"): [],
    ("orders",): [],
}


async def test_only_what_matches_a_filter_is_read(js: JetStream, retention: dict[str, Any]) -> None:
    stream = await make(js, **retention)
    await hold(stream, retention)
    await add(js, 1, 15)
    wanted = await range_of(stream, 4, 11)
    for subjects, matching in FILTERS.items():
        assert await read(js, wanted, *subjects) == matching, subjects


@pytest.mark.parametrize("more", [0, 5], ids=["at-the-end-of-the-stream", "before-others"])
async def test_gaps_are_passed_and_a_range_may_end_in_one(
    js: JetStream, retention: dict[str, Any], more: int
) -> None:
    stream = await make(js, **retention)
    await hold(stream, retention)
    await add(js, 1, 20 + more)
    for gone in (2, 3, 10, 19, 20):
        await stream.delete_message(gone)
    kept = [1, *range(4, 10), *range(11, 19)]
    assert await read(js, await range_of(stream, 1, 21)) == kept
    assert await read(js, await range_of(stream, 2, 11)) == list(range(4, 10))
    assert await read(js, await range_of(stream, 19, 21)) == []


async def test_messages_that_replace_others_of_their_subject_leave_gaps_that_are_no_loss(
    js: JetStream,
) -> None:
    stream = await make(js, 100, max_msgs_per_subject=1)
    assert await read(js, await range_of(stream)) == [98, 99, 100]


async def test_filters_with_nothing_behind_them_end_at_once_in_a_large_stream(js: JetStream) -> None:
    """Of a million sequences nothing but the last is looked at."""
    stream = await make(js, 10, first_seq=1_000_000, subject=lambda _: "orders.a")
    info = await stream.info()
    wanted = StreamRange(stream="ORDERS", created=info.created, first_seq=1_000_000, next_seq=1_000_010)
    assert await read(js, wanted, "orders.b") == []
    assert js.connection.statistics.in_bytes < 50_000


@pytest.mark.parametrize("place", [1, 11, 21], ids=["first", "middle", "last"])
async def test_one_large_message_among_small_ones_is_read(
    js: JetStream, retention: dict[str, Any], place: int
) -> None:
    """It does not fit into what is asked for when little is left to read."""
    stream = await make(js, **retention)
    await hold(stream, retention)
    await add(js, 1, place - 1)
    await add(js, place, place, size=900_000)
    await add(js, place + 1, 30)
    async with asyncio.timeout(60):
        assert await read(js, await range_of(stream, 1, 22)) == list(range(1, 22))


async def test_not_much_more_is_received_than_the_range_holds(js: JetStream) -> None:
    stream = await make(js, 20_000, size=500)
    wanted = await range_of(stream, 5_000, 7_000)
    before = js.connection.statistics.in_bytes
    assert len(await read(js, wanted)) == 2_000
    received = js.connection.statistics.in_bytes - before
    assert received < 1.5 * 2_000 * 650


async def test_a_reader_that_stops_asking_is_not_flooded(js: JetStream) -> None:
    stream = await make(js, MANY, size=LARGE)
    wanted = await range_of(stream)
    before = js.connection.statistics.in_bytes
    async with aclosing(read_range(js.api, wanted)) as chunks:
        first = await anext(chunks)
        await asyncio.sleep(0.3)  # Nothing to wait for: it is what must not come.
        received = js.connection.statistics.in_bytes - before
    assert sum(len(frame.data) for frame in first) < 8 * 1024 * 1024
    assert received < 2 * 8 * 1024 * 1024 + 1024 * 1024
    await no_consumers(stream)


# --- streams that delete what is acknowledged


async def test_a_work_queue_is_read_without_a_trace(js: JetStream) -> None:
    stream = await make(js, 50, retention="workqueue", allow_direct=True)
    worker = await stream.create_consumer(ConsumerConfig(durable_name="worker"))
    held = await worker.fetch(5, expires=5)
    wanted = await range_of(stream)
    assert await read(js, wanted) == list(range(1, 51))
    info = await worker.info()
    assert (info.num_ack_pending, info.num_pending) == (5, 45)
    for message in held:
        await message.ack_sync()
    assert await read(js, wanted) == list(range(6, 51))
    assert [name async for name in stream.consumer_names()] == ["worker"]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_where_direct_gets_are_not_allowed_one_is_told_how_to_allow_them(
    js: JetStream, retention: str
) -> None:
    stream = await make(js, 5, retention=retention)
    with pytest.raises(UsageError, match=f"ORDERS has retention {retention}.*allow_direct=True"):
        await read(js, await range_of(stream, 1, 6))
    assert [name async for name in stream.consumer_names()] == []


def test_only_streams_with_limits_are_read_by_a_consumer() -> None:
    assert not reads_direct(StreamConfig(name="A"))
    assert reads_direct(StreamConfig(name="A", retention="workqueue", allow_direct=True))


# --- what is lost


@pytest.fixture
async def large(js: JetStream) -> Stream:
    """More than is read ahead."""
    return await make(js, MANY, size=LARGE)


async def read_and_disturb(
    js: JetStream, wanted: StreamRange, disturb: Callable[[], Any], losses: list[DataLoss] | None = None
) -> list[int]:
    """Read a range; after its first chunk do something to the stream. Without `losses`, they are raised."""
    found: list[int] = []
    options: dict[str, Any] = {} if losses is None else {"on_loss": losses.append}
    async with aclosing(read_range(js.api, wanted, **options)) as chunks:
        async for chunk in chunks:
            if not found:
                await disturb()
            found += sequences(chunk)
    return found


async def test_a_purge_while_it_reads_is_a_loss_that_is_named(js: JetStream, large: Stream) -> None:
    with pytest.raises(DataLoss, match=rf"ORDERS lost the sequences \[\d+, {MANY + 1}\)") as caught:
        await read_and_disturb(js, await range_of(large), large.purge)
    assert caught.value.stream == "ORDERS"
    assert 1 < caught.value.first_seq <= MANY
    assert "purged" in caught.value.cause
    await no_consumers(large)


async def test_it_goes_on_behind_a_purge_when_it_may(js: JetStream, large: Stream) -> None:
    losses: list[DataLoss] = []
    found = await read_and_disturb(js, await range_of(large), lambda: large.purge(sequence=MANY - 10), losses)
    [lost] = losses
    assert lost.next_seq == MANY - 10
    assert found == [*range(1, lost.first_seq), *range(MANY - 10, MANY + 1)]


async def test_what_was_read_before_the_purge_is_not_lost(js: JetStream, large: Stream) -> None:
    """All of a range that is in memory already may vanish from the stream."""

    async def purge() -> None:
        async def sent() -> bool:
            return [info.delivered.stream_seq >= 44 async for info in large.consumers()] == [True]

        await until(sent, "the rest of the range to be sent")
        await large.purge()

    assert await read_and_disturb(js, await range_of(large, 1, 45), purge) == list(range(1, 45))


async def test_a_limit_that_overtakes_it_is_a_loss(js: JetStream) -> None:
    stream = await make(js, MANY, size=LARGE, max_msgs=MANY)
    losses: list[DataLoss] = []
    wanted = await range_of(stream)
    found = await read_and_disturb(js, wanted, lambda: add(js, MANY + 1, 2 * MANY - 10), losses)
    [lost] = losses
    assert (lost.next_seq, "max_msgs=300" in lost.cause) == (MANY - 9, True)
    assert found == [*range(1, lost.first_seq), *range(MANY - 9, MANY + 1)]


async def test_what_is_gone_before_it_begins_is_a_loss_too(js: JetStream) -> None:
    stream = await make(js, 20)
    wanted = await range_of(stream, 5)
    await stream.purge(sequence=11)
    with pytest.raises(DataLoss) as caught:
        await read(js, wanted)
    assert (caught.value.first_seq, caught.value.next_seq) == (5, 11)
    losses: list[DataLoss] = []
    assert await read(js, wanted, on_loss=losses.append) == list(range(11, 21))
    assert [(lost.first_seq, lost.next_seq) for lost in losses] == [(5, 11)]
    await stream.purge()
    with pytest.raises(DataLoss, match="empty") as caught:
        await read(js, wanted)
    assert (caught.value.first_seq, caught.value.next_seq) == (5, 21)


async def test_a_work_queue_that_is_worked_off_meanwhile_loses_nothing(js: JetStream) -> None:
    stream = await make(js, MANY, size=LARGE, retention="workqueue", allow_direct=True)
    wanted = await range_of(stream)
    losses: list[DataLoss] = []
    found = await read_and_disturb(js, wanted, lambda: stream.purge(sequence=MANY), losses)
    assert losses == []
    assert found[-1] == MANY
    assert found[:-1] == list(range(1, len(found)))


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
async def test_of_a_stream_that_was_created_again_nothing_is_read(js: JetStream, retention: str) -> None:
    """Its messages have the same sequences, and come from another life."""
    config: dict[str, Any] = {"retention": retention, "allow_direct": True}
    stream = await make(js, MANY, size=LARGE, **config)
    wanted = await range_of(stream)

    async def recreate() -> None:
        await stream.delete()
        await make(js, MANY, **config)

    with pytest.raises(DataLoss, match=r"created again") as caught:
        await read_and_disturb(js, wanted, recreate)
    assert (caught.value.stream, caught.value.next_seq) == ("ORDERS", MANY + 1)
    losses: list[DataLoss] = []
    assert await read(js, wanted, on_loss=losses.append) == []
    assert [(lost.first_seq, lost.next_seq) for lost in losses] == [(1, MANY + 1)]
    await no_consumers(stream)


async def test_a_stream_that_was_created_again_and_is_shorter_is_believed_at_once(js: JetStream) -> None:
    wanted = await range_of(await make(js, MANY))
    await js.delete_stream("ORDERS")
    await make(js, 5)
    set_timing(js, stream_missing=3600.0)
    async with asyncio.timeout(60):
        with pytest.raises(DataLoss, match="created again"):
            await read(js, wanted)


async def test_a_stream_that_is_deleted_meanwhile_is_a_loss(js: JetStream, large: Stream) -> None:
    losses: list[DataLoss] = []
    async with asyncio.timeout(60):
        found = await read_and_disturb(js, await range_of(large), large.delete, losses)
    [lost] = losses
    assert (lost.stream, lost.first_seq, lost.next_seq) == ("ORDERS", len(found) + 1, MANY + 1)
    assert "deleted" in lost.cause
    assert found == list(range(1, lost.first_seq))
    with pytest.raises(StreamNotFound):
        await js.get_stream("ORDERS")


async def test_a_stream_that_ends_before_the_range_was_set_back(js: JetStream) -> None:
    stream = await make(js, 10)
    with pytest.raises(DataLoss, match="older state") as caught:
        await read(js, await range_of(stream, 5, 21))
    assert (caught.value.first_seq, caught.value.next_seq) == (5, 21)


# --- faults


async def test_a_consumer_that_somebody_deletes_is_replaced(js: JetStream, large: Stream) -> None:
    async def delete() -> None:
        for name in [name async for name in large.consumer_names()]:
            with suppress(ConsumerNotFound):  # Its reader may have ended.
                await large.delete_consumer(name)

    async with asyncio.timeout(60):
        assert await read_and_disturb(js, await range_of(large), delete) == list(range(1, MANY + 1))
    await no_consumers(large)


@pytest.mark.parametrize("kind", ["limits", "workqueue"])
async def test_a_connection_that_breaks_again_and_again_costs_nothing(
    js: JetStream, proxy: TCPProxy, kind: str
) -> None:
    stream = await make(js, MANY, size=LARGE, retention=kind, allow_direct=True)
    received = 0

    def cut_sometimes(data: bytes) -> bytes | None:
        nonlocal received
        received += len(data)
        if received > 6_000_000 and proxy.accepted < 4:
            received = 0
            proxy.cut()
            return None
        return data

    proxy.server_to_client = cut_sometimes
    async with asyncio.timeout(60), await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        assert await read(JetStream(nc), await range_of(stream)) == list(range(1, MANY + 1))
        await no_consumers(stream)
    assert proxy.accepted >= 4


@pytest.mark.parametrize("kind", ["limits", "workqueue"])
async def test_a_server_that_is_killed_and_started_again_costs_nothing(server: Server, kind: str) -> None:
    async with asyncio.timeout(60), await jetspark.connect(server.url, reconnect_wait=0.05) as nc:
        js = JetStream(nc, timeout=30)
        stream = await make(js, MANY, size=LARGE, storage="file", retention=kind, allow_direct=True)
        wanted = await range_of(stream)

        async def restart() -> None:
            server.kill()
            await asyncio.to_thread(server.start)

        assert await read_and_disturb(js, wanted, restart) == list(range(1, MANY + 1))
        await no_consumers(stream)


@pytest_asyncio.fixture
async def clustered(cluster: Cluster) -> AsyncIterator[JetStream]:
    async with await jetspark.connect(cluster.urls, reconnect_wait=0.05) as nc:
        yield JetStream(nc, timeout=30)


@pytest.mark.parametrize("kind", ["limits", "workqueue"])
async def test_a_leader_that_is_killed_costs_nothing(
    clustered: JetStream, cluster: Cluster, kind: str
) -> None:
    """Both leaders: the stream's, and that of the consumer that reads."""
    config: dict[str, Any] = {"num_replicas": 3, "retention": kind, "allow_direct": True}
    streams: list[Stream] = []

    async def made() -> bool:
        try:
            streams.append(await make(clustered, storage="file", **config))
        except APIError:
            return False  # The server that was killed before is not yet seen to be back.
        return True

    await until(made, "a stream on three servers")
    [stream] = streams
    await add(clustered, 1, MANY, size=LARGE)
    wanted = await range_of(stream)
    killed: list[Server] = []

    async def kill() -> None:
        killed.append(await leader_of(stream.info, cluster))
        killed[0].kill()

    # Calls that die with the leader are repeated after this time.
    js = JetStream(clustered.connection, timeout=3)
    async with asyncio.timeout(120):
        try:
            assert await read_and_disturb(js, wanted, kill) == list(range(1, MANY + 1))
        finally:
            for each in killed:
                await asyncio.to_thread(each.start)
        await no_consumers(stream)
        await stream.delete()


# --- leaving


@pytest.mark.parametrize("kind", ["limits", "workqueue"])
async def test_leaving_early_leaves_nothing_behind(js: JetStream, kind: str) -> None:
    stream = await make(js, MANY, size=LARGE, retention=kind, allow_direct=True)
    before = len(js.connection.session.receivers)
    async with aclosing(read_range(js.api, await range_of(stream))) as chunks:
        await anext(chunks)
    await no_consumers(stream)
    assert len(js.connection.session.receivers) == before


async def test_being_cancelled_leaves_nothing_behind(js: JetStream, large: Stream) -> None:
    begun = asyncio.Event()

    async def forever() -> None:
        async for _ in read_range(js.api, await range_of(large)):
            begun.set()
            await asyncio.Event().wait()

    reading = asyncio.create_task(forever())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await no_consumers(large)


async def test_several_ranges_at_once_do_not_disturb_each_other(js: JetStream) -> None:
    stream = await make(js, 20_000)
    bounds = [1, 5_000, 5_001, 12_345, 20_001]
    ranges = [await range_of(stream, a, b) for a, b in pairwise(bounds)]
    found = await asyncio.gather(*(read(js, each) for each in ranges))
    assert [len(each) for each in found] == [len(each) for each in ranges]
    assert list(chain.from_iterable(found)) == list(range(1, 20_001))
    await no_consumers(stream)


async def test_a_range_whose_messages_never_come_is_given_up() -> None:
    """The leader says that there is a message, and the replicas say that there is none."""
    config = {"name": "A", "subjects": ["a"], "retention": "workqueue", "allow_direct": True}
    time = "2026-01-01T00:00:00Z"
    info = {"config": config, "created": time, "state": {"first_seq": 1, "last_seq": 100}}
    message = {"message": {"seq": 50, "subject": "a", "time": time}}
    asked = 0

    def nothing(peer: Peer, request: PubFrame) -> None:
        nonlocal asked
        asked += 1
        peer.answer(request, status="404 Message Not Found")

    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", nothing)
        for endpoint, answer in (("STREAM.INFO.A", info), ("STREAM.MSG.GET.A", message)):
            data = json.dumps(answer).encode()
            server.on(
                f"$JS.API.{endpoint}", partial(lambda data, peer, request: peer.answer(request, data), data)
            )
        async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
            created = StreamInfo.from_wire(info).created
            wanted = StreamRange(stream="A", created=created, first_seq=1, next_seq=101)
            with pytest.raises(Timeout, match=r"none arrived for 0\.4 s"):
                async for _ in read_range(JetStream(nc).api, wanted, outage=0.4):
                    pass
    assert asked < 10


async def test_a_leader_that_stays_away_is_given_up_after_the_outage() -> None:
    """It answers for the stream, and not for the message after the last one that arrived."""
    config = {"name": "A", "subjects": ["a"], "retention": "workqueue", "allow_direct": True}
    info = {"config": config, "created": "2026-01-01T00:00:00Z", "state": {"first_seq": 1, "last_seq": 100}}
    away = {"error": {"code": 503, "err_code": 10008, "description": "no leader"}}
    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", lambda peer, request: peer.answer(request, status="404 None"))
        for endpoint, answer in (("STREAM.INFO.A", info), ("STREAM.MSG.GET.A", away)):
            data = json.dumps(answer).encode()
            server.on(
                f"$JS.API.{endpoint}", partial(lambda data, peer, request: peer.answer(request, data), data)
            )
        async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
            created = StreamInfo.from_wire(info).created
            wanted = StreamRange(stream="A", created=created, first_seq=1, next_seq=101)
            with pytest.raises(JetStreamUnavailable):
                async for _ in read_range(JetStream(nc).api, wanted, outage=0.4):
                    pass


# --- where a time lies


async def test_a_time_is_found_between_the_messages_around_it(js: JetStream) -> None:
    stream = await make(js)
    times = []
    for number in range(1, 9):
        await js.publish("orders.1", f"{number} ".encode())
        times.append((await stream.get_message(number)).timestamp)
    for gone in (1, 4, 5, 8):
        await stream.delete_message(gone)
    state = (await stream.info()).state
    kept = [2, 3, 6, 7]
    for time in times:
        # In a gap, any place of it will do: what matters is which messages lie behind.
        bound = await first_at(js.api, "ORDERS", state, time)
        assert [n for n in kept if n >= bound] == [n for n in kept if times[n - 1] >= time]
    day = timedelta(days=1)
    assert await first_at(js.api, "ORDERS", state, times[0] - day) == state.first_seq
    assert await first_at(js.api, "ORDERS", state, times[0] + day) > kept[-1]


async def test_in_an_empty_stream_every_time_is_at_its_end(js: JetStream) -> None:
    stream = await make(js, 3)
    time = (await stream.get_message(1)).timestamp
    await stream.purge()
    state = (await stream.info()).state
    assert await first_at(js.api, "ORDERS", state, time) == 4
