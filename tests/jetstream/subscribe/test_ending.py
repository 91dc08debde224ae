"""How subscriptions end, and what becomes of their consumers. Against the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jetspark import (
    Connection,
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerNotFound,
    Event,
    JetStreamMsg,
    SubscriptionClosed,
    UsageError,
    connect,
)
from jetspark.core.subscription import Subscription
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.support.consuming import LONG, fill, make_stream, sequences, until
from tests.support.timing import impatient
from tests.support.untyped import untyped
from tests.support.watch import Watch, eventually


@pytest.fixture
async def other(server: Server, watch: Watch) -> AsyncIterator[JetStream]:
    """Another program, watched."""
    async with connect(server.url, **watch.listeners) as nc:
        yield nc.jetstream()


async def names(js: JetStream) -> list[str]:
    return [name async for name in js.consumer_names("ORDERS")]


def listening(nc: Connection) -> list[Subscription]:
    return [receiver for receiver in nc.session.receivers if isinstance(receiver, Subscription)]


@pytest.mark.parametrize("durable", [None, "D"])
@pytest.mark.parametrize("how", ["unsubscribe", "drain", "context"])
@pytest.mark.parametrize("callback", [True, False])
async def test_a_consumer_that_the_subscription_created_is_deleted_with_it(
    js: JetStream, nc: Connection, durable: str | None, how: str, callback: bool
) -> None:
    await make_stream(js)
    subscription = await js.subscribe(
        "orders.>", durable=durable, callback=(lambda message: None) if callback else None
    )
    assert await names(js) == [subscription.consumer_name]
    if how == "context":
        async with subscription:
            pass
    else:
        await getattr(subscription, how)()
    assert await names(js) == []
    assert listening(nc) == []
    assert not subscription.active


@pytest.mark.parametrize("how", ["unsubscribe", "drain"])
@pytest.mark.parametrize("named", ["durable", "consumer"])
async def test_a_consumer_that_was_there_stays(js: JetStream, how: str, named: str) -> None:
    await make_stream(js)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="D", deliver_subject="to.here"))
    subscription = await js.subscribe("orders.>", **untyped({named: "D"}))
    await getattr(subscription, how)()
    assert await names(js) == ["D"]


async def test_closing_the_connection_keeps_a_durable(server: Server, js: JetStream) -> None:
    await make_stream(js)
    async with connect(server.url) as nc:
        await nc.jetstream().subscribe("orders.>", durable="D")
    assert await names(js) == ["D"]


async def test_a_program_that_ends_with_a_drain_continues_where_it_was(server: Server, js: JetStream) -> None:
    stream = await make_stream(js)
    await fill(js, stream, 3)
    # What a program received and did not handle comes again after this time.
    config = ConsumerConfig(ack_wait=1.0)
    seen = []
    for _ in range(3):
        async with connect(server.url) as nc:
            subscription = await nc.jetstream().subscribe("orders.>", durable="billing", config=config)
            message = await subscription.next(LONG)
            await message.ack_sync()
            seen.append(message.metadata.sequence.stream)
            await nc.drain()
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("how", ["unsubscribe", "drain"])
@pytest.mark.parametrize("kind", ["subscribe", "pull_subscribe"])
async def test_keep_consumer_keeps_a_durable_that_the_subscription_created(
    js: JetStream, kind: str, how: str
) -> None:
    await make_stream(js)
    subscription = await getattr(js, kind)("orders.>", durable="D", keep_consumer=True)
    await getattr(subscription, how)()
    assert await names(js) == ["D"]


async def test_keep_consumer_and_ordered_exclude_each_other(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="keep_consumer excludes ordered=True"):
        await js.subscribe("orders.>", ordered=True, keep_consumer=True)


async def test_draining_the_connection_deletes_what_its_subscriptions_created_except_durables(
    server: Server, js: JetStream, watch: Watch
) -> None:
    stream = await make_stream(js)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="KEPT", deliver_subject="to.here"))
    got: list[JetStreamMsg] = []
    async with connect(server.url, **watch.listeners) as nc:
        theirs = nc.jetstream()
        await theirs.subscribe("orders.>", callback=got.append)
        await theirs.subscribe("orders.>", durable="D")
        await theirs.subscribe("orders.>", ordered=True)
        await theirs.subscribe("orders.>", durable="KEPT")
        await theirs.subscribe("orders.>", "QUEUE", callback=lambda message: None)
        await theirs.pull_subscribe("orders.>", "PULL")
        await fill(js, stream, 10)
        await nc.drain()
    assert sorted(await names(js)) == ["D", "KEPT", "PULL", "QUEUE"]
    assert watch.count(Event.ERROR) == 0


async def test_a_consumer_that_somebody_else_deleted_is_an_error_of_unsubscribe(js: JetStream) -> None:
    await make_stream(js)
    subscription = await js.subscribe("orders.>", durable="D")
    await js.delete_consumer("ORDERS", "D")
    with pytest.raises(ConsumerNotFound):
        await subscription.unsubscribe()
    assert not subscription.active


async def test_a_consumer_that_somebody_else_deleted_is_reported_after_a_drain(
    js: JetStream, other: JetStream, watch: Watch
) -> None:
    await make_stream(js)
    subscription = await other.subscribe("orders.>", durable="D")
    await js.delete_consumer("ORDERS", "D")
    await subscription.drain()
    assert isinstance(await watch.until(Event.ERROR), ConsumerNotFound)


# --- queues: the choice that is documented in docs/subscribe.md


@pytest.mark.parametrize("how", ["unsubscribe", "drain"])
async def test_the_member_of_a_queue_that_created_the_durable_does_not_take_it_from_the_others(
    js: JetStream, other: JetStream, how: str
) -> None:
    """The example of the note: member1 creates `shared`, member2 joins, member1 leaves."""
    stream = await make_stream(js)
    got: list[int] = []
    member1 = await js.subscribe("orders.>", "bar", durable="shared", callback=lambda message: None)
    await other.subscribe("orders.>", "bar", durable="shared", callback=lambda m: got.extend(sequences([m])))
    await getattr(member1, how)()
    assert await names(js) == ["shared"]
    await fill(js, stream, 20)
    await eventually(lambda: len(got) >= 20, "the other to get them all")
    assert sorted(got) == list(range(1, 21))


async def test_the_last_member_of_a_queue_leaves_its_place_to_those_who_come(js: JetStream) -> None:
    stream = await make_stream(js, 5)
    first = await js.subscribe("orders.>", "workers")
    for _ in range(5):
        await (await first.next(LONG)).ack_sync()
    await first.unsubscribe()
    await fill(js, stream, 2)
    again = await js.subscribe("orders.>", "workers")
    assert sequences([await again.next(LONG) for _ in range(2)]) == [6, 7]


async def test_what_a_member_leaves_behind_goes_to_the_others_at_once(
    js: JetStream, other: JetStream
) -> None:
    """Its callback runs, messages wait behind it; unsubscribing returns those instead of sitting on them."""
    await make_stream(js, 20)
    began, let_go = asyncio.Event(), asyncio.Event()

    async def handle(message: JetStreamMsg) -> None:
        began.set()
        await let_go.wait()

    slow = await js.subscribe("orders.>", "workers", callback=handle, config=ConsumerConfig(ack_wait=3600))
    await asyncio.wait_for(began.wait(), LONG)
    await eventually(lambda: slow.received == 20, "all to arrive at the slow one")
    got: list[int] = []
    await other.subscribe("orders.>", "workers", callback=lambda m: got.extend(sequences([m])))
    leaving = asyncio.create_task(slow.unsubscribe())
    await asyncio.sleep(0)
    let_go.set()
    await leaving
    await eventually(lambda: len(got) == 19, "the rest to arrive at the other")
    assert sorted(got) == list(range(2, 21))


# --- ending with messages under way


async def test_a_drain_hands_out_what_is_under_way(js: JetStream) -> None:
    await make_stream(js, 500)
    got: list[int] = []
    subscription = await js.subscribe("orders.>", callback=lambda m: got.extend(sequences([m])))
    await eventually(lambda: bool(got), "the first to arrive")
    await subscription.drain()
    assert len(got) == subscription.received
    assert got == list(range(1, len(got) + 1))
    await subscription.drain()


async def test_a_callback_may_end_its_own_subscription(js: JetStream) -> None:
    await make_stream(js, 10)
    got: list[int] = []
    done = asyncio.Event()

    async def handle(message: JetStreamMsg) -> None:
        got.extend(sequences([message]))
        if len(got) == 3:
            await subscription.unsubscribe()
            done.set()

    subscription = await js.subscribe("orders.>", callback=handle, pending_msgs_limit=100)
    await asyncio.wait_for(done.wait(), LONG)
    assert got == [1, 2, 3]
    assert await names(js) == []


async def test_what_is_buffered_can_be_read_after_unsubscribe(js: JetStream) -> None:
    await make_stream(js, 3)
    subscription = await js.subscribe("orders.>")
    await eventually(lambda: subscription.pending_msgs == 3, "all to arrive")
    await subscription.unsubscribe()
    assert sequences([await subscription.next(LONG) for _ in range(3)]) == [1, 2, 3]
    with pytest.raises(SubscriptionClosed):
        await subscription.next(LONG)


# --- consumers that go away


async def test_an_ephemeral_consumer_that_is_gone_ends_its_subscription(
    js: JetStream, other: JetStream, watch: Watch
) -> None:
    """The heartbeats stop; the alarm looks for the consumer, and says what it found."""
    await make_stream(js)
    subscription = await other.subscribe("orders.>", idle_heartbeat=0.1)
    await js.delete_consumer("ORDERS", subscription.consumer_name)
    with pytest.raises(ConsumerDeleted, match="was deleted"):
        await subscription.next(LONG)
    assert not subscription.active
    await subscription.unsubscribe()


async def test_a_callback_learns_of_it_in_the_error_callback(
    js: JetStream, other: JetStream, watch: Watch
) -> None:
    await make_stream(js)
    subscription = await other.subscribe("orders.>", idle_heartbeat=0.1, callback=lambda message: None)
    await js.delete_consumer("ORDERS", subscription.consumer_name)
    await eventually(
        lambda: any(isinstance(error, ConsumerDeleted) for _, error in watch.events), "the report"
    )
    await eventually(lambda: not subscription.active, "its end")


async def test_a_queue_learns_that_its_consumer_was_deleted(
    js: JetStream, other: JetStream, watch: Watch
) -> None:
    """It has no heartbeats: the members look for it when it is quiet."""
    impatient(other)
    stream = await make_stream(js)
    member = await other.subscribe("orders.>", queue="workers", alarm_after=0.2)
    await fill(js, stream, 1)
    assert sequences([await member.next(LONG)]) == [1]
    assert watch.count(Event.ERROR) == 0
    await js.delete_consumer("ORDERS", member.consumer_name)
    assert isinstance(await watch.until(Event.ERROR), ConsumerDeleted)
    assert member.active


async def test_a_durable_that_is_created_again_goes_on(js: JetStream, other: JetStream, watch: Watch) -> None:
    stream = await make_stream(js)
    config = ConsumerConfig(durable_name="D", deliver_subject="to.here", idle_heartbeat=0.1)
    await js.create_consumer("ORDERS", config)
    subscription = await other.subscribe("orders.>", durable="D")
    await js.delete_consumer("ORDERS", "D")
    await eventually(
        lambda: any(isinstance(error, ConsumerDeleted) for _, error in watch.events), "the report"
    )
    assert subscription.active
    await js.create_consumer("ORDERS", config)
    await fill(js, stream, 2)
    assert sequences([await subscription.next(LONG) for _ in range(2)]) == [1, 2]


async def test_nothing_is_left_behind(server: Server, js: JetStream) -> None:
    await make_stream(js, 10)
    before = asyncio.all_tasks()
    async with connect(server.url) as nc:
        theirs = nc.jetstream()
        for options in untyped(({}, {"idle_heartbeat": 0.2}, {"queue": "q"}, {"ordered": True})):
            subscription = await theirs.subscribe("orders.>", **options)
            await subscription.next(LONG)
            await subscription.unsubscribe()
        pull = await theirs.pull_subscribe("orders.>")
        await pull.fetch(3)
        await pull.unsubscribe()
        assert listening(nc) == []

    async def only_the_queue() -> bool:
        return await names(js) == ["q"]

    await until(only_the_queue, "consumers to be gone")
    await eventually(lambda: asyncio.all_tasks() <= {*before, asyncio.current_task()}, "all tasks to end")
