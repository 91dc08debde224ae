"""Callbacks: called with one message after the other, allowed to do everything, contained when they fail."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from jetspark import Connection, Event, Msg, UsageError, connect
from jetspark.server import Server
from tests.support.watch import Watch


async def test_plain_callbacks_are_called_in_order(nc: Connection, subject: str) -> None:
    seen: list[int] = []
    subscription = await nc.subscribe(subject, callback=lambda message: seen.append(int(message.data)))
    for number in range(1000):
        nc.publish(subject, b"%d" % number)
    await subscription.drain()
    assert seen == list(range(1000))


async def test_coroutine_callbacks_are_called_one_after_the_other(nc: Connection, subject: str) -> None:
    seen: list[int] = []
    running = 0

    async def callback(message: Msg) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        seen.append(int(message.data))
        running -= 1

    subscription = await nc.subscribe(subject, callback=callback)
    for number in range(100):
        nc.publish(subject, b"%d" % number)
    await subscription.drain()
    assert seen == list(range(100))


@pytest.mark.parametrize("coroutine", [False, True])
async def test_a_failing_callback_is_reported_and_the_rest_goes_on(
    shared_server: Server, subject: str, watch: Watch, coroutine: bool
) -> None:
    seen: list[bytes] = []

    def plain(message: Msg) -> None:
        if message.data == b"bad":
            raise ZeroDivisionError("in the callback")
        seen.append(message.data)

    async def awaiting(message: Msg) -> None:
        plain(message)

    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, callback=awaiting if coroutine else plain)
        for data in (b"1", b"bad", b"2"):
            nc.publish(subject, data)
        await subscription.drain()
        assert seen == [b"1", b"2"]
        error = await watch.until(Event.ERROR)
        assert isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize("coroutine", [False, True])
async def test_a_callback_that_uses_something_cancelled_is_reported_and_the_rest_goes_on(
    shared_server: Server, subject: str, watch: Watch, coroutine: bool
) -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    seen: list[bytes] = []

    def plain(message: Msg) -> None:
        if message.data == b"bad":
            cancelled.result()
        seen.append(message.data)

    async def awaiting(message: Msg) -> None:
        if message.data == b"bad":
            await cancelled
        seen.append(message.data)

    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, callback=awaiting if coroutine else plain)
        for data in (b"1", b"bad", b"2"):
            nc.publish(subject, data)
        error = await watch.until(Event.ERROR)
        assert isinstance(error.__cause__, asyncio.CancelledError)
        await subscription.drain()
    assert seen == [b"1", b"2"]


async def test_a_callback_may_publish(nc: Connection, subject: str) -> None:
    answers = await nc.subscribe(f"{subject}.back")
    await nc.subscribe(subject, callback=lambda message: nc.publish(f"{subject}.back", message.data))
    await nc.subscribe(f"{subject}.a", callback=lambda message: message.respond(b"responded"))
    nc.publish(subject, b"1")
    assert (await answers.next()).data == b"1"
    nc.publish(f"{subject}.a", reply=f"{subject}.back")
    assert (await answers.next()).data == b"responded"


async def test_a_callback_may_request(nc: Connection, subject: str) -> None:
    async def ask(message: Msg) -> None:
        await message.respond((await nc.request(f"{subject}.inner")).data + b"!")

    await nc.subscribe(f"{subject}.inner", callback=lambda message: message.respond(b"inner"))
    await nc.subscribe(subject, callback=ask)
    assert (await nc.request(subject)).data == b"inner!"


async def test_a_callback_may_unsubscribe_itself_and_is_not_called_again(
    nc: Connection, subject: str
) -> None:
    seen: list[bytes] = []
    ended = asyncio.Event()

    async def callback(message: Msg) -> None:
        seen.append(message.data)
        await subscription.unsubscribe()
        ended.set()

    subscription = await nc.subscribe(subject, callback=callback)
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    await ended.wait()
    await nc.flush()
    assert seen == [b"0"]


async def test_unsubscribe_lets_the_running_callback_finish(nc: Connection, subject: str) -> None:
    started, release = asyncio.Event(), asyncio.Event()
    finished = []

    async def callback(_: Msg) -> None:
        started.set()
        await release.wait()
        finished.append(True)

    subscription = await nc.subscribe(subject, callback=callback)
    for _ in range(3):
        nc.publish(subject)
    await started.wait()
    unsubscribing = asyncio.create_task(subscription.unsubscribe())
    await asyncio.sleep(0)
    assert not unsubscribing.done()
    release.set()
    await unsubscribing
    assert finished == [True]


async def test_a_subscription_with_a_callback_cannot_be_read(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, callback=lambda _: None)
    with pytest.raises(UsageError, match="callback"):
        await subscription.next()
    with pytest.raises(UsageError, match="callback"):
        aiter(subscription)


async def test_a_plain_callback_does_not_starve_the_loop(nc: Connection, subject: str) -> None:
    """10,000 buffered messages for a callback that never awaits; others get their turn in between."""
    seen = 0
    turns: list[int] = []

    def callback(_: Msg) -> None:
        nonlocal seen
        seen += 1

    async def spin() -> None:
        while seen < 10_000:
            turns.append(seen)
            await asyncio.sleep(0)

    subscription = await nc.subscribe(subject, callback=callback)
    for _ in range(10_000):
        nc.publish(subject)
    await spin()
    assert max(after - before for before, after in pairwise(turns)) <= 1000
    await subscription.drain()


async def test_max_msgs_counts_for_callbacks(nc: Connection, subject: str) -> None:
    seen: list[bytes] = []
    done = await nc.subscribe(subject, max_msgs=2, callback=lambda message: seen.append(message.data))
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    await nc.flush()
    await done.drain()
    await asyncio.sleep(0)
    assert seen == [b"0", b"1"]
