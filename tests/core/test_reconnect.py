"""`reconnect()` and the servers that it uses."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import ConnectionClosed, ConnectionLost, Event, Timeout, UsageError, connect
from jetspark.server import Server
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import Watch


async def test_reconnect_moves_to_the_next_server_without_a_wait(watch: Watch, shared_server: Server) -> None:
    async with (
        ScriptedServer() as other,
        connect(
            [other.url, shared_server.url],
            shuffle_servers=False,
            reconnect_wait=600,
            max_reconnect_wait=600,
            **watch.listeners,
        ) as nc,
    ):
        assert nc.connected_url == other.url
        for url in (shared_server.url, other.url, shared_server.url):
            await nc.reconnect(60)
            assert nc.connected_url == url
        assert nc.statistics.reconnects == 3
        assert isinstance(watch.last(Event.DISCONNECTED), ConnectionLost)


async def test_nothing_is_lost_at_a_forced_reconnect(shared_server: Server, subject: str) -> None:
    async with (
        connect(shared_server.url, reconnect_wait=600, max_reconnect_wait=600) as nc,
        connect(shared_server.url) as other,
    ):
        seen = await other.subscribe(subject)
        await other.flush()
        mine = await nc.subscribe(f"{subject}.mine")
        for number in range(100):
            await nc.publish(subject, b"%d" % number)
        reconnecting = asyncio.create_task(nc.reconnect(60))
        for number in range(100, 200):
            await nc.publish(subject, b"%d" % number)
            await asyncio.sleep(0)
        await reconnecting
        assert [int((await seen.next(60)).data) for _ in range(200)] == list(range(200))
        await nc.flush()
        await other.publish(f"{subject}.mine", b"back")
        assert (await mine.next(60)).data == b"back"


async def test_reconnect_leaves_a_server_that_does_not_answer(proxy: TCPProxy, server: Server) -> None:
    async with connect([proxy.url, server.url], shuffle_servers=False) as nc:
        proxy.stall()
        await nc.reconnect(4)
        assert nc.connected_url == server.url


async def test_reconnect_ends_the_wait_before_the_next_attempt(server: Server, watch: Watch) -> None:
    async with connect(server.url, reconnect_wait=600, max_reconnect_wait=600, **watch.listeners) as nc:
        server.kill()
        await watch.until(Event.DISCONNECTED)
        with pytest.raises(Timeout):
            await nc.reconnect(0.05)
        await asyncio.to_thread(server.start)
        await nc.reconnect(60)
        await nc.flush()


async def test_reconnect_is_refused_where_it_cannot_work(shared_server: Server) -> None:
    async with connect(shared_server.url, max_reconnect_attempts=0) as nc:
        with pytest.raises(UsageError, match="max_reconnect_attempts"):
            await nc.reconnect()
        assert nc.connected
    with pytest.raises(ConnectionClosed):
        await nc.reconnect()


async def test_the_servers_can_be_replaced(shared_server: Server, watch: Watch) -> None:
    async with (
        ScriptedServer() as first,
        connect(first.url, reconnect_wait=600, max_reconnect_wait=600, **watch.listeners) as nc,
    ):
        nc.servers = shared_server.url
        assert nc.servers == [shared_server.url]
        assert nc.connected_url == first.url
        await nc.reconnect(60)
        assert nc.connected_url == shared_server.url
        nc.servers = [first.url, shared_server.url]
        await nc.reconnect(60)
        assert nc.connected_url == first.url
        for bad in untyped(("", [], "http://host", None)):
            with pytest.raises(UsageError):
                nc.servers = bad
        assert set(nc.servers) == {first.url, shared_server.url}
