"""The other side goes silent without closing: only pings can find it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jetspark import Connection, ConnectionLost, Event, OutboundBufferFull, StaleConnection, State, connect
from jetspark.server import Server
from jetspark.wire import PingFrame
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch, eventually

FAST: dict[str, Any] = {"ping_interval": 1.0}  # A server that is slow for two seconds is not dead.


async def publish_until_full(nc: Connection) -> None:
    """Without awaiting, so that it is not held back."""
    data = bytes(64 * 1024)
    try:
        for number in range(10_000):
            nc.publish("x", data)
            if number % 10 == 0:
                await asyncio.sleep(0)
    except OutboundBufferFull:
        return
    raise AssertionError("the network takes everything")


async def test_an_idle_connection_is_found_dead_and_comes_back(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, **FAST, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        proxy.stall()
        assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
        proxy.unstall()
        await watch.until(Event.RECONNECTED)
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"


async def test_it_is_found_with_the_outgoing_buffer_full_and_moves_to_the_second_url(
    proxy: TCPProxy, server: Server, watch: Watch
) -> None:
    urls = [proxy.url, server.url]
    async with connect(urls, shuffle_servers=False, **FAST, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        assert nc.connected_url == proxy.url
        proxy.stall()
        await publish_until_full(nc)
        assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
        await watch.until(Event.RECONNECTED)
        assert nc.connected_url == server.url
        await nc.flush(20)
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"


async def test_it_is_found_while_a_publisher_awaits_and_the_publisher_goes_on(
    proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    async def publish_for_ever() -> None:
        while True:
            await nc.publish("a", ledger.attempt(size=10_000))

    async with connect(proxy.url, **FAST, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", callback=lambda message: ledger.read(message.data))
        publishing = asyncio.create_task(publish_for_ever())
        await eventually(lambda: subscription.received > 100, "messages")
        proxy.stall()
        assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
        proxy.cut()  # else what is stuck in the dead connection would arrive too, late
        proxy.unstall()
        await watch.until(Event.RECONNECTED)
        received = subscription.received
        await eventually(lambda: subscription.received > received + 100, "messages after the reconnect")
        publishing.cancel()
        await asyncio.wait([publishing])
        await nc.drain()
    ledger.verify()


async def test_it_is_found_while_the_server_only_sends(proxy: TCPProxy, server: Server, watch: Watch) -> None:
    """Traffic is no proof of life for the way out: only the answer to a ping is."""
    proxy.client_to_server = None
    async with connect(server.url) as other, connect(proxy.url, **FAST, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()

        async def send_for_ever() -> None:
            while True:
                await other.publish("a")
                await asyncio.sleep(0.01)

        sending = asyncio.create_task(send_for_ever())
        proxy.client_to_server = lambda _: None
        assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
        proxy.client_to_server = None
        await watch.until(Event.RECONNECTED)
        received = subscription.received
        await eventually(lambda: subscription.received > received, "messages after the reconnect")
        sending.cancel()
        await asyncio.wait([sending])


async def test_requests_and_flushes_in_flight_fail_when_it_is_found(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, **FAST, **watch.listeners) as nc:
        await nc.subscribe("ask")
        await nc.flush()
        proxy.stall()
        waiting = [asyncio.create_task(nc.request("ask", timeout=60)), asyncio.create_task(nc.flush(60))]
        await watch.until(Event.DISCONNECTED)
        async with asyncio.timeout(30):
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, ConnectionLost)


async def test_a_server_that_accepts_and_says_nothing_is_given_up_and_tried_again(
    proxy: TCPProxy, watch: Watch
) -> None:
    async with connect(proxy.url, ping_interval=0.5, **watch.listeners) as nc:
        patient = nc._link._options
        nc._link._options = replace(patient, connect_timeout=0.1)  # The first connect may take longer.
        proxy.stall()
        await watch.until(Event.DISCONNECTED)
        accepted = proxy.accepted
        await eventually(lambda: proxy.accepted >= accepted + 3, "further attempts")
        assert nc.state is State.RECONNECTING
        nc._link._options = patient
        proxy.unstall()
        await watch.until(Event.RECONNECTED)
        await nc.flush()


async def test_a_short_pause_of_the_server_is_survived(server: Server, watch: Watch, ledger: Ledger) -> None:
    async with connect(server.url, ping_interval=5, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        server.pause()
        try:
            for _ in range(1000):
                await nc.publish("a", ledger.attempt())
        finally:
            server.resume()
        await nc.flush()
        ledger.acknowledge_all()
        await subscription.drain()
        async for message in subscription:
            ledger.read(message.data)
        ledger.verify(complete=True)
        assert watch.names == []


async def test_a_long_pause_of_the_server_is_found_stale(server: Server, watch: Watch) -> None:
    async with connect(server.url, **FAST, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        server.pause()
        try:
            assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
        finally:
            server.resume()
        await watch.until(Event.RECONNECTED)
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED]


@pytest.mark.parametrize("pings", [1, 3])
async def test_as_many_pings_as_allowed_stay_unanswered(proxy: TCPProxy, watch: Watch, pings: int) -> None:
    seen = b""

    def swallow(data: bytes) -> None:
        nonlocal seen
        seen += data

    async with connect(proxy.url, ping_interval=0.05, max_outstanding_pings=pings, **watch.listeners):
        proxy.client_to_server = swallow
        error = await watch.until(Event.DISCONNECTED)
        sent, proxy.client_to_server = seen, None
        assert sent == b"PING\r\n" * pings
        assert str(error).startswith(f"{pings} pings")
        await watch.until(Event.RECONNECTED)


async def test_answers_to_pings_may_be_late_while_other_data_arrives(watch: Watch) -> None:
    """They wait behind it."""
    interval = 0.5  # No data for so long counts as silence, and a busy machine may not run us for a while.
    async with (
        ScriptedServer() as server,
        connect(server.url, ping_interval=interval, **watch.listeners) as nc,
    ):
        subscription = await nc.subscribe("a")
        await nc.flush()
        peer = await server.peer()
        server.answers_pings = False
        pings = len(peer.all(PingFrame))
        while len(peer.all(PingFrame)) < pings + 4:
            peer.deliver("a")
            await subscription.next()
            await asyncio.sleep(interval / 20)
        assert nc.connected
        assert isinstance(await watch.until(Event.DISCONNECTED), StaleConnection)
