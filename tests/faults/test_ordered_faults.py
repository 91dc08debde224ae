"""Ordered consumers: whatever happens, every message once and in order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConsumerNotFound,
    Error,
    Event,
    JetStreamUnavailable,
    MissedHeartbeat,
    Timeout,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.server import Cluster, Server
from tests.support.consuming import PULL, Lossy, fill, freeze, listeners, make_stream, sequences, until
from tests.support.leaders import leader_of, step_down
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.traffic import Traffic
from tests.support.watch import Watch, eventually

ROUNDS = 3
LONG = 30.0
QUICK: dict[str, Any] = {"expires": 1, "idle_heartbeat": 0.5}
#: With these a server that is slow for some seconds misses no heartbeat.
PATIENT: dict[str, Any] = {"expires": 10, "idle_heartbeat": 5}
DELIVERY = re.compile(
    rb"HMSG events\.x \d+ (\$JS\.ACK\S+) \d+ \d+\r\nNATS/1\.0\r\n(?:[^\r\n]+\r\n)*\r\n[^\r\n]*\r\n"
)


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
    return lambda message: ledger.read(message.data)


async def fetch_for_ever(
    ordered: OrderedConsumer, ledger: Ledger, failures: list[Exception], expires: float
) -> None:
    while True:
        try:
            batch = await ordered.fetch(20, expires=expires)
        except Error as error:
            failures.append(error)
            await asyncio.sleep(0.02)
            continue
        for message in batch:
            ledger.read(message.data)


@asynccontextmanager
async def reading(
    ordered: OrderedConsumer,
    nc: Connection,
    ledger: Ledger,
    how: str,
    failures: list[Exception],
    *,
    options: dict[str, Any] = QUICK,
) -> AsyncIterator[None]:
    """Read by `fetch`, `messages` or `consume`, and leave nothing behind."""
    if how == "fetch":
        task = asyncio.create_task(fetch_for_ever(ordered, ledger, failures, options["expires"] / 2))
        yield
        task.cancel()
        await asyncio.wait([task])
        await ordered.delete()
    elif how == "messages":
        async with ordered.messages(**options, on_error=failures.append) as messages:

            async def read() -> None:
                async for message in messages:
                    ledger.read(message.data)

            task = asyncio.create_task(read())
            yield
            await messages.stop()
            await task
    else:
        async with await ordered.consume(reading_into(ledger), **options, on_error=failures.append):
            yield
    await eventually(lambda: not listeners(nc), "all pulls to end")


@pytest.mark.faults
@pytest.mark.parametrize("how", ["fetch", "messages", "consume"])
async def test_killed_and_restarted_servers_cost_nothing(server: Server, ledger: Ledger, how: str) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(server.url) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, how, failures):
            await traffic.flowing()
            for _ in range(ROUNDS):
                await asyncio.sleep(ledger.random.random() / 4)
                server.kill()
                await asyncio.sleep(ledger.random.random() / 4)
                await asyncio.to_thread(server.start)
                await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()


@pytest.mark.faults
@pytest.mark.parametrize("how", ["fetch", "messages", "consume"])
async def test_consumers_that_are_deleted_cost_nothing(server: Server, ledger: Ledger, how: str) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(server.url) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, how, failures, options=PATIENT):
            for _ in range(ROUNDS):
                await traffic.flowing()
                async for name in traffic.stream.consumer_names():
                    with suppress(ConsumerNotFound):  # replaced meanwhile
                        await traffic.stream.delete_consumer(name)
            await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()
    assert not failures


@pytest.mark.faults
@pytest.mark.parametrize("how", ["fetch", "messages"])
async def test_connections_that_are_cut_cost_nothing(
    server: Server, proxy: TCPProxy, ledger: Ledger, watch: Watch, how: str
) -> None:
    failures: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Traffic(server.url, ledger) as traffic,
        connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc,
    ):
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, how, failures):
            for round_ in range(1, 6):
                await asyncio.sleep(ledger.random.random() / 10)
                proxy.cut()
                await watch.until(Event.RECONNECTED, round_)
                await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()


@pytest.mark.faults
@pytest.mark.parametrize("how", ["fetch", "messages"])
async def test_messages_that_are_lost_on_the_way_come_again(
    server: Server, proxy: TCPProxy, ledger: Ledger, how: str
) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(proxy.url) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, how, failures):
            for _ in range(ROUNDS):
                await traffic.flowing()
                lossy = Lossy(DELIVERY, lose=1 + ledger.random.randrange(3))
                proxy.server_to_client = lossy
                await lossy.happened.wait()
                await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()


@pytest.mark.faults
async def test_a_missed_heartbeat_is_reported_and_loses_nothing(
    server: Server, proxy: TCPProxy, ledger: Ledger
) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(server.url, ledger) as traffic, connect(proxy.url) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, "messages", failures):
            await traffic.flowing()
            proxy.stall()
            await eventually(lambda: bool(failures), "the missed heartbeat")
            assert isinstance(failures[0], MissedHeartbeat)
            proxy.unstall()
            await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()


async def test_a_lost_request_is_repeated(js: JetStream, proxy: TCPProxy) -> None:
    stream = await make_stream(js, 3)
    proxy.client_to_server = Lossy(PULL, lose=1)
    async with asyncio.timeout(LONG), connect(proxy.url) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("ORDERS")
        failures: list[Exception] = []
        async with ordered.messages(**QUICK, on_error=failures.append) as messages:
            assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]
        assert {type(failure) for failure in failures} == {MissedHeartbeat}  # more on a slow machine

    async def none() -> bool:
        return not [name async for name in stream.consumer_names()]

    await until(none, "the consumers to be gone")


async def test_a_frozen_server_is_waited_for(server: Server) -> None:
    async with asyncio.timeout(LONG), connect(server.url) as nc:
        js = nc.jetstream(timeout=30)
        stream = await make_stream(js, 3)
        ordered = await stream.ordered_consumer()
        assert sequences(await ordered.fetch(1)) == [1]
        await freeze(server)
        try:
            outcome = (await asyncio.gather(ordered.fetch(2, expires=0.3), return_exceptions=True))[0]
            assert outcome == [] or isinstance(outcome, Error)
        finally:
            server.resume()
        assert sequences(await ordered.fetch(2)) == [2, 3]
        await fill(js, stream, 2)
        assert sequences(await ordered.fetch(2)) == [4, 5]


async def test_one_that_is_stopped_without_a_connection_leaves_nothing(
    js: JetStream, proxy: TCPProxy, watch: Watch
) -> None:
    stream = await make_stream(js, 10)
    async with asyncio.timeout(LONG), connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        ordered = await nc.jetstream(timeout=30).ordered_consumer("ORDERS")
        running = await ordered.consume(lambda message: None)
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        await running.stop()
        assert not listeners(nc)
        proxy.accept()

        async def none() -> bool:
            return not [name async for name in stream.consumer_names()]

        await until(none, "the consumers to be gone")


async def test_a_leader_that_is_killed_costs_nothing(cluster: Cluster, ledger: Ledger) -> None:
    failures: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Traffic(cluster.url, ledger, replicas=3) as traffic,
        connect(cluster.url, reconnect_wait=0.05) as nc,
    ):
        ordered = await nc.jetstream(timeout=30).ordered_consumer("EVENTS")
        async with reading(ordered, nc, ledger, "messages", failures):
            await traffic.flowing()
            assert ordered.cached_info is not None
            name = ordered.cached_info.name
            killed = await leader_of(lambda: nc.jetstream().consumer_info("EVENTS", name), cluster)
            killed.kill()
            await traffic.flowing()
            await asyncio.to_thread(killed.start)
            await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()


async def test_leaders_that_step_down_cost_nothing(cluster: Cluster, ledger: Ledger) -> None:
    failures: list[Exception] = []
    async with asyncio.timeout(200), Traffic(cluster.url, ledger, replicas=3) as traffic:
        js = traffic.connection.jetstream(timeout=30)
        ordered = await js.ordered_consumer("EVENTS")
        async with reading(ordered, traffic.connection, ledger, "messages", failures):
            for _ in range(ROUNDS):
                await traffic.flowing()

                async def led() -> bool:
                    with suppress(Timeout, JetStreamUnavailable):
                        info = await traffic.stream.info()
                        return bool(info.cluster and info.cluster.leader)
                    return False

                await until(led, "a leader")
                await step_down(lambda: js.stepdown_stream_leader("EVENTS"))
            await traffic.flowing()
            await traffic.stop()
        await traffic.no_consumers()
    ledger.verify()
