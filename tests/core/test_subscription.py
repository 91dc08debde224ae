"""Subscriptions: who gets which messages, how they are read, how they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from jetspark import (
    Connection,
    Event,
    PermissionsViolation,
    Subscription,
    SubscriptionClosed,
    Timeout,
    UsageError,
    connect,
)
from jetspark.server import Server, User
from jetspark.wire import SubFrame, UnsubFrame
from tests.support.cases import for_each
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["a", "b"], ["a.b"]),
        ("a.*", ["a.b", "a.c"], ["a", "a.b.c", "b.a"]),
        ("*.b", ["a.b", "c.b"], ["a.c"]),
        ("a.>", ["a.b", "a.b.c"], ["a", "b"]),
        (">", ["a", "a.b.c"], []),
    ],
)
async def test_wildcards_match(
    nc: Connection, subject: str, pattern: str, matching: list[str], others: list[str]
) -> None:
    subscription = await nc.subscribe(f"{subject}.{pattern}")
    for token in others + matching:
        nc.publish(f"{subject}.{token}")
    received = [(await subscription.next()).subject for _ in matching]
    assert received == [f"{subject}.{token}" for token in matching]
    await nc.flush()
    assert subscription.pending_msgs == 0


@for_each("bad", ["", "a b", "a..b", "a.>.b", "a\r\n", "a\0", b"a", None])
async def test_bad_subjects_are_refused(nc: Connection, bad: str) -> None:
    with pytest.raises(UsageError, match="subject"):
        await nc.subscribe(bad)


@for_each(
    ("option", "value"),
    [
        ("queue", "two words"),
        ("queue", "line\r\nbreak"),
        ("max_msgs", 0),
        ("max_msgs", -1),
        ("max_msgs", "5"),
        ("max_msgs", 1.5),
        ("pending_msgs_limit", 0),
        ("pending_msgs_limit", None),
        ("pending_bytes_limit", 0),
        ("pending_bytes_limit", "1k"),
        ("callback", "not a function"),
    ],
)
async def test_bad_options_are_named(nc: Connection, subject: str, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        await nc.subscribe(subject, **{option: value})
    await nc.flush()
    assert nc.connected


async def test_members_of_a_queue_group_share_the_messages(
    nc: Connection, other: Connection, subject: str
) -> None:
    members = [await c.subscribe(subject, queue="workers") for c in (nc, nc, other)]
    everybody = await other.subscribe(subject)
    await nc.flush()
    await other.flush()
    for number in range(300):
        await nc.publish(subject, b"%d" % number)
    assert [int((await everybody.next()).data) for _ in range(300)] == list(range(300))
    await nc.flush()
    await other.flush()
    seen: list[int] = []
    for member in members:
        assert member.pending_msgs > 0
        seen += [int((await member.next()).data) for _ in range(member.pending_msgs)]
    assert sorted(seen) == list(range(300))
    assert members[0].queue == "workers"


async def test_max_msgs_ends_the_subscription_after_so_many(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject, max_msgs=3)
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    assert [message.data async for message in subscription] == [b"0", b"1", b"2"]
    assert not subscription.active
    with pytest.raises(SubscriptionClosed):
        await subscription.next()
    await nc.flush()
    assert nc.session.receivers == []


async def test_the_server_is_told_of_max_msgs() -> None:
    async with ScriptedServer() as server, connect(server.url) as nc:
        await nc.subscribe("orders", max_msgs=7)
        peer = await server.peer()
        subscribed = await peer.expect(SubFrame)
        assert await peer.expect(UnsubFrame) == UnsubFrame(subscribed.sid, 7)


async def test_more_messages_than_max_msgs_are_not_handed_out() -> None:
    """The server does not send them; nothing hangs on that."""
    async with ScriptedServer() as server, connect(server.url) as nc:
        subscription = await nc.subscribe("orders", max_msgs=2)
        peer = await server.peer()
        await peer.expect(SubFrame)
        for number in range(5):
            peer.deliver("orders", b"%d" % number)
        assert [message.data async for message in subscription] == [b"0", b"1"]


async def test_next_raises_timeout_when_nothing_comes(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    with pytest.raises(Timeout, match=subject):
        await subscription.next(timeout=0.01)
    with pytest.raises(TimeoutError):
        await subscription.next(timeout=0)
    await nc.publish(subject, b"late")
    assert (await subscription.next()).data == b"late"


async def test_next_waits_for_request_timeout_by_default(shared_server: Server, subject: str) -> None:
    async with connect(shared_server.url, request_timeout=0.01) as nc:
        subscription = await nc.subscribe(subject)
        with pytest.raises(Timeout, match=r"0\.01 s"):
            await subscription.next()


async def test_several_readers_share_a_subscription(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    readers = [asyncio.create_task(subscription.next()) for _ in range(10)]
    await asyncio.sleep(0)
    for number in range(10):
        nc.publish(subject, b"%d" % number)
    assert sorted([(await reader).data for reader in readers]) == [b"%d" % n for n in range(10)]


async def _read(subscription: Subscription) -> list[bytes]:
    return [message.data async for message in subscription]


@pytest.mark.parametrize("ending", ["unsubscribe", "drain", "close", "connection drain"])
async def test_async_for_ends(shared_server: Server, subject: str, ending: str) -> None:
    async with connect(shared_server.url) as nc:
        subscription = await nc.subscribe(subject)
        reader = asyncio.create_task(_read(subscription))
        nc.publish(subject, b"1")
        await nc.flush()
        match ending:
            case "unsubscribe":
                await subscription.unsubscribe()
            case "drain":
                await subscription.drain()
            case "close":
                await nc.close()
            case "connection drain":
                await nc.drain()
        assert await reader == [b"1"]
        assert not subscription.active
        with pytest.raises(SubscriptionClosed):
            await subscription.next()


async def test_leaving_async_with_unsubscribes(nc: Connection, subject: str) -> None:
    async with await nc.subscribe(subject) as subscription:
        await nc.publish(subject, b"1")
        assert (await subscription.next()).data == b"1"
    assert not subscription.active
    assert nc.session.receivers == []


async def test_what_is_buffered_can_be_read_after_unsubscribe(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    for _ in range(3):
        nc.publish(subject)
    await nc.flush()
    await subscription.unsubscribe()
    nc.publish(subject)
    await nc.flush()
    for _ in range(3):
        await subscription.next()
    with pytest.raises(SubscriptionClosed):
        await subscription.next()


async def test_unsubscribe_twice_does_nothing(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    await subscription.unsubscribe()
    await subscription.unsubscribe()
    await subscription.drain()
    await nc.flush()
    assert nc.connected


async def test_waiting_readers_learn_that_it_was_unsubscribed(nc: Connection, subject: str) -> None:
    subscription = await nc.subscribe(subject)
    reader = asyncio.create_task(subscription.next())
    await asyncio.sleep(0)
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosed):
        await reader


# --- many


async def test_ten_thousand_subscriptions_each_get_their_message(
    nc: Connection, other: Connection, subject: str
) -> None:
    subscriptions = [await nc.subscribe(f"{subject}.{number}") for number in range(10_000)]
    await nc.flush(30)
    for number in range(10_000):
        await other.publish(f"{subject}.{number}", b"%d" % number)
    await other.flush(30)
    await nc.flush(30)
    counts = Counter(subscription.pending_msgs for subscription in subscriptions)
    assert counts == {1: 10_000}
    assert [int((await s.next()).data) for s in subscriptions] == list(range(10_000))


# --- permissions


async def test_a_refused_subscription_tells_its_reader_and_the_connection_stays(
    subject: str, watch: Watch
) -> None:
    user = User(user="u", password="p", subscribe_deny=["forbidden.>"])
    async with (
        Server(jetstream=False, users=[user]) as server,
        connect(server.url, user="u", password="p", **watch.listeners) as nc,
    ):
        allowed = await nc.subscribe(subject)
        refused = await nc.subscribe("forbidden.fruit")
        with pytest.raises(PermissionsViolation, match=r"forbidden\.fruit"):
            await refused.next()
        with pytest.raises(PermissionsViolation):
            await anext(refused)
        assert not refused.active
        assert isinstance(await watch.until(Event.ERROR), PermissionsViolation)
        queued = await nc.subscribe("forbidden.fruit", queue="q")
        with pytest.raises(PermissionsViolation):
            async for _ in queued:
                pass
        await nc.publish(subject, b"1")
        assert (await allowed.next()).data == b"1"
        assert nc.statistics.reconnects == 0
        assert nc.session.receivers == [allowed]


async def test_a_refused_publish_is_reported_and_the_connection_stays(subject: str, watch: Watch) -> None:
    user = User(user="u", password="p", publish_deny=["forbidden.>"])
    async with (
        Server(jetstream=False, users=[user]) as server,
        connect(server.url, user="u", password="p", **watch.listeners) as nc,
    ):
        await nc.publish("forbidden.fruit", b"1")
        error = await watch.until(Event.ERROR)
        assert isinstance(error, PermissionsViolation)
        assert "forbidden.fruit" in str(error)
        assert nc.last_error is error
        await nc.flush()
        assert nc.statistics.reconnects == 0
