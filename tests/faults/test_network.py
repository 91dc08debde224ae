"""The network between client and server resets, refuses and delays."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from jetspark import Connection, ConnectionLost, Event, State, connect
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch, eventually


async def publish_for_ever(nc: Connection, ledger: Ledger) -> None:
    while True:
        await nc.publish("a", ledger.attempt(size=500))


async def test_a_reset_connection_comes_back(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        for round_ in range(1, 6):
            await nc.flush()
            assert proxy.cut() == 1
            assert isinstance(await watch.until(Event.DISCONNECTED, round_), ConnectionLost)
            await watch.until(Event.RECONNECTED, round_)
            nc.publish("a", b"%d" % round_)
            assert (await subscription.next(10)).data == b"%d" % round_


@pytest.mark.faults
async def test_resets_under_load_keep_order_and_make_no_duplicates(
    proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    async with asyncio.timeout(200), connect(proxy.url, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", callback=lambda message: ledger.read(message.data))
        publishing = asyncio.create_task(publish_for_ever(nc, ledger))
        for round_ in range(1, 6):
            received = subscription.received
            wanted = received + ledger.random.randrange(1, 2000)
            await eventually(partial(lambda least: subscription.received >= least, wanted), "messages")
            proxy.cut()
            await watch.until(Event.RECONNECTED, round_)
        publishing.cancel()
        await asyncio.wait([publishing])
        await nc.drain()
    ledger.verify()


async def test_it_keeps_trying_while_the_port_is_closed(proxy: TCPProxy, watch: Watch) -> None:
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        lost = nc.last_error
        await eventually(lambda: nc.last_error is not lost, "a refused attempt")
        assert "cannot connect to" in str(nc.last_error)
        assert nc.state is State.RECONNECTING
        assert nc.connected_url is None
        nc.publish("a", b"1")
        proxy.accept()
        await watch.until(Event.RECONNECTED)
        assert (await subscription.next(10)).data == b"1"
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED]


async def test_a_connection_that_breaks_in_every_handshake_is_tried_until_it_stands(
    proxy: TCPProxy, watch: Watch
) -> None:
    """Cut after INFO, after CONNECT, before PONG: whatever came through, the next attempt begins anew."""
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        left = 6

        def cut_sometimes(data: bytes) -> bytes | None:
            nonlocal left
            if left:
                left -= 1
                proxy.cut()
                return data[: len(data) // 2] if left % 2 else None
            return data

        proxy.server_to_client = cut_sometimes
        proxy.cut()
        nc.publish("a", b"0")
        await watch.until(Event.DISCONNECTED)
        nc.publish("a", b"1")
        await watch.until(Event.RECONNECTED)
        while (await subscription.next(10)).data != b"1":
            pass
        assert left == 0


@pytest.mark.faults
async def test_a_connection_that_breaks_right_after_each_handshake_settles_in_the_end(
    proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    """The PONG that ends the handshake is followed by a reset, at once or within a few turns of the loop."""
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", callback=lambda message: ledger.read(message.data))
        await nc.flush()
        breaks = 20

        def cut() -> None:
            nonlocal breaks
            breaks -= 1
            proxy.cut()

        def cut_after_pong(data: bytes) -> bytes:
            if b"PONG" in data:
                asyncio.get_running_loop().call_later(ledger.random.random() / 1000, cut)
            return data

        proxy.server_to_client = cut_after_pong
        proxy.cut()
        while breaks > 0:
            nc.publish("a", ledger.attempt())
            await asyncio.sleep(0.001)
        proxy.server_to_client = None
        with suppress(ConnectionLost):  # the last reset may not have been noticed yet
            await nc.flush(20)
        await nc.flush(20)
        await subscription.drain()
        rounds = watch.count(Event.DISCONNECTED)
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED] * rounds
        assert rounds == nc.statistics.reconnects
    ledger.verify()


async def test_a_second_loss_costs_only_what_the_network_had(
    proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    """What waits is handed over as the socket takes it, not all at once: the rest survives the next loss."""
    count, size = 500, 60_000  # 30 MB, much more than the buffers of the kernel
    async with connect(proxy.url, reconnect_wait=0.01, max_reconnect_wait=0.02, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        for _ in range(count):
            nc.publish("a", ledger.attempt(size=size))
        proxy.client_to_server = stall = _Stall(proxy)
        proxy.accept()
        await watch.until(Event.RECONNECTED)
        await stall.reached.wait()
        proxy.client_to_server = None
        proxy.cut()
        proxy.unstall()
        await watch.until(Event.RECONNECTED, 2)
        await nc.flush(20)
        while subscription.pending_msgs:
            ledger.read((await subscription.next()).data)
    ledger.verify()
    assert ledger.seen[-1] == ledger.attempted[-1]
    assert len(ledger.seen) > count / 3


class _Stall:
    """Stalls the proxy as soon as the client publishes."""

    def __init__(self, proxy: TCPProxy) -> None:
        self._proxy = proxy
        self.reached = asyncio.Event()

    def __call__(self, data: bytes) -> bytes | None:
        if b"PUB " in data:
            self._proxy.stall()
            self.reached.set()
            return None
        return data


async def test_a_slow_network_is_no_reason_to_disconnect(
    proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    proxy.delay(0.1)
    async with connect(proxy.url, ping_interval=0.2, max_outstanding_pings=50, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        for _ in range(500):
            await nc.publish("a", ledger.attempt(size=1000))
        await nc.flush(20)
        ledger.acknowledge_all()
        for _ in range(500):
            ledger.read((await subscription.next(10)).data)
        assert watch.names == []
    ledger.verify(complete=True)
