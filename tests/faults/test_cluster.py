"""Three servers: they are discovered, die, leave in lame-duck mode and come back."""

from __future__ import annotations

import asyncio

from jetspark import Connection, ConnectionLost, Event, connect
from jetspark.server import Cluster, Server
from tests.support.ledger import Ledger
from tests.support.watch import Watch, eventually


def member(cluster: Cluster, nc: Connection) -> Server:
    """The server that `nc` is connected to."""
    return next(server for server in cluster.servers if server.url == nc.connected_url)


async def subscribed(publisher: Connection, reader: Connection, subject: str) -> None:
    """Wait until a subscription on one server is known on another: interest spreads after the SUB."""
    await reader.flush()
    await publisher.flush()
    probe = await reader.subscribe(f"{subject}.probe")
    await reader.flush()
    while not probe.pending_msgs:
        publisher.publish(f"{subject}.probe")
        await publisher.flush()
        await reader.flush()
    await probe.unsubscribe()


async def test_the_other_servers_are_discovered(cluster: Cluster, watch: Watch) -> None:
    first = cluster.servers[0]
    async with connect(first.url, **watch.listeners) as nc:
        assert sorted(nc.servers) == sorted(cluster.urls)
        assert sorted(watch.last(Event.DISCOVERED)) == sorted(
            f"{server.host}:{server.port}" for server in cluster.servers[1:]
        )
        assert watch.names == [Event.DISCOVERED]
        assert nc.connected_url == first.url


async def test_without_discovery_only_the_given_server_is_known(cluster: Cluster, watch: Watch) -> None:
    first = cluster.servers[0]
    async with connect(first.url, discover_servers=False, **watch.listeners) as nc:
        assert nc.servers == [first.url]
        assert watch.names == []


async def test_when_its_server_dies_a_client_goes_to_another_and_traffic_goes_on(
    cluster: Cluster, watch: Watch, ledger: Ledger
) -> None:
    dying, staying = cluster.servers[0], cluster.servers[1]
    async with (
        connect(staying.url) as reader,
        connect(dying.url, **watch.listeners) as nc,
    ):
        subscription = await reader.subscribe("a")
        echo = await nc.subscribe("b")
        dying.kill()
        await watch.until(Event.RECONNECTED)
        assert nc.connected_url in cluster.urls[1:]
        await subscribed(nc, reader, "a")
        await subscribed(reader, nc, "b")
        for _ in range(100):
            nc.publish("a", ledger.attempt())
            ledger.read((await subscription.next(10)).data)
        ledger.verify(complete=True)
        reader.publish("b", b"back")
        assert (await echo.next(10)).data == b"back"


async def test_a_client_follows_the_servers_that_are_left(cluster: Cluster, watch: Watch) -> None:
    async with connect(cluster.servers[0].url, reconnect_wait=0.01, **watch.listeners) as nc:
        for round_ in range(1, 3):
            member(cluster, nc).kill()
            await watch.until(Event.RECONNECTED, round_)
            await nc.flush()
        assert sum(server.running for server in cluster.servers) == 1
        assert member(cluster, nc).running


async def test_when_all_servers_die_and_come_back_so_does_the_client(
    cluster: Cluster, watch: Watch, ledger: Ledger
) -> None:
    async with connect(cluster.servers[0].url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        for round_ in range(1, 3):
            cluster.kill()
            await watch.until(Event.DISCONNECTED, round_)
            for _ in range(10):
                nc.publish("a", ledger.attempt())
            await asyncio.to_thread(cluster.start)
            await watch.until(Event.RECONNECTED, round_)
            for _ in range(10):
                ledger.read((await subscription.next(10)).data)
        ledger.verify(complete=True)


async def test_in_lame_duck_mode_a_client_moves_early_and_loses_nothing_it_publishes(
    cluster: Cluster, watch: Watch, ledger: Ledger
) -> None:
    leaving, staying = cluster.servers[0], cluster.servers[1]
    async with (
        connect(staying.url) as reader,
        connect(leaving.url, connect_timeout=60, **watch.listeners) as nc,
    ):
        subscription = await reader.subscribe("a", callback=lambda message: ledger.read(message.data))
        await nc.subscribe("a", callback=lambda _: None)  # so that there is always something to read
        await subscribed(nc, reader, "a")

        async def publish_for_ever() -> None:
            while True:
                await nc.publish("a", ledger.attempt(size=50_000))

        publishing = asyncio.create_task(publish_for_ever())
        await eventually(lambda: subscription.received > 100, "messages")
        leaving.lame_duck()
        await watch.until(Event.LAME_DUCK)
        error = await watch.until(Event.DISCONNECTED)
        assert isinstance(error, ConnectionLost)
        assert "lame-duck" in str(error)
        await watch.until(Event.RECONNECTED)
        assert leaving.running  # early: it is still there
        assert nc.connected_url in cluster.urls[1:]
        received = subscription.received
        await eventually(lambda: subscription.received > received + 100, "messages after the move")
        publishing.cancel()
        await asyncio.wait([publishing])
        await nc.flush()
        ledger.acknowledge_all()
        await eventually(
            lambda: len(ledger.seen) >= len(ledger.attempted), "all messages", details=subscription
        )
        # The ways over the old and the new server are two: one may overtake the other.
        ledger.verify(complete=True, ordered=False)
        assert subscription.dropped == 0
        names = [name for name in watch.names if name is not Event.DISCOVERED]
        assert names == [Event.LAME_DUCK, Event.DISCONNECTED, Event.RECONNECTED]
    leaving.kill()


async def test_a_lame_duck_alone_is_announced_and_kept(watch: Watch) -> None:
    with Server(jetstream=False) as server:
        async with connect(server.url, **watch.listeners) as nc:
            server.lame_duck()
            await watch.until(Event.LAME_DUCK)
            await nc.flush()
            assert nc.connected
            assert watch.names == [Event.LAME_DUCK]
        server.kill()  # it would take its time


async def test_closing_during_the_move_ends_it(cluster: Cluster, watch: Watch) -> None:
    leaving = cluster.servers[0]
    async with connect(leaving.url, **watch.listeners):
        leaving.lame_duck()
        await watch.until(Event.LAME_DUCK)
    leaving.kill()
    assert watch.names[-1] is Event.CLOSED
    assert Event.DISCONNECTED not in watch.names
    assert len(asyncio.all_tasks()) == 1
