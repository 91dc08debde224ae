"""Closing: what was published is written, what waits is woken, nothing is left."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import pytest

from jetspark import Connection, ConnectionClosed, Event, Msg, State, SubscriptionClosed, connect
from jetspark.server import Server
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch


async def test_close_writes_what_was_published(
    shared_server: Server, other: Connection, subject: str
) -> None:
    subscription = await other.subscribe(subject)
    await other.flush()
    nc = await connect(shared_server.url)
    for number in range(1000):
        nc.publish(subject, b"%d" % number)
    await nc.close()
    assert [int((await subscription.next()).data) for _ in range(1000)] == list(range(1000))


async def test_closing_twice_does_nothing(shared_server: Server, watch: Watch) -> None:
    nc = await connect(shared_server.url, **watch.listeners)
    await nc.close()
    await nc.close()
    await asyncio.gather(nc.close(), nc.close())
    assert watch.events == [(Event.CLOSED, None)]


async def test_closing_at_the_same_time_is_fine(shared_server: Server, watch: Watch) -> None:
    nc = await connect(shared_server.url, **watch.listeners)
    outcomes = await asyncio.gather(nc.close(), nc.close(), nc.drain(), return_exceptions=True)
    assert [*outcomes[:2]] == [None, None]
    assert outcomes[2] is None or isinstance(outcomes[2], ConnectionClosed)
    assert nc.closed
    assert watch.names == [Event.CLOSED]


async def test_a_closed_connection_refuses_everything(shared_server: Server, subject: str) -> None:
    nc = await connect(shared_server.url)
    await nc.close()
    assert nc.state is State.CLOSED
    assert not nc.connected
    with pytest.raises(ConnectionClosed):
        nc.publish(subject)
    for call in (nc.subscribe(subject), nc.request(subject), nc.flush(), nc.rtt()):
        with pytest.raises(ConnectionClosed):
            await call
    await nc.drain()
    await nc.wait_closed()


async def test_what_is_published_after_close_was_called_is_refused(proxy: TCPProxy, subject: str) -> None:
    """It could not be written any more, and nothing is lost silently."""
    nc = await connect(proxy.url)
    subscription = await nc.subscribe(subject)
    await nc.publish(subject, reply="answer")
    message = await subscription.next()
    proxy.stall()
    closing = asyncio.create_task(nc.close())
    await asyncio.sleep(0)
    assert not nc.closed
    lates: list[Callable[[], object]] = [lambda: nc.publish(subject), message.respond]
    for late in lates:
        with pytest.raises(ConnectionClosed):
            late()
    with pytest.raises(ConnectionClosed):
        await nc.subscribe(subject)
    proxy.unstall()
    await closing


async def test_async_with_closes_what_connect_opened(shared_server: Server) -> None:
    async with connect(shared_server.url) as nc:
        assert nc.connected
    assert nc.closed


async def test_async_with_closes_a_connection_that_was_awaited(shared_server: Server) -> None:
    async with await connect(shared_server.url) as nc:
        assert nc.connected
    assert nc.closed


async def test_async_with_closes_after_an_error(shared_server: Server) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connect(shared_server.url) as nc:
            _ = 1 / 0
    assert nc.closed


async def test_wait_closed_returns_when_somebody_closes(shared_server: Server) -> None:
    nc = await connect(shared_server.url)
    waiting = asyncio.create_task(nc.wait_closed())
    await asyncio.sleep(0)
    assert not waiting.done()
    await nc.close()
    await waiting


async def test_close_wakes_whoever_waits(shared_server: Server, proxy: TCPProxy, subject: str) -> None:
    nc = await connect(proxy.url)
    subscription = await nc.subscribe(subject)
    reading = asyncio.create_task(subscription.next(60))
    await nc.flush()
    proxy.stall()
    flushing = asyncio.create_task(nc.flush(60))
    asking = asyncio.create_task(nc.request(subject, timeout=60))
    await asyncio.sleep(0)
    await nc.close()
    with pytest.raises(SubscriptionClosed):
        await reading
    for task in (flushing, asking):
        with pytest.raises(ConnectionClosed):
            await task


async def test_close_cancels_running_callbacks(shared_server: Server, subject: str) -> None:
    started, ended = asyncio.Event(), []

    async def callback(_: Msg) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=callback)
        nc.publish(subject)
        await started.wait()
    assert ended == [True]


async def test_close_cancels_a_callback_whose_subscription_reached_max_msgs(
    shared_server: Server, subject: str
) -> None:
    started, ended = asyncio.Event(), []

    async def callback(_: Msg) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=callback, max_msgs=1)
        nc.publish(subject)
        await started.wait()
    assert ended == [True]


async def test_a_callback_may_close_the_connection_and_is_not_called_again(
    shared_server: Server, subject: str
) -> None:
    seen: list[bytes] = []

    async def callback(message: Msg) -> None:
        seen.append(message.data)
        await nc.close()

    nc = await connect(shared_server.url)
    subscription = await nc.subscribe(subject, callback=callback)
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    await nc.wait_closed()
    await subscription.join(None)
    assert seen == [b"0"]


async def test_a_listener_may_close_the_connection(shared_server: Server, subject: str) -> None:
    async def on_error(_: Exception) -> None:
        await nc.close()

    def callback(_: Msg) -> None:
        raise ZeroDivisionError

    nc = await connect(shared_server.url, on_error=on_error)
    await nc.subscribe(subject, callback=callback)
    nc.publish(subject)
    await nc.wait_closed()
    await nc.close()


async def test_a_coroutine_that_listens_to_closed_has_run_when_close_returns(shared_server: Server) -> None:
    ran = []

    async def on_closed(error: Exception | None) -> None:
        await asyncio.sleep(0)
        ran.append(error)

    async with connect(shared_server.url, on_closed=on_closed):
        pass
    assert ran == [None]


async def test_closing_while_reconnecting_ends_the_attempts(proxy: TCPProxy, watch: Watch) -> None:
    nc = await connect(proxy.url, **watch.listeners)
    proxy.refuse()
    proxy.cut()
    await watch.until(Event.DISCONNECTED)
    assert nc.state is State.RECONNECTING
    await nc.close()
    assert nc.closed
    assert watch.names == [Event.DISCONNECTED, Event.CLOSED]


async def test_closing_a_connection_to_a_silent_server_takes_a_bounded_time(proxy: TCPProxy) -> None:
    nc = await connect(proxy.url)
    proxy.stall()
    nc.publish("subject", b"lost")
    async with asyncio.timeout(30):
        await nc.close()
    assert nc.closed


@pytest.mark.parametrize("connects", [True, False])
async def test_close_does_not_wait_for_a_dialer_that_ignores_its_cancellation(
    shared_server: Server, proxy: TCPProxy, watch: Watch, connects: bool
) -> None:
    dialing, go_on = asyncio.Event(), asyncio.Event()

    async def dialer(host: str, port: int) -> socket.socket:
        if not dials:
            dials.append(proxy.port)
        else:
            dialing.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                await go_on.wait()
            dials.append(shared_server.port)
            if not connects:
                raise OSError("refused")
        return socket.create_connection(("127.0.0.1", dials[-1]))

    dials: list[int] = []
    nc = await connect("nats://some.host", dialer=dialer, connect_timeout=600, **watch.listeners)
    proxy.cut()
    await dialing.wait()
    attempt = nc._link._reconnecting
    assert attempt is not None
    async with asyncio.timeout(30):
        await nc.close()
    assert nc.closed
    go_on.set()
    async with asyncio.timeout(30):
        await asyncio.wait([attempt])
    assert nc.closed
    assert len(dials) == 2
    assert watch.names == [Event.DISCONNECTED, Event.CLOSED]


async def test_a_quiet_life_logs_nothing(
    shared_server: Server, caplog: pytest.LogCaptureFixture, subject: str
) -> None:
    with caplog.at_level(logging.WARNING):
        async with connect(shared_server.url) as nc:
            subscription = await nc.subscribe(subject)
            await nc.publish(subject)
            await subscription.next()
    assert caplog.records == []
