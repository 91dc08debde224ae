"""Draining: ending a subscription or a connection without losing anything."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    ConnectionDraining,
    Msg,
    SubscriptionClosed,
    Timeout,
    connect,
)
from jetspark.server import Server
from tests.support.proxy import TCPProxy

MANY = 10_000


async def test_draining_a_subscription_loses_nothing_that_is_under_way(
    nc: Connection, other: Connection, subject: str
) -> None:
    subscription = await nc.subscribe(subject)
    await nc.flush()
    for number in range(MANY):
        await other.publish(subject, b"%d" % number)
    await other.flush(30)
    await subscription.drain()
    assert [int(message.data) async for message in subscription] == list(range(MANY))
    await other.publish(subject, b"too late")
    await other.flush()
    await nc.flush()
    assert subscription.pending_msgs == 0
    assert nc.connected


async def test_draining_waits_until_a_slow_callback_has_handled_everything(
    nc: Connection, other: Connection, subject: str
) -> None:
    seen: list[int] = []

    async def slow(message: Msg) -> None:
        await asyncio.sleep(0)
        seen.append(int(message.data))

    subscription = await nc.subscribe(subject, callback=slow)
    await nc.flush()
    for number in range(MANY):
        await other.publish(subject, b"%d" % number)
    await other.flush(30)
    await subscription.drain()
    assert seen == list(range(MANY))


async def test_a_callback_may_drain_its_own_subscription(nc: Connection, subject: str) -> None:
    seen: list[int] = []
    drained = asyncio.Event()

    async def callback(message: Msg) -> None:
        seen.append(int(message.data))
        if message.data == b"0":
            await subscription.drain()
        if message.data == b"99":
            drained.set()

    subscription = await nc.subscribe(subject, callback=callback)
    for number in range(100):
        nc.publish(subject, b"%d" % number)
    await drained.wait()
    assert seen == list(range(100))


async def test_a_callback_may_drain_the_connection(shared_server: Server, subject: str) -> None:
    seen: list[int] = []
    all_seen = asyncio.Event()

    async def callback(message: Msg) -> None:
        seen.append(int(message.data))
        if message.data == b"0":
            await nc.drain()
        if message.data == b"99":
            all_seen.set()

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=callback)
        for number in range(100):
            nc.publish(subject, b"%d" % number)
        await nc.wait_closed()
        await all_seen.wait()
        assert seen == list(range(100))


async def test_draining_the_connection_delivers_everything_published(
    shared_server: Server, other: Connection, subject: str
) -> None:
    subscription = await other.subscribe(subject)
    await other.flush()
    async with connect(shared_server.url) as nc:
        for number in range(MANY):
            nc.publish(subject, b"%d" % number)
        await nc.drain()
        assert nc.closed
    assert [int((await subscription.next()).data) for _ in range(MANY)] == list(range(MANY))


async def test_draining_the_connection_lets_callbacks_answer(
    shared_server: Server, other: Connection, subject: str
) -> None:
    answers = await other.subscribe(f"{subject}.answers")
    await other.flush()

    async def answer(message: Msg) -> None:
        await asyncio.sleep(0)
        await message.respond(message.data)

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=answer)
        await nc.flush()
        for number in range(1000):
            other.publish(subject, b"%d" % number, reply=f"{subject}.answers")
        await other.flush()
        await nc.drain()
    assert [int((await answers.next()).data) for _ in range(1000)] == list(range(1000))


async def test_draining_the_connection_waits_for_callbacks_that_max_msgs_ended(
    shared_server: Server, other: Connection, subject: str
) -> None:
    """Such a subscription is over for the server, and still has something to do."""
    answers = await other.subscribe(f"{subject}.answers")
    await other.flush()

    async def answer(message: Msg) -> None:
        await asyncio.sleep(0)
        await message.respond(message.data)

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=answer, max_msgs=100)
        for number in range(100):
            nc.publish(subject, b"%d" % number, reply=f"{subject}.answers")
        await nc.flush()
        await nc.drain()
    assert [int((await answers.next()).data) for _ in range(100)] == list(range(100))


async def test_a_draining_connection_takes_nothing_new(shared_server: Server, subject: str) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def callback(_: Msg) -> None:
        entered.set()
        await release.wait()

    async with connect(shared_server.url) as nc:
        await nc.subscribe(subject, callback=callback)
        nc.publish(subject)
        await entered.wait()
        draining = asyncio.create_task(nc.drain())
        await asyncio.sleep(0)
        assert nc.draining
        assert not nc.closed
        with pytest.raises(ConnectionDraining):
            await nc.subscribe(subject)
        with pytest.raises(ConnectionDraining):
            await nc.request(subject)
        release.set()
        await draining
        assert nc.closed
        with pytest.raises(ConnectionClosed):
            nc.publish(subject)


async def test_a_draining_connection_refuses_to_publish_once_callbacks_are_done(
    server: Server, proxy: TCPProxy, subject: str
) -> None:
    async with connect(proxy.url) as nc:
        proxy.stall()
        draining = asyncio.create_task(nc.drain())
        while nc._publishing:
            await asyncio.sleep(0)
            proxy.unstall()
        with pytest.raises((ConnectionDraining, ConnectionClosed)):
            nc.publish(subject)
        await draining


async def test_draining_twice_does_nothing(shared_server: Server) -> None:
    async with connect(shared_server.url) as nc:
        await nc.drain()
        await nc.drain()
        await nc.close()


async def test_readers_get_the_rest_and_then_the_end_when_the_connection_drains(
    shared_server: Server, subject: str
) -> None:
    async with connect(shared_server.url) as nc:
        subscription = await nc.subscribe(subject)
        for _ in range(3):
            nc.publish(subject)
        await nc.drain()
        for _ in range(3):
            await subscription.next()
        with pytest.raises(SubscriptionClosed):
            await subscription.next()


async def test_a_callback_that_does_not_finish_times_the_drain_out_and_is_cancelled(
    shared_server: Server, subject: str
) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def callback(_: Msg) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with connect(shared_server.url, drain_timeout=3) as nc:
        await nc.subscribe(subject, callback=callback)
        nc.publish(subject)
        await started.wait()
        with pytest.raises(Timeout, match=subject):
            await nc.drain()
        assert nc.closed
        assert cancelled.is_set()


async def test_a_callback_that_outlasts_the_drain_of_its_subscription_ends_with_the_connection(
    shared_server: Server, subject: str
) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def callback(_: Msg) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with connect(shared_server.url, drain_timeout=3) as nc:
        subscription = await nc.subscribe(subject, callback=callback)
        nc.publish(subject)
        await started.wait()
        with pytest.raises(Timeout, match=subject):
            await subscription.drain()
        assert nc.connected
    assert cancelled.is_set()


async def test_a_drain_that_the_server_does_not_confirm_still_ends_the_subscription(
    server: Server, proxy: TCPProxy, subject: str
) -> None:
    async with connect(proxy.url, drain_timeout=0.5) as nc:
        subscription = await nc.subscribe(subject)
        await nc.flush()
        proxy.stall()
        with pytest.raises(Timeout):
            await subscription.drain()
        assert not subscription.active
        with pytest.raises(SubscriptionClosed):
            await subscription.next()
        proxy.unstall()


async def test_a_connection_whose_server_is_silent_closes_after_the_drain_timeout(
    server: Server, proxy: TCPProxy
) -> None:
    async with connect(proxy.url, drain_timeout=0.5) as nc:
        proxy.stall()
        with pytest.raises(Timeout):
            await nc.drain()
        assert nc.closed


async def test_closing_does_not_add_to_the_drain_timeout(server: Server, proxy: TCPProxy) -> None:
    # Unanswered pings would end the wait too.
    nc = await connect(proxy.url, drain_timeout=0.2, connect_timeout=300, ping_interval=300)
    async with asyncio.timeout(60), nc:
        nc.session.close_timeout = 300.0
        proxy.stall()
        with pytest.raises(Timeout):
            await nc.drain()
        assert nc.closed


async def test_what_is_done_at_the_end_of_a_drain_has_its_deadline(shared_server: Server) -> None:
    async with asyncio.timeout(60), connect(shared_server.url, drain_timeout=0.2) as nc:
        nc.at_drain.add(lambda: asyncio.sleep(300))
        with pytest.raises(Timeout, match="drain timeout"):
            await nc.drain()
        assert nc.closed
