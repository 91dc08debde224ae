"""Consumers that several clients share by priority: overflow, pinned client, prioritized. Server 2.11."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jetspark import Connection, PinEvent, connect
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from tests.support.consuming import LONG, fill, make_consumer, sequences, until
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


async def waiting(consumer: Consumer, number: int) -> None:
    async def enough() -> bool:
        return (await consumer.info()).num_waiting == number

    await until(enough, f"{number} requests to wait")


# --- overflow


async def overflow(js: JetStream, messages: int) -> Consumer:
    return await make_consumer(
        js, messages, priority_policy="overflow", priority_groups=["jobs"], max_ack_pending=-1
    )


async def test_overflow_serves_when_so_many_are_pending(js: JetStream) -> None:
    consumer = await overflow(js, 5)
    assert await consumer.fetch(5, min_pending=10, expires=0.2) == []
    # It is looked at before every message: with 2 pending it is over.
    assert sequences(await consumer.fetch(5, min_pending=3, expires=2)) == [1, 2, 3]


async def test_overflow_begins_when_enough_has_gathered(js: JetStream) -> None:
    consumer = await overflow(js, 5)
    fetching = asyncio.create_task(consumer.fetch(3, min_pending=8, expires=LONG))
    await waiting(consumer, 1)
    await fill(js, await js.get_stream("ORDERS"), 5)
    assert sequences(await fetching) == [1, 2, 3]


async def test_overflow_serves_when_so_many_are_not_acknowledged(js: JetStream) -> None:
    consumer = await overflow(js, 10)
    assert await consumer.fetch(2, min_ack_pending=3, expires=0.2) == []
    held = await consumer.fetch(3)
    assert sequences(await consumer.fetch(2, min_ack_pending=3, expires=LONG)) == [4, 5]
    await held.ack()


@pytest.mark.parametrize("how", ["next", "fetch_no_wait"])
async def test_the_other_ways_to_fetch_can_be_the_overflow_too(js: JetStream, how: str) -> None:
    consumer = await overflow(js, 5)

    async def get(**conditions: Any) -> object:
        if how == "next":
            return await consumer.next(0.2, **conditions)
        return await consumer.fetch_no_wait(1, **conditions)

    assert not await get(min_pending=10)
    assert await get(min_pending=3)
    assert not await get(min_ack_pending=5)
    assert await get(min_ack_pending=1)


async def test_a_consume_can_be_the_overflow(js: JetStream) -> None:
    consumer = await overflow(js, 5)
    seen: list[JetStreamMsg] = []
    failures: list[Exception] = []
    async with await consumer.consume(
        seen.append,
        min_pending=10,
        max_messages=3,
        expires=10,
        on_error=failures.append,
    ):
        await waiting(consumer, 1)
        assert not seen
        await fill(js, await js.get_stream("ORDERS"), 10)
        await eventually(lambda: len(seen) >= 6, "the overflow")
    assert not failures
    assert sequences(seen)[:6] == [1, 2, 3, 4, 5, 6]


# --- pinned client


async def pinned(js: JetStream, messages: int = 0, timeout: float = 60, **config: Any) -> Consumer:
    return await make_consumer(
        js,
        messages,
        priority_policy="pinned_client",
        priority_groups=["jobs"],
        priority_timeout=timeout,
        **{"ack_policy": "none", **config},
    )


async def pin_of(consumer: Consumer) -> str | None:
    (group,) = (await consumer.info()).priority_groups
    return group.pinned_client_id


async def test_the_first_client_is_pinned_and_gets_everything(js: JetStream, nc: Connection) -> None:
    consumer = await pinned(js, 5)
    first = await consumer.fetch(2)
    assert first[0].headers["Nats-Pin-Id"] == await pin_of(consumer)
    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        assert await theirs.fetch(2, expires=0.2) == []
        assert sequences(await consumer.fetch(3)) == [3, 4, 5]


async def test_unpinning_hands_over_to_a_client_that_waits(js: JetStream, nc: Connection) -> None:
    consumer = await pinned(js, 2)
    events: list[PinEvent] = []
    assert sequences(await consumer.fetch(2)) == [1, 2]
    before = await pin_of(consumer)
    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        fetching = asyncio.create_task(theirs.fetch(2, expires=LONG))
        await waiting(consumer, 1)
        await consumer.unpin("jobs")
        await fill(js, await js.get_stream("ORDERS"), 2)
        assert sequences(await fetching) == [3, 4]
        after = await pin_of(consumer)
        assert after not in (None, before)
        # The first client does not know yet that it is not pinned any more: it is told, and stands in line.
        consumer.on_pin(events.append)
        assert await consumer.fetch(1, expires=0.2) == []
        assert [(event.pin_id, event.gained) for event in events] == [(before, False)]
        assert await consumer.fetch_no_wait(1) == []
        await fill(js, await js.get_stream("ORDERS"), 1)
        assert sequences(await theirs.fetch(1)) == [5]


async def test_a_client_that_is_gone_for_long_loses_its_place(js: JetStream, nc: Connection) -> None:
    consumer = await pinned(js, 1, timeout=1)
    assert len(await consumer.fetch(1)) == 1
    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        fetching = asyncio.create_task(theirs.fetch(1, expires=LONG))
        await waiting(consumer, 1)
        await fill(js, await js.get_stream("ORDERS"), 1)
        assert sequences(await fetching) == [2]


async def test_a_consume_keeps_its_pin_and_another_takes_over_when_it_stops(
    js: JetStream, nc: Connection
) -> None:
    # The server sends what the open request of a pinned client still asks for although nobody listens any
    # more; it comes again after ack_wait.
    consumer = await pinned(js, 10, timeout=5, ack_policy="explicit", ack_wait=5)
    stream = await js.get_stream("ORDERS")
    mine: list[int] = []
    others: list[int] = []
    failures: list[Exception] = []

    def keep(where: list[int]) -> Callable[[JetStreamMsg], None]:
        def handle(message: JetStreamMsg) -> None:
            where.append(message.metadata.sequence.stream)
            message.ack()

        return handle

    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        running = await consumer.consume(keep(mine), expires=4, max_messages=5, on_error=failures.append)
        await eventually(lambda: len(mine) == 10, "ten messages")
        async with await theirs.consume(keep(others), expires=4, on_error=failures.append):
            for expected in (20, 30):
                await fill(js, stream, 10)
                await eventually(lambda: len(mine) == expected, f"{expected} messages")  # noqa: B023
            assert not others
            await running.stop()
            await fill(js, stream, 10)
            await eventually(lambda: len(others) == 10, "the other one to take over")
    assert mine == list(range(1, 31))
    assert sorted(others) == list(range(31, 41))
    assert not failures


async def test_a_consume_that_is_unpinned_gets_in_line_without_an_error(js: JetStream) -> None:
    consumer = await pinned(js, 5)
    events: list[PinEvent] = []
    consumer.on_pin(events.append)
    stream = await js.get_stream("ORDERS")
    seen: list[JetStreamMsg] = []
    failures: list[Exception] = []
    async with await consumer.consume(seen.append, expires=4, on_error=failures.append):
        await eventually(lambda: len(seen) == 5, "five messages")
        await consumer.unpin("jobs")
        await fill(js, stream, 5)
        # Nobody else is there, so it is pinned again.
        await eventually(lambda: len(seen) == 10, "five more")
    assert not failures
    assert sequences(seen) == list(range(1, 11))
    first, *_, last = events
    assert first == PinEvent(
        stream="ORDERS", consumer="worker", group="jobs", pin_id=seen[0].headers["Nats-Pin-Id"], gained=True
    )
    assert last.gained
    assert last.pin_id == seen[-1].headers["Nats-Pin-Id"] != first.pin_id


# --- prioritized


async def test_the_lowest_priority_is_served_first(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, priority_policy="prioritized", priority_groups=["jobs"])
    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        second = asyncio.create_task(consumer.fetch(2, priority=5, expires=LONG))
        await waiting(consumer, 1)
        first = asyncio.create_task(theirs.fetch(2, priority=1, expires=LONG))
        await waiting(consumer, 2)
        await fill(js, await js.get_stream("ORDERS"), 4)
        assert sequences(await first) == [1, 2]
        assert sequences(await second) == [3, 4]


async def test_next_waits_in_line_by_its_priority(js: JetStream) -> None:
    consumer = await make_consumer(js, priority_policy="prioritized", priority_groups=["jobs"])
    second = asyncio.create_task(consumer.next(LONG, priority=5))
    await waiting(consumer, 1)
    first = asyncio.create_task(consumer.next(LONG, priority=1))
    await waiting(consumer, 2)
    await fill(js, await js.get_stream("ORDERS"), 2)
    messages = [await first, await second]
    assert sequences(message for message in messages if message) == [1, 2]
