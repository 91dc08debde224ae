"""Push, queue, ordered and pull subscriptions keep delivering when servers, leaders or connections fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from jetspark import (
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    Event,
    JetStreamMsg,
    MessageGap,
    MissedHeartbeat,
    PullSubscription,
    SubscriptionClosed,
    Timeout,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Cluster, Server
from tests.support.consuming import fill, make_stream, sequences, until
from tests.support.leaders import leader_of, step_down
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.traffic import Traffic
from tests.support.watch import Watch, eventually

LONG = 30.0
ROUNDS = 3
KINDS = ["push", "queue", "ordered", "pull"]
#: What is not acknowledged in time comes again, soon enough for a test.
CONFIG = ConsumerConfig(ack_wait=2.0)
HEARTBEAT = 0.5


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {}


@pytest.fixture(scope="module")
def nats_cluster_options() -> dict[str, object]:
    return {}


async def fetch_for_ever(subscription: PullSubscription, ledger: Ledger) -> None:
    while True:
        try:
            batch = await subscription.fetch(20, timeout=0.5)
        except SubscriptionClosed:
            return
        except Timeout:
            continue
        except Error:
            await asyncio.sleep(0.02)
            continue
        for message in batch:
            ledger.read(message.data)
            message.ack()


@asynccontextmanager
async def reading(
    kind: str,
    url: str,
    ledger: Ledger,
    errors: list[Exception],
    *,
    heartbeat: float = HEARTBEAT,
    **options: Any,
) -> AsyncIterator[JetStream]:
    """Read everything of EVENTS into the ledger; what cannot be raised goes into `errors`."""

    def handle(message: JetStreamMsg) -> None:
        ledger.read(message.data)

    async with AsyncExitStack() as stack:
        members = []
        for _ in range(2 if kind == "queue" else 1):
            nc = await stack.enter_async_context(
                connect(url, reconnect_wait=0.05, max_reconnect_wait=0.2, on_error=errors.append, **options)
            )
            members.append(nc.jetstream(timeout=10))
        if kind == "pull":
            pull = await members[0].pull_subscribe("events.>", "D", config=CONFIG)
            task = asyncio.create_task(fetch_for_ever(pull, ledger))
            yield members[0]

            async def unsubscribed() -> bool:
                """It deletes the consumer, which takes a leader; what is not answered can be tried again."""
                try:
                    await pull.unsubscribe()
                except ConsumerNotFound:
                    return True
                except Error:
                    return False
                return True

            await until(unsubscribed, "the consumer to be deleted")
            await task
            return
        for js in members:
            if kind == "push":
                await js.subscribe(
                    "events.>", durable="D", callback=handle, idle_heartbeat=heartbeat, config=CONFIG
                )
            elif kind == "queue":
                await js.subscribe("events.>", "D", callback=handle, config=CONFIG)
            else:
                await js.subscribe("events.>", ordered=True, callback=handle, idle_heartbeat=heartbeat)
        yield members[0]


def verify(ledger: Ledger, kind: str) -> None:
    """Ordered: once, and in order. All others: at least once."""
    ledger.verify(unique=kind == "ordered", ordered=kind == "ordered")


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_and_restarted_servers_cost_nothing(server: Server, ledger: Ledger, kind: str) -> None:
    errors: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Traffic(server.url, ledger) as traffic,
        reading(kind, server.url, ledger, errors),
    ):
        await traffic.flowing()
        for _ in range(ROUNDS):
            await asyncio.sleep(ledger.random.random() / 4)
            server.kill()
            await asyncio.sleep(ledger.random.random() / 4)
            await asyncio.to_thread(server.start)
            await traffic.flowing()
        await traffic.stop()
    verify(ledger, kind)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
async def test_connections_that_are_cut_cost_nothing(
    server: Server, proxy: TCPProxy, ledger: Ledger, kind: str
) -> None:
    errors: list[Exception] = []
    watch = Watch()
    listeners = {name: listener for name, listener in watch.listeners.items() if name != "on_error"}
    async with (
        asyncio.timeout(200),
        Traffic(server.url, ledger) as traffic,
        reading(kind, proxy.url, ledger, errors, heartbeat=5.0, **listeners),
    ):
        for round_ in range(1, 5):
            await traffic.flowing()
            proxy.cut()
            await watch.until(Event.RECONNECTED, round_)
        await traffic.flowing()
        await traffic.stop()
    verify(ledger, kind)
    # What was under way when it was cut is a gap, and told; nothing else is wrong.
    assert [error for error in errors if not isinstance(error, MessageGap)] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_leaders_that_step_down_cost_nothing(cluster: Cluster, ledger: Ledger, kind: str) -> None:
    errors: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Traffic(cluster.url, ledger, replicas=3) as traffic,
        reading(kind, cluster.url, ledger, errors) as js,
    ):
        for _ in range(ROUNDS):
            await traffic.flowing()
            await until(lambda: led(js), "a leader of the stream")
            await step_down(lambda: js.stepdown_stream_leader("EVENTS"))
            await traffic.flowing()
            if kind != "ordered":  # Its consumers have one replica, so no other server can lead them.
                await until(lambda: led(js, "D"), "a leader of the consumer")
                await step_down(lambda: js.stepdown_consumer_leader("EVENTS", "D"))
        await traffic.flowing()
        await traffic.stop()
    verify(ledger, kind)


async def led(js: JetStream, consumer: str | None = None) -> bool:
    with suppress(Error):
        stream = await js.get_stream("EVENTS")
        cluster = (
            stream.cached_info.cluster
            if consumer is None
            else (await js.consumer_info("EVENTS", consumer)).cluster
        )
        return cluster is not None and bool(cluster.leader)
    return False


@pytest.mark.parametrize("kind", KINDS)
async def test_a_leader_that_is_killed_costs_nothing(cluster: Cluster, ledger: Ledger, kind: str) -> None:
    errors: list[Exception] = []
    async with (
        asyncio.timeout(200),
        Traffic(cluster.url, ledger, replicas=3) as traffic,
        reading(kind, cluster.url, ledger, errors) as js,
    ):
        await traffic.flowing()
        killed = await leader_of(
            traffic.stream.info if kind == "ordered" else lambda: js.consumer_info("EVENTS", "D"), cluster
        )
        killed.kill()
        await traffic.flowing()
        await asyncio.to_thread(killed.start)
        await traffic.flowing()
        await traffic.stop()
    verify(ledger, kind)


# --- heartbeats do not lie


async def test_no_heartbeat_is_missed_without_a_connection(
    server: Server, proxy: TCPProxy, watch: Watch
) -> None:
    """The connection is lost for longer than the allowed silence, and comes back: no heartbeat is missed."""
    async with (
        asyncio.timeout(200),
        connect(server.url) as direct,
        connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.05, **watch.listeners) as nc,
    ):
        stream = await make_stream(direct.jetstream())
        subscription = await nc.jetstream().subscribe("orders.>", durable="D", idle_heartbeat=1)
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        await asyncio.sleep(5)
        proxy.accept()
        await watch.until(Event.RECONNECTED)
        await fill(direct.jetstream(), stream, 3)
        assert sequences([await subscription.next(LONG) for _ in range(3)]) == [1, 2, 3]
        with pytest.raises(Timeout):
            await subscription.next(0.5)
    assert [error for event, error in watch.events if event is Event.ERROR] == []


async def test_a_half_open_connection_misses_heartbeats(
    server: Server, proxy: TCPProxy, watch: Watch
) -> None:
    async with (
        asyncio.timeout(200),
        connect(server.url) as direct,
        connect(proxy.url, ping_interval=60, **watch.listeners) as nc,
    ):
        stream = await make_stream(direct.jetstream())
        subscription = await nc.jetstream().subscribe("orders.>", idle_heartbeat=0.1)
        proxy.stall()
        assert isinstance(await watch.until(Event.ERROR), MissedHeartbeat)
        proxy.unstall()
        await fill(direct.jetstream(), stream, 1)
        assert sequences([await subscription.next(LONG)]) == [1]


async def test_a_deleted_ephemeral_consumer_is_reported_after_the_reconnect(
    server: Server, proxy: TCPProxy, watch: Watch
) -> None:
    """Without heartbeats, too: instead of a subscription that is silently dead."""
    async with (
        asyncio.timeout(200),
        connect(server.url) as direct,
        connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.05, **watch.listeners) as nc,
    ):
        js = direct.jetstream()
        await make_stream(js)
        subscription = await nc.jetstream().subscribe("orders.>", inactive_threshold=0.2)
        name = subscription.consumer_name
        proxy.refuse()
        proxy.cut()

        async def gone() -> bool:
            return name not in [found async for found in js.consumer_names("ORDERS")]

        await until(gone, "the server to delete the consumer")
        proxy.accept()
        with pytest.raises(ConsumerDeleted, match=name):
            await subscription.next(LONG)


async def test_a_durable_without_heartbeats_goes_on_after_a_restart(server: Server, watch: Watch) -> None:
    async with asyncio.timeout(200), connect(server.url, reconnect_wait=0.05, **watch.listeners) as nc:
        js = nc.jetstream(timeout=30)
        stream = await make_stream(js, 3, storage="file")
        subscription = await js.subscribe("orders.>", durable="D", config=ConsumerConfig(ack_wait=10))
        for _ in range(3):
            await (await subscription.next(LONG)).ack_sync()
        await asyncio.to_thread(server.restart)
        await watch.until(Event.RECONNECTED)
        await fill(js, stream, 2)
        assert sequences([await subscription.next(LONG) for _ in range(2)]) == [4, 5]


async def test_a_fetch_waits_for_a_server_that_restarts(server: Server, watch: Watch) -> None:
    async with asyncio.timeout(200), connect(server.url, reconnect_wait=0.05, **watch.listeners) as nc:
        js = nc.jetstream(timeout=30)
        stream = await make_stream(js, storage="file")
        subscription = await js.pull_subscribe("orders.>", "D")
        for batch in (1, 5):
            fetching = asyncio.create_task(subscription.fetch(batch, timeout=LONG))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.restart)
            await eventually(lambda: nc.connected, "the connection to be back")
            await fill(js, stream, batch)
            got: list[int] = []
            while len(got) < batch:
                try:
                    got += sequences(await fetching)
                except Error:
                    pass  # The server said that it stops: a classic fetch raises what it is told.
                fetching = asyncio.create_task(subscription.fetch(batch, timeout=1))
            fetching.cancel()
            assert len(got) == batch
