"""Ending while the connection is broken: promptly, and without leaving anything behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from jetspark import ConnectionClosed, Event, State, SubscriptionClosed, Timeout, connect
from jetspark.server import Server
from tests.support.ledger import Ledger
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch, eventually


def sockets() -> int:
    """How many sockets this process has open."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
        except FileNotFoundError:
            pass  # the one that listed the directory
    return count


@contextmanager
def nothing_left() -> Iterator[None]:
    """What is done inside leaves no socket and no task."""
    before, running = sockets(), len(asyncio.all_tasks())
    yield
    assert len(asyncio.all_tasks()) == running, asyncio.all_tasks()
    gc.collect()  # a socket nobody closed would warn here, which is an error
    assert sockets() == before


@asynccontextmanager
async def promptly() -> AsyncIterator[None]:
    async with asyncio.timeout(20):
        yield


async def test_a_connection_that_went_through_restarts_leaves_nothing(server: Server, watch: Watch) -> None:
    with nothing_left():
        async with connect(server.url, **watch.listeners) as nc:
            await nc.subscribe("a", callback=lambda _: None)
            for round_ in range(1, 4):
                await asyncio.to_thread(server.restart)
                await watch.until(Event.RECONNECTED, round_)
                await nc.flush()


async def test_close_while_reconnecting_is_prompt_and_leaves_nothing(server: Server, watch: Watch) -> None:
    with nothing_left():
        nc = await connect(server.url, **watch.listeners)
        subscription = await nc.subscribe("a")
        await nc.subscribe("a", callback=lambda _: None)
        server.kill()
        await watch.until(Event.DISCONNECTED)
        nc.publish("a", b"lost with the connection")
        requesting = asyncio.create_task(nc.request("ask", timeout=60))
        flushing = asyncio.create_task(nc.flush(60))
        await asyncio.sleep(0)
        async with promptly():
            await nc.close()
            with pytest.raises(ConnectionClosed):
                await requesting
            with pytest.raises(ConnectionClosed):
                await flushing
            with pytest.raises(SubscriptionClosed):
                await subscription.next(10)
        assert nc.state is State.CLOSED
        assert watch.names == [Event.DISCONNECTED, Event.CLOSED]


async def test_close_ends_requests_and_flushes_in_flight_with_connection_closed(
    server: Server, proxy: TCPProxy
) -> None:
    nc = await connect(proxy.url)
    asked = await nc.subscribe("ask")
    requesting = asyncio.create_task(nc.request("ask", timeout=60))
    await asked.next(10)
    async with promptly():
        await nc.close()
        with pytest.raises(ConnectionClosed):
            await requesting


async def test_close_in_the_middle_of_a_handshake_leaves_nothing(proxy: TCPProxy, watch: Watch) -> None:
    nc = await connect(proxy.url, **watch.listeners)
    proxy.stall()
    proxy.cut()
    await watch.until(Event.DISCONNECTED)
    await eventually(lambda: proxy.connections == 1, "an attempt that gets no answer")
    await asyncio.sleep(0)  # The proxy has opened its second socket too.
    ours = sockets()
    async with promptly():
        await nc.close()
    assert sockets() == ours - 1
    assert nc.closed


async def test_close_on_a_dead_network_is_bounded(proxy: TCPProxy) -> None:
    nc = await connect(proxy.url)
    proxy.stall()
    for _ in range(100):
        nc.publish("a", bytes(150_000))
    async with promptly():
        await nc.close()
    assert nc.closed


@pytest.mark.parametrize("step", range(12))
async def test_close_at_any_step_of_reconnecting_leaves_nothing(
    server: Server, watch: Watch, step: int
) -> None:
    with nothing_left():
        nc = await connect(server.url, reconnect_wait=0.001, **watch.listeners)
        await nc.subscribe("a")
        await asyncio.to_thread(server.restart)
        await watch.until(Event.DISCONNECTED)
        for _ in range(step):
            await asyncio.sleep(0)
        async with promptly():
            await nc.close()
        assert nc.state is State.CLOSED
        assert watch.names[-1] is Event.CLOSED


async def test_drain_while_reconnecting_sends_what_waits_when_the_server_is_back(
    server: Server, proxy: TCPProxy, watch: Watch, ledger: Ledger
) -> None:
    with nothing_left():
        other = Watch()
        async with connect(server.url, **other.listeners) as reader:
            nc = await connect(proxy.url, **watch.listeners)
            subscription = await reader.subscribe("a")
            server.kill()
            await watch.until(Event.DISCONNECTED)
            proxy.refuse()
            for _ in range(100):
                nc.publish("a", ledger.attempt())
            draining = asyncio.create_task(nc.drain())
            await asyncio.to_thread(server.start)
            await other.until(Event.RECONNECTED)
            await reader.flush()
            proxy.accept()  # The reader is back before the messages.
            await draining
            assert nc.closed
            assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED, Event.CLOSED]
            await reader.flush()
            assert subscription.pending_msgs == 100
        await eventually(lambda: proxy.connections == 0, "the end of the proxy's connection")


async def test_drain_while_reconnecting_gives_up_at_its_deadline(server: Server, watch: Watch) -> None:
    with nothing_left():
        nc = await connect(server.url, drain_timeout=0.1, **watch.listeners)
        server.kill()
        await watch.until(Event.DISCONNECTED)
        nc.publish("a", b"never sent")
        async with promptly():
            with pytest.raises(Timeout):
                await nc.drain()
        assert nc.closed
        assert watch.names == [Event.DISCONNECTED, Event.CLOSED]


async def test_close_interrupts_a_drain_that_waits_for_the_server(server: Server, watch: Watch) -> None:
    nc = await connect(server.url, **watch.listeners)
    server.kill()
    await watch.until(Event.DISCONNECTED)
    nc.publish("a", b"never sent")
    draining = asyncio.create_task(nc.drain())
    await asyncio.sleep(0)
    async with promptly():
        await nc.close()
        with pytest.raises(ConnectionClosed):
            await draining


async def test_a_cancelled_task_is_cancelled_and_the_connection_reconnects(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, pending_size=200_000, **watch.listeners) as nc:
        subscription = await nc.subscribe("a")
        await nc.flush()
        server.kill()
        await watch.until(Event.DISCONNECTED)
        tasks = [
            asyncio.create_task(nc.request("ask", timeout=60)),
            asyncio.create_task(nc.flush(60)),
            asyncio.create_task(subscription.next(60)),
            asyncio.ensure_future(_publish(nc.publish("b", bytes(150_000)))),
            asyncio.create_task(nc.wait_closed()),
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        await asyncio.to_thread(server.start)
        await watch.until(Event.RECONNECTED)
        nc.publish("a", b"1")
        assert (await subscription.next(10)).data == b"1"


async def _publish(written: Awaitable[None]) -> None:
    await written


@pytest.mark.parametrize("step", range(10))
async def test_a_cancelled_connect_leaves_nothing(server: Server, step: int) -> None:
    with nothing_left():
        connecting = asyncio.create_task(connect(server.url)._open())
        for _ in range(step):
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait([connecting])
        if not connecting.cancelled():
            await connecting.result().close()
        await asyncio.sleep(0)  # an aborted socket is closed in the next turn


async def test_a_connect_that_is_refused_leaves_nothing(server: Server) -> None:
    server.kill()
    with nothing_left(), pytest.raises(OSError, match="cannot connect"):
        await connect(server.url)


async def test_a_connect_that_gets_no_answer_leaves_nothing(proxy: TCPProxy) -> None:
    proxy.stall()
    with nothing_left():
        with pytest.raises(Timeout):
            await connect(proxy.url, connect_timeout=1)  # A busy machine needs some of it to reach the proxy.
        proxy.unstall()
        await eventually(
            lambda: proxy.accepted == 1 and proxy.connections == 0, "the end of the proxy's connection"
        )


async def test_giving_up_leaves_nothing(server: Server, watch: Watch) -> None:
    with nothing_left():
        nc = await connect(server.url, max_reconnect_attempts=1, **watch.listeners)
        await nc.subscribe("a", callback=lambda _: None)
        server.kill()
        await watch.until(Event.CLOSED)
        await eventually(lambda: len(asyncio.all_tasks()) == 1, "the end of all tasks")
