"""What happens when the server does not come back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from jetspark import (
    ConnectionClosed,
    ConnectionLost,
    Event,
    NoServersError,
    State,
    connect,
)
from jetspark.server import Server
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch, eventually

BRIEF: dict[str, Any] = {
    "max_reconnect_attempts": 3,
    "reconnect_wait": 0.01,
    "max_reconnect_wait": 0.02,
}


async def test_after_the_last_attempt_everything_ends_with_the_reason(server: Server, watch: Watch) -> None:
    nc = await connect(server.url, **BRIEF, **watch.listeners)
    subscription = await nc.subscribe("a")
    nc.publish("a", b"1")
    await nc.flush()
    server.kill()
    await watch.until(Event.DISCONNECTED)
    waiting: list[asyncio.Task[Any]] = [
        asyncio.create_task(nc.request("ask", timeout=60)),
        asyncio.create_task(nc.flush(60)),
    ]
    async with asyncio.timeout(30):
        await nc.wait_closed()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    reason = await watch.until(Event.CLOSED)
    assert isinstance(reason, NoServersError)
    assert "cannot connect to" in str(reason)
    assert nc.state is State.CLOSED
    assert nc.last_error is reason
    assert watch.names == [Event.DISCONNECTED, Event.CLOSED]
    # What arrived can still be read; then comes the reason.
    assert (await subscription.next(1)).data == b"1"
    with pytest.raises(NoServersError):
        await subscription.next(1)
    assert isinstance(outcomes[0], NoServersError | ConnectionClosed)
    assert isinstance(outcomes[1], ConnectionClosed)
    for call in (
        lambda: nc.publish("a"),
        lambda: nc.subscribe("a"),
        lambda: nc.request("a"),
        nc.flush,
        nc.rtt,
    ):
        with pytest.raises(ConnectionClosed) as caught:
            await call()
        assert caught.value.__cause__ is reason
    await nc.close()
    await nc.drain()
    assert watch.count(Event.CLOSED) == 1


async def test_a_publisher_that_awaits_is_woken_with_the_reason(server: Server, watch: Watch) -> None:
    nc = await connect(server.url, **BRIEF, **watch.listeners)
    server.kill()
    await watch.until(Event.DISCONNECTED)
    async with asyncio.timeout(30):
        with pytest.raises(ConnectionClosed) as caught:
            await nc.publish("a", bytes(150_000))
    assert isinstance(caught.value.__cause__, NoServersError)


async def test_a_callback_ends_after_what_it_has_buffered(server: Server, watch: Watch) -> None:
    handled: list[bytes] = []
    nc = await connect(server.url, **BRIEF, **watch.listeners)
    await nc.subscribe("a", callback=lambda message: handled.append(message.data))
    for number in range(1000):
        nc.publish("a", b"%d" % number)
    await nc.flush()
    server.kill()
    async with asyncio.timeout(30):
        await nc.wait_closed()
    await eventually(lambda: len(handled) == 1000, "all messages")
    await eventually(lambda: len(asyncio.all_tasks()) == 1, "the end of all tasks")


async def test_with_no_attempts_the_first_loss_is_the_end(server: Server, watch: Watch) -> None:
    nc = await connect(server.url, max_reconnect_attempts=0, **watch.listeners)
    server.kill()
    reason = await watch.until(Event.CLOSED)
    assert isinstance(reason, ConnectionLost)
    assert nc.closed
    assert watch.names == [Event.DISCONNECTED, Event.CLOSED]
    with pytest.raises(ConnectionClosed) as caught:
        nc.publish("a")
    assert caught.value.__cause__ is reason


async def test_attempts_are_counted_anew_after_a_success(server: Server, watch: Watch) -> None:
    options = {**BRIEF, "max_reconnect_attempts": 20}
    async with connect(server.url, **options, **watch.listeners) as nc:
        for round_ in range(1, 4):
            server.kill()
            await watch.until(Event.DISCONNECTED, round_)
            lost = nc.last_error
            await eventually(partial(lambda before: nc.last_error is not before, lost), "a failed attempt")
            server.start()
            await watch.until(Event.RECONNECTED, round_)


async def test_the_end_comes_when_every_server_is_given_up(
    server: Server, proxy: TCPProxy, watch: Watch
) -> None:
    options: dict[str, Any] = {**BRIEF, "shuffle_servers": False, "discover_servers": False}
    async with connect([proxy.url, server.url], **options, **watch.listeners) as nc:
        assert nc.connected_url == proxy.url
        proxy.refuse()
        proxy.cut()
        await watch.until(Event.RECONNECTED)
        assert nc.connected_url == server.url
        server.kill()
        await watch.until(Event.CLOSED)
        assert nc.servers == []
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED, Event.DISCONNECTED, Event.CLOSED]


async def test_a_server_given_up_leaves_the_others(server: Server, proxy: TCPProxy, watch: Watch) -> None:
    options: dict[str, Any] = {**BRIEF, "max_reconnect_attempts": 1, "shuffle_servers": False}
    async with connect([server.url, proxy.url], **options, **watch.listeners) as nc:
        proxy.refuse()
        other = proxy.url
        server.kill()
        server.start()
        await watch.until(Event.RECONNECTED)
        assert nc.servers == [server.url]
        assert other not in nc.servers
        await nc.flush()
