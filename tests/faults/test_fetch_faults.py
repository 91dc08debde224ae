"""Fetching while servers die, freeze and restart, and while frames are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jetspark import (
    ConsumerConfig,
    Error,
    Event,
    LeadershipChanged,
    MissedHeartbeat,
    NoResponders,
    ServerShutdown,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.support.consuming import (
    ACK,
    LONG,
    PULL,
    Lossy,
    fill,
    freeze,
    gathered,
    listeners,
    make_consumer,
    make_stream,
    sequences,
    until,
)
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.traffic import Traffic
from tests.support.watch import Watch, eventually

ROUNDS = 3


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {}


@pytest.fixture
async def js(server: Server) -> AsyncIterator[JetStream]:
    """A way to the server past the proxy."""
    async with connect(server.url) as nc:
        yield nc.jetstream(timeout=30)


async def fetch_for_ever(consumer: Consumer, ledger: Ledger, failures: list[Error]) -> None:
    while True:
        try:
            batch = await consumer.fetch(50, expires=1)
        except Error as error:
            failures.append(error)
            await asyncio.sleep(0.02)
            continue
        for message in batch:
            ledger.read(message.data)
        await batch.ack()


@pytest.mark.faults
async def test_killed_and_restarted_servers_cost_no_message(server: Server, ledger: Ledger) -> None:
    failures: list[Error] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(server.url) as nc:
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(durable_name="worker", ack_wait=1)
        )
        reading = asyncio.create_task(fetch_for_ever(consumer, ledger, failures))
        await traffic.flowing()
        for _ in range(ROUNDS):
            await asyncio.sleep(ledger.random.random() / 4)
            server.kill()
            await asyncio.sleep(ledger.random.random() / 4)
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(LONG):
                await traffic.flowing()
        await traffic.stop()
        reading.cancel()
        await asyncio.wait([reading])
        await eventually(lambda: not listeners(nc), "all pulls to end")
    ledger.verify(unique=False, ordered=False)
    # Nothing but: nobody there yet.
    assert all(isinstance(error, NoResponders) for error in failures), failures


async def test_a_fetch_that_waits_outlives_a_restart(server: Server, watch: Watch) -> None:
    async with asyncio.timeout(LONG), connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream(timeout=30)
        stream = await make_stream(js, 2, storage="file")
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="worker"))
        fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))
        await eventually(lambda: 2 in gathered(nc), "two messages")
        server.kill()
        await watch.until(Event.DISCONNECTED)
        await asyncio.to_thread(server.start)
        await watch.until(Event.RECONNECTED)
        await fill(js, await js.get_stream("ORDERS"), 3)
        batch = await fetching
    # What had come is there in any case. A killed server may deliver again what it did not yet note.
    assert sequences(batch)[:2] == [1, 2]
    if batch.error is None:
        assert len(batch) == 5
        assert list(dict.fromkeys(sequences(batch))) in ([1, 2, 3, 4, 5], [1, 2, 3, 4], [1, 2, 3])
    else:  # The consumer was not back when it was asked again.
        assert isinstance(batch.error, NoResponders)


async def test_a_server_that_shuts_down_says_so_or_is_waited_for(server: Server) -> None:
    async with asyncio.timeout(LONG), connect(server.url) as nc:
        stream = await make_stream(nc.jetstream(timeout=30), storage="file")
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="worker"))
        fetching = asyncio.create_task(consumer.fetch(5, expires=2))
        await eventually(lambda: bool(listeners(nc)), "the pull")
        await nc.flush()
        await asyncio.to_thread(server.stop)
        outcome = (await asyncio.gather(fetching, return_exceptions=True))[0]
    assert outcome == [] or isinstance(outcome, ServerShutdown | LeadershipChanged)


async def test_bytes_stay_within_their_limit_over_a_reconnect(js: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(js)
    await stream.create_consumer(ConsumerConfig(name="worker"))
    watch = Watch()
    async with asyncio.timeout(LONG), connect(proxy.url, **watch.listeners) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        fetching = asyncio.create_task(consumer.fetch(max_bytes=1000, expires=LONG))
        for _ in range(2):
            await js.publish("orders.new", b"x" * 300)
        await eventually(lambda: 2 in gathered(nc), "two messages")
        proxy.cut()
        await watch.until(Event.RECONNECTED)
        for _ in range(5):
            await js.publish("orders.new", b"x" * 300)
        assert sequences(await fetching) == [1, 2]
        assert sequences(await consumer.fetch(5)) == [3, 4, 5, 6, 7]


async def test_a_lost_request_costs_one_fetch(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 3)
    proxy.client_to_server = Lossy(PULL, lose=2)
    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        assert await consumer.fetch(3, expires=0.2) == []
        with pytest.raises(MissedHeartbeat):
            await consumer.fetch(3, expires=LONG, idle_heartbeat=0.1)
        assert sequences(await consumer.fetch(3)) == [1, 2, 3]


async def test_what_comes_after_a_missed_heartbeat_is_not_lost(js: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(js)
    await stream.create_consumer(ConsumerConfig(name="worker", ack_policy="none"))
    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        fetching = asyncio.create_task(consumer.fetch(5, expires=LONG, idle_heartbeat=0.2))
        await eventually(lambda: bool(listeners(nc)), "the pull")
        await nc.flush()
        proxy.stall()
        await fill(js, stream, 3)
        with pytest.raises(MissedHeartbeat):
            await fetching
        proxy.unstall()
        assert sequences(await consumer.fetch(3)) == [1, 2, 3]


async def test_a_lost_acknowledgement_brings_the_message_again(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 3, ack_wait=10)
    acks = Lossy(ACK, lose=2)
    proxy.client_to_server = acks
    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        deliveries: list[tuple[int, int]] = []
        while len(deliveries) < 5:
            message = await consumer.next(expires=LONG)
            assert message is not None
            deliveries.append((message.metadata.sequence.stream, message.metadata.num_delivered))
            await message.ack()
            await nc.flush()
        assert sorted(deliveries) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]

        async def acknowledged() -> bool:
            return (await consumer.info()).ack_floor.stream_seq == 3

        await until(acknowledged, "all acknowledged")


async def test_a_frozen_server_is_waited_for(server: Server) -> None:
    async with asyncio.timeout(LONG), connect(server.url) as nc:
        stream = await make_stream(nc.jetstream(timeout=30), 3)
        consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_policy="none"))
        await freeze(server)
        try:
            assert await consumer.fetch(3, expires=0.2) == []
        finally:
            server.resume()
        # What the late request brings is not lost.
        assert sequences(await consumer.fetch(3)) == [1, 2, 3]


async def test_a_fetch_on_a_half_open_connection_goes_on_after_it_is_found_dead(
    js: JetStream, proxy: TCPProxy, watch: Watch
) -> None:
    stream = await make_stream(js)
    await stream.create_consumer(ConsumerConfig(name="worker", ack_wait=5))
    async with asyncio.timeout(LONG), connect(proxy.url, ping_interval=1, **watch.listeners) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        fetching = asyncio.create_task(consumer.fetch(3, expires=LONG))
        await eventually(lambda: bool(listeners(nc)), "the pull")
        await nc.flush()
        proxy.stall()
        await watch.until(Event.DISCONNECTED)
        proxy.unstall()
        await watch.until(Event.RECONNECTED)
        await fill(js, stream, 3)
        assert sorted(sequences(await fetching)) == [1, 2, 3]


async def test_one_cannot_wait_longer_than_it_expires_for_a_connection(
    js: JetStream, proxy: TCPProxy
) -> None:
    await make_consumer(js, 1)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        proxy.refuse()
        proxy.cut()
        await eventually(lambda: not nc.connected, "the connection to break")
        async with asyncio.timeout(LONG):
            assert await consumer.fetch(1, expires=0.3) == []
        proxy.accept()
        async with asyncio.timeout(LONG):
            assert len(await consumer.fetch(1, expires=LONG)) == 1
