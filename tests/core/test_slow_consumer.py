"""Slow consumers: bounded memory, what is dropped is counted and told once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark import Connection, Event, Msg, SlowConsumer, Subscription, connect
from jetspark.server import Server
from tests.support.watch import Watch


async def publish_many(nc: Connection, subject: str, count: int, data: bytes = b"") -> None:
    for _ in range(count):
        await nc.publish(subject, data)
    await nc.flush()


async def read_all(subscription: Subscription) -> int:
    count = subscription.pending_msgs
    for _ in range(count):
        await subscription.next()
    return count


async def test_messages_beyond_the_limit_are_dropped_and_counted(
    shared_server: Server, subject: str, watch: Watch
) -> None:
    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, pending_msgs_limit=10)
        await publish_many(nc, subject, 25)
        assert (subscription.pending_msgs, subscription.dropped, subscription.received) == (10, 15, 25)
        error = await watch.until(Event.SLOW_CONSUMER)
        assert isinstance(error, SlowConsumer)
        assert error.subject == subject
        assert error.dropped >= 1
        assert error.hint


async def test_the_oldest_messages_are_kept(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, pending_msgs_limit=3)
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    await nc.flush()
    assert [(await subscription.next()).data for _ in range(3)] == [b"0", b"1", b"2"]


async def test_bytes_beyond_the_limit_are_dropped(nc: Connection, subject: str) -> None:
    limit = 10 * (len(subject) + 100)
    subscription = await nc.subscribe(subject, pending_bytes_limit=limit)
    await publish_many(nc, subject, 25, bytes(100))
    assert (subscription.pending_msgs, subscription.pending_bytes, subscription.dropped) == (10, limit, 15)
    await read_all(subscription)
    assert subscription.pending_bytes == 0


async def test_headers_and_subjects_count_for_the_limit(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(f"{subject}.>", pending_bytes_limit=50_000)
    for number in range(20):
        nc.publish(f"{subject}.{'x' * 1000}", reply="r" * 1000, headers={"k": "v" * (number * 1000)})
    await nc.flush()
    assert 0 < subscription.pending_msgs < 10
    assert subscription.pending_bytes <= 50_000
    assert subscription.dropped == 20 - subscription.pending_msgs
    await read_all(subscription)
    assert subscription.pending_bytes == 0


async def test_a_message_larger_than_the_limit_is_dropped_alone(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, pending_bytes_limit=len(subject) + 100)
    nc.publish(subject, bytes(101))
    await nc.flush()
    nc.publish(subject, bytes(100))
    assert len((await subscription.next()).data) == 100
    assert subscription.dropped == 1


@pytest.mark.parametrize("limit", [{"pending_msgs_limit": 10}, {"pending_bytes_limit": 1000}])
async def test_it_is_told_once_until_the_reader_has_caught_up(
    shared_server: Server, subject: str, watch: Watch, limit: dict[str, Any]
) -> None:
    if "pending_bytes_limit" in limit:
        limit = {"pending_bytes_limit": 10 * (len(subject) + 100)}
    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, **limit)
        for _ in range(20):
            await publish_many(nc, subject, 25, bytes(100))
        assert watch.count(Event.SLOW_CONSUMER) == 1
        assert await read_all(subscription) == 10
        for _ in range(20):
            await publish_many(nc, subject, 25, bytes(100))
        assert watch.count(Event.SLOW_CONSUMER) == 2
        assert subscription.dropped == 2 * (20 * 25 - 10)


async def test_a_limit_of_one_recovers_too(shared_server: Server, subject: str, watch: Watch) -> None:
    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, pending_msgs_limit=1)
        for episode in range(1, 4):
            await publish_many(nc, subject, 3)
            assert watch.count(Event.SLOW_CONSUMER) == episode
            assert await read_all(subscription) == 1


async def test_reading_one_message_does_not_begin_a_new_episode(
    shared_server: Server, subject: str, watch: Watch
) -> None:
    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, pending_msgs_limit=10)
        for _ in range(20):
            await publish_many(nc, subject, 5)
            if subscription.pending_msgs == 10:
                await subscription.next()
        assert watch.count(Event.SLOW_CONSUMER) == 1


async def test_it_goes_on_after_the_reader_has_caught_up(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, pending_msgs_limit=10)
    await publish_many(nc, subject, 25)
    await read_all(subscription)
    await nc.publish(subject, b"again")
    assert (await subscription.next()).data == b"again"


async def test_memory_stays_bounded_under_a_flood(nc: Connection, other: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, pending_msgs_limit=100, pending_bytes_limit=10_000)
    await nc.flush()
    data = bytes(512)
    for _ in range(200):
        for _ in range(100):
            other.publish(subject, data)
        await other.flush()
        assert subscription.pending_msgs <= 100
        assert subscription.pending_bytes <= 10_000
    await nc.flush()
    assert subscription.received == 20_000
    assert subscription.dropped == 20_000 - subscription.pending_msgs


async def test_a_slow_callback_drops_and_goes_on(shared_server: Server, subject: str, watch: Watch) -> None:
    release = asyncio.Event()
    seen = 0

    async def callback(_: Msg) -> None:
        nonlocal seen
        await release.wait()
        seen += 1

    async with connect(shared_server.url, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject, callback=callback, pending_msgs_limit=10)
        await publish_many(nc, subject, 100)
        await watch.until(Event.SLOW_CONSUMER)
        release.set()
        await subscription.drain()
        assert seen + subscription.dropped == 100
        assert 10 <= seen <= 11


async def test_other_subscriptions_do_not_suffer(nc: Connection, subject: str) -> None:
    slow = await nc.subscribe(subject, pending_msgs_limit=1)
    fine = await nc.subscribe(subject)
    await publish_many(nc, subject, 1000)
    assert (slow.pending_msgs, slow.dropped) == (1, 999)
    assert (fine.pending_msgs, fine.dropped) == (1000, 0)
