"""messages() and consume() while servers die, freeze and hand over, and while frames are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConsumerConfig,
    ConsumerDeleted,
    Event,
    JetStreamUnavailable,
    LeadershipChanged,
    MissedHeartbeat,
    NoResponders,
    Timeout,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.server import Cluster, Server
from tests.support.consuming import (
    ACK,
    LONG,
    PULL,
    Lossy,
    fill,
    freeze,
    listeners,
    make_consumer,
    make_stream,
    sequences,
    until,
)
from tests.support.leaders import step_down
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.timing import impatient
from tests.support.traffic import Traffic
from tests.support.watch import Watch, eventually

ROUNDS = 3
QUICK: dict[str, Any] = {"expires": 1, "idle_heartbeat": 0.5}


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {}


@pytest.fixture(scope="module")
def nats_cluster_options() -> dict[str, object]:
    return {}


@pytest.fixture
async def js(server: Server) -> AsyncIterator[JetStream]:
    """A way to the server past the proxy."""
    async with connect(server.url) as nc:
        yield nc.jetstream(timeout=30)


def reading_into(ledger: Ledger) -> Callable[[JetStreamMsg], None]:
    def handle(message: JetStreamMsg) -> None:
        ledger.read(message.data)
        message.ack()

    return handle


@asynccontextmanager
async def consuming(consumer: Consumer, ledger: Ledger, how: str, **options: Any) -> AsyncIterator[None]:
    """Read with `consume`, with several handlers at once, or with `messages`, and leave nothing behind."""
    nc = consumer._api.connection
    before = tasks()
    if how == "messages":
        async with consumer.messages(**options) as messages:

            async def read() -> None:
                handle = reading_into(ledger)
                async for message in messages:
                    handle(message)

            task = asyncio.create_task(read())
            yield
            await messages.stop()
            await task
    else:
        concurrency = 4 if how == "concurrently" else 1
        async with await consumer.consume(reading_into(ledger), concurrency=concurrency, **options):
            yield
    assert not listeners(nc)
    await eventually(lambda: tasks() <= before, "all tasks to end", None, asyncio.all_tasks())


async def read_all(consumer: Consumer) -> None:
    async with consumer.messages() as messages:
        async for _ in messages:
            pass


def tasks() -> set[Any]:
    """All but those of the proxy, which come and go with its connections."""
    return {
        task for task in asyncio.all_tasks() if "TCPProxy" not in getattr(task.get_coro(), "__qualname__", "")
    }


# --- servers that die


@pytest.mark.faults
@pytest.mark.parametrize("how", ["messages", "consume", "concurrently"])
async def test_killed_and_restarted_servers_cost_no_message(server: Server, ledger: Ledger, how: str) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(server.url) as nc:
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(durable_name="worker", ack_wait=1)
        )
        async with consuming(consumer, ledger, how, max_messages=50, on_error=failures.append):
            await traffic.flowing()
            for _ in range(ROUNDS):
                await asyncio.sleep(ledger.random.random() / 4)
                server.kill()
                await asyncio.sleep(ledger.random.random() / 4)
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(LONG):
                    await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)
    assert all(isinstance(error, NoResponders) for error in failures), failures


@pytest.mark.faults
async def test_a_server_that_shuts_down_and_comes_back_is_waited_for(ledger: Ledger, tmp_path: Any) -> None:
    failures: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Server(store_dir=tmp_path / "store") as kept,
        Traffic(kept.url, ledger) as traffic,
        connect(kept.url) as nc,
    ):
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(durable_name="worker", ack_wait=1)
        )
        async with consuming(consumer, ledger, "consume", on_error=failures.append):
            await traffic.flowing()
            await asyncio.to_thread(kept.stop)
            await asyncio.to_thread(kept.start)
            await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)


async def test_it_can_be_stopped_while_there_is_no_server(server: Server, watch: Watch) -> None:
    async with asyncio.timeout(LONG), connect(server.url, **watch.listeners) as nc:
        stream = await make_stream(nc.jetstream(timeout=30), 10)
        consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
        running = await consumer.consume(lambda message: None)
        async with consumer.messages() as messages:
            server.kill()
            await watch.until(Event.DISCONNECTED)
            await running.stop()
            await messages.drain()
        assert not listeners(nc)


async def test_it_can_be_started_while_there_is_no_server(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 3)
    async with asyncio.timeout(LONG), connect(proxy.url, reconnect_wait=0.01) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        proxy.refuse()
        proxy.cut()
        await eventually(lambda: not nc.connected, "the connection to break")
        async with consumer.messages() as messages:
            assert await messages.next(timeout=0.1) is None
            proxy.accept()
            assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]


# --- connections that break, freeze, or lose something


@pytest.mark.faults
@pytest.mark.parametrize("how", ["messages", "consume"])
async def test_connections_that_are_cut_cost_no_message(
    server: Server, proxy: TCPProxy, ledger: Ledger, watch: Watch, how: str
) -> None:
    async with (
        asyncio.timeout(200),
        Traffic(server.url, ledger) as traffic,
        connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc,
    ):
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(name="worker", ack_wait=1)
        )
        async with consuming(consumer, ledger, how, max_messages=20):
            for round_ in range(1, 6):
                await asyncio.sleep(ledger.random.random() / 10)
                proxy.cut()
                await watch.until(Event.RECONNECTED, round_)
                await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)


async def test_a_lost_request_is_repeated_after_missed_heartbeats(js: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(js)
    await stream.create_consumer(ConsumerConfig(name="worker"))
    failures: list[Exception] = []
    requests = proxy.client_to_server = Lossy(PULL, lose=2)
    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        async with consumer.messages(**QUICK, on_error=failures.append) as messages:
            await requests.happened.wait()
            await fill(js, stream, 3)
            assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]
    assert len(requests.lost) == 2
    # One for each; a slow machine may miss another one.
    assert len(failures) >= 2
    assert {type(failure) for failure in failures} == {MissedHeartbeat}


async def test_a_lost_acknowledgement_brings_the_message_again(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 5, ack_wait=10)
    proxy.client_to_server = Lossy(ACK, lose=3)
    deliveries: list[tuple[int, int]] = []

    def handle(message: JetStreamMsg) -> None:
        deliveries.append((message.metadata.sequence.stream, message.metadata.num_delivered))
        message.ack()

    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        async with await consumer.consume(handle):

            async def acknowledged() -> bool:
                return (await consumer.info()).ack_floor.stream_seq == 5

            await until(acknowledged, "all acknowledged")
    assert sorted(deliveries) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (5, 1)]


@pytest.mark.faults
@pytest.mark.parametrize("fault", ["stalled network", "frozen server"])
async def test_silence_is_reported_and_costs_no_message(
    server: Server, proxy: TCPProxy, ledger: Ledger, fault: str
) -> None:
    failures: asyncio.Queue[Exception] = asyncio.Queue()
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(proxy.url) as nc:
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(name="worker", ack_wait=2)
        )
        async with consuming(consumer, ledger, "consume", **QUICK, on_error=failures.put_nowait):
            await traffic.flowing()
            while not failures.empty():  # a slow machine is silent too
                assert isinstance(failures.get_nowait(), MissedHeartbeat)
            if fault == "frozen server":
                await freeze(server)
            else:
                proxy.stall()
            try:
                assert isinstance(await failures.get(), MissedHeartbeat)
            finally:
                server.resume()
                proxy.unstall()
            await traffic.flowing()
            await traffic.stop()
        assert nc.statistics.reconnects == 0
    ledger.verify(unique=False, ordered=False)


@pytest.mark.faults
async def test_a_half_open_connection_costs_no_message(
    server: Server, proxy: TCPProxy, ledger: Ledger, watch: Watch
) -> None:
    async with (
        asyncio.timeout(200),
        Traffic(server.url, ledger) as traffic,
        connect(proxy.url, ping_interval=1, **watch.listeners) as nc,
    ):
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(name="worker", ack_wait=1)
        )
        async with consuming(consumer, ledger, "consume"):
            await traffic.flowing()
            proxy.stall()
            await watch.until(Event.DISCONNECTED)
            proxy.unstall()
            await watch.until(Event.RECONNECTED)
            await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)


# --- consumers that are gone


@pytest.mark.faults
async def test_a_consumer_that_is_deleted_under_traffic_is_a_clear_end(
    server: Server, ledger: Ledger
) -> None:
    async with asyncio.timeout(LONG), Traffic(server.url, ledger) as traffic, connect(server.url) as nc:
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(durable_name="worker")
        )
        running = await consumer.consume(reading_into(ledger))
        await traffic.flowing()
        await consumer.delete()
        with pytest.raises(ConsumerDeleted, match="Create it again"):
            await running.wait_closed()
        assert not listeners(nc)
    ledger.verify(lossless=False)


async def test_one_that_was_deleted_while_nobody_looked_is_reported_until_it_is_back(
    js: JetStream, proxy: TCPProxy, watch: Watch
) -> None:
    mine = await make_consumer(js, 3)
    failures: asyncio.Queue[Exception] = asyncio.Queue()
    async with asyncio.timeout(LONG), connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        consumer = await nc.jetstream(timeout=30).get_consumer("ORDERS", "worker")
        async with consumer.messages(on_error=failures.put_nowait) as messages:
            assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]
            proxy.refuse()
            proxy.cut()
            await watch.until(Event.DISCONNECTED)
            await mine.delete()
            proxy.accept()
            await watch.until(Event.RECONNECTED)
            for _ in range(2):
                assert isinstance(await failures.get(), NoResponders)
            await js.create_consumer("ORDERS", ConsumerConfig(name="worker"))
            assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]


@pytest.mark.parametrize("how", ["messages", "consume"])
async def test_one_that_was_not_used_for_too_long_is_a_clear_end(
    js: JetStream, proxy: TCPProxy, watch: Watch, how: str
) -> None:
    stream = await make_stream(js)  # It would stay while messages are not acknowledged.

    async def gone() -> bool:
        return [name async for name in stream.consumer_names()] == []

    async with asyncio.timeout(LONG), connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        theirs = nc.jetstream(timeout=30)
        impatient(theirs)
        consumer = await theirs.create_consumer(
            "ORDERS", ConsumerConfig(name="worker", inactive_threshold=0.1)
        )
        if how == "consume":
            ended = (await consumer.consume(lambda message: None)).wait_closed()
        else:
            ended = read_all(consumer)
        reading = asyncio.create_task(ended)
        await eventually(lambda: bool(listeners(nc)), "the pull")
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        await until(gone, "the end of the consumer")
        proxy.accept()
        with pytest.raises(ConsumerDeleted, match="inactive_threshold"):
            await reading


# --- clusters


def member(cluster: Cluster, name: str | None) -> Server:
    return next(server for server in cluster.servers if server.name == name)


async def leaders(consumer: Consumer, traffic: Traffic) -> tuple[str, str]:
    """Who leads the consumer and the stream, once somebody does."""

    async def led() -> bool:
        with suppress(Timeout, JetStreamUnavailable):
            consumer_info, stream_info = await consumer.info(), await traffic.stream.info()
            return bool(
                consumer_info.cluster
                and consumer_info.cluster.leader
                and stream_info.cluster
                and stream_info.cluster.leader
            )
        return False

    await until(led, "leaders")
    info, stream_info = consumer.cached_info, traffic.stream.cached_info
    assert info.cluster is not None
    assert stream_info.cluster is not None
    return info.cluster.leader or "", stream_info.cluster.leader or ""


@pytest.mark.parametrize("what", ["consumer", "stream"])
async def test_leaders_that_step_down_cost_no_message(cluster: Cluster, ledger: Ledger, what: str) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(cluster.url, ledger, replicas=3) as traffic:
        nc: Connection = traffic.connection
        js = nc.jetstream(timeout=30)
        consumer = await js.create_consumer("EVENTS", ConsumerConfig(durable_name="worker", ack_wait=2))
        async with consuming(consumer, ledger, "messages", **QUICK, on_error=failures.append):
            await traffic.flowing()
            for _ in range(ROUNDS):
                await leaders(consumer, traffic)
                if what == "consumer":
                    await step_down(lambda: js.stepdown_consumer_leader("EVENTS", "worker"))
                else:
                    await step_down(lambda: js.stepdown_stream_leader("EVENTS"))
                await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)
    assert all(isinstance(error, LeadershipChanged | NoResponders | MissedHeartbeat) for error in failures), (
        failures
    )


@pytest.mark.parametrize("how", ["next", "classic"])
async def test_a_consumer_whose_leader_steps_down_stalls_no_fetch(
    cluster: Cluster, ledger: Ledger, how: str
) -> None:
    """A request may get lost in the election without a word: it must not be waited for until it expires."""
    async with asyncio.timeout(200), Traffic(cluster.url, ledger, replicas=3) as traffic:
        js = traffic.connection.jetstream(timeout=30)
        consumer = await js.create_consumer("EVENTS", ConsumerConfig(durable_name="worker", ack_wait=2))
        subscription = await js.pull_subscribe(stream="EVENTS", consumer="worker")
        waits = 3600

        async def read() -> None:
            while True:
                try:
                    if how == "classic":
                        batch = await subscription.fetch(1, waits)
                    else:
                        batch = await consumer.fetch(1, expires=waits)
                except (LeadershipChanged, NoResponders):
                    await asyncio.sleep(0.01)
                    continue
                for message in batch:
                    ledger.read(message.data)
                await batch.ack()

        reading = asyncio.create_task(read())
        await traffic.flowing()
        for _ in range(ROUNDS):
            await leaders(consumer, traffic)
            await step_down(lambda: js.stepdown_consumer_leader("EVENTS", "worker"))
            await traffic.flowing()
        await traffic.stop()
        reading.cancel()
        await asyncio.wait([reading])
        await subscription.unsubscribe()
    ledger.verify(unique=False, ordered=False)


@pytest.mark.parametrize("how", ["messages", "consume"])
async def test_a_leader_that_is_killed_costs_no_message(cluster: Cluster, ledger: Ledger, how: str) -> None:
    async with (
        asyncio.timeout(200),
        Traffic(cluster.url, ledger, replicas=3) as traffic,
        connect(cluster.url, reconnect_wait=0.05) as nc,
    ):
        consumer = await nc.jetstream(timeout=30).create_consumer(
            "EVENTS", ConsumerConfig(durable_name="worker", ack_wait=2)
        )
        async with consuming(consumer, ledger, how, **QUICK, on_error=lambda error: None):
            await traffic.flowing()
            consumer_leader, stream_leader = await leaders(consumer, traffic)
            killed = member(cluster, consumer_leader if how == "consume" else stream_leader)
            killed.kill()
            await traffic.flowing()
            await asyncio.to_thread(killed.start)
            await traffic.flowing()
            await traffic.stop()
    ledger.verify(unique=False, ordered=False)
