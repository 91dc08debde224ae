"""Cancelling: it passes through every call, and loses nothing that could still be had."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from jetspark import Connection, Msg, connect
from jetspark.server import Server
from jetspark.wire import PingFrame, PubFrame, encode
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer


async def cancel(waiting: Coroutine[Any, Any, object]) -> None:
    """Let it come to where it waits, cancel it there, and see the cancellation come out."""
    task = asyncio.ensure_future(waiting)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_cancelled_next_loses_no_message(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await cancel(subscription.next())
    await nc.publish(subject, b"1")
    assert (await subscription.next()).data == b"1"


async def test_a_next_that_is_cancelled_as_the_message_arrives_loses_no_message(
    nc: Connection, subject: str
) -> None:
    subscription = await nc.subscribe(subject)
    for number in range(100):
        reading = asyncio.create_task(subscription.next())
        await asyncio.sleep(0)
        await nc.publish(subject, b"%d" % number)
        while not subscription.pending_msgs and not reading.done():
            await asyncio.sleep(0)
        reading.cancel()
        try:
            message = await reading
        except asyncio.CancelledError:
            message = await subscription.next()
        assert message.data == b"%d" % number


async def test_next_under_a_deadline_of_the_caller_loses_no_message(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    seen: list[int] = []
    for number in range(200):
        nc.publish(subject, b"%d" % number)
    while len(seen) < 200:
        try:
            seen.append(int((await asyncio.wait_for(subscription.next(), 0.0001)).data))
        except TimeoutError:
            await asyncio.sleep(0)
    assert seen == list(range(200))


async def test_async_for_can_be_cancelled_and_begun_again(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await cancel(anext(subscription))
    await nc.publish(subject, b"1")
    assert (await anext(subscription)).data == b"1"


async def test_a_reader_among_others_can_be_cancelled(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    other = asyncio.create_task(subscription.next())
    await cancel(subscription.next())
    await nc.publish(subject, b"1")
    assert (await other).data == b"1"


async def test_request_can_be_cancelled(nc: Connection, subject: str) -> None:
    await nc.subscribe(subject)
    await cancel(nc.request(subject))
    await nc.flush()


async def test_flush_can_be_cancelled_and_the_next_one_is_not_confused(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    flushing = asyncio.create_task(nc.flush())
    await asyncio.sleep(0)
    flushing.cancel()
    nc.publish(subject, b"1")
    await nc.flush()
    assert subscription.pending_msgs == 1
    with pytest.raises(asyncio.CancelledError):
        await flushing


async def test_a_publish_that_waits_for_the_network_can_be_cancelled(proxy: TCPProxy, subject: str) -> None:
    async with connect(proxy.url, pending_size=64 * 1024 * 1024) as nc:
        proxy.stall()
        data = bytes(512 * 1024)
        while nc.session.outbox.size < 16 * 1024 * 1024:  # more than the kernel may still take
            nc.publish(subject, data)
            await asyncio.sleep(0)

        async def publish() -> None:
            await nc.publish(subject, data)

        await cancel(publish())
        proxy.unstall()


@pytest.mark.parametrize("greeting", [b"", None])
async def test_connect_can_be_cancelled_and_leaves_no_socket(greeting: bytes | None) -> None:
    async with ScriptedServer(greeting=greeting, answers_pings=False) as server:

        async def open_it() -> None:
            await connect(server.url)

        connecting = asyncio.create_task(open_it())
        peer = await server.peer()
        await cancel_now(connecting)
        await peer.closed.wait()


async def cancel_now(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_connect_under_a_deadline_of_the_caller_leaves_no_socket() -> None:
    async with ScriptedServer(greeting=b"") as server:
        deadline = asyncio.timeout(None)

        async def expire() -> None:
            """Let the deadline pass when the server has the connection."""
            await server.peer()
            deadline.reschedule(asyncio.get_running_loop().time())

        expiring = asyncio.create_task(expire())
        with pytest.raises(TimeoutError):
            async with deadline:
                await connect(server.url)
        await expiring
        await (await server.peer()).closed.wait()


async def test_a_cancelled_drain_of_a_subscription_ends_it(proxy: TCPProxy, subject: str) -> None:
    async with connect(proxy.url) as nc:
        subscription = await nc.subscribe(subject)
        await nc.flush()
        proxy.stall()
        await cancel(subscription.drain())
        assert not subscription.active
        assert [message async for message in subscription] == []
        proxy.unstall()


async def test_a_cancelled_drain_closes_the_connection(proxy: TCPProxy) -> None:
    nc = await connect(proxy.url)
    proxy.stall()
    await cancel(nc.drain())
    assert nc.closed


async def test_a_cancelled_close_closes_the_connection(proxy: TCPProxy, subject: str) -> None:
    entered = asyncio.Event()

    async def callback(_: Msg) -> None:
        entered.set()
        await asyncio.Event().wait()

    nc = await connect(proxy.url)
    await nc.subscribe(subject, callback=callback)
    nc.publish(subject)
    await entered.wait()
    proxy.stall()
    await cancel(nc.close())
    assert nc.closed


async def test_a_reconnect_that_is_cancelled_while_it_leaves_still_reconnects() -> None:
    """The outbox is detached then: a connection that stayed would never write again."""
    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()
        await peer.expect(PingFrame)  # the handshake
        server.answers_pings = False
        leaving = asyncio.create_task(nc.reconnect(600))
        await peer.expect(PingFrame)
        peer.send(encode.PONG)
        await peer.expect(PingFrame)  # written after the outbox was detached
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        server.answers_pings = True
        await nc.publish("subject", b"written")
        async with asyncio.timeout(30):
            assert (await (await server.peer(1)).expect(PubFrame)).data == b"written"


async def test_waiting_for_the_end_can_be_cancelled(nc: Connection) -> None:
    await cancel(nc.wait_closed())
    assert nc.connected


async def test_waiting_for_the_connection_can_be_cancelled(proxy: TCPProxy) -> None:
    async with connect(proxy.url) as nc:
        proxy.refuse()
        proxy.cut()
        while nc.connected:
            await asyncio.sleep(0)
        await cancel(nc.flush())


async def test_nothing_is_left_of_a_busy_connection(server: Server, subject: str) -> None:
    before = asyncio.all_tasks()
    async with connect(server.url) as nc:
        for number in range(20):
            await nc.subscribe(f"{subject}.{number}", callback=lambda message: message.respond())
        await asyncio.gather(*(nc.request(f"{subject}.{number}") for number in range(20)))
    assert asyncio.all_tasks() == before
    assert nc.session.receivers == []
    assert nc.session.outbox.size == 0
