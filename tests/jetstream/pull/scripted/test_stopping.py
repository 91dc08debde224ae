"""Cancelled, stopped and drained: what happens to messages that are buffered or arrive late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from tests.jetstream.pull.scripted.support import HOUR, Reader, counted, round_trip, scripted
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import Pull, ScriptedJetStream
from tests.support.timing import set_timing
from tests.support.watch import eventually


async def test_a_cancelled_fetch_hands_its_messages_to_the_next(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(5, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(3))
    await round_trip(consumer)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert [message.metadata.sequence.stream for message in await consumer.fetch(2)] == [1, 2]
    assert server.idle
    fetching = asyncio.create_task(consumer.fetch(4, expires=HOUR))
    pull = await server.pull()
    assert pull.batch == 3
    pull.send(pull.messages(3))
    assert [message.metadata.sequence.stream for message in await fetching] == [3, 4, 5, 6]


async def test_messages_that_come_after_the_deadline_are_kept_for_the_next_fetch(
    server: ScriptedJetStream, js: JetStream, consumer: Consumer
) -> None:
    set_timing(js, fetch_grace=0.0)
    server.hold_pongs()
    assert await consumer.fetch(5, expires=0.05) == []
    pull = await server.pull()
    pull.send(pull.messages(2))
    await server.release_pongs()
    batch = await consumer.fetch(2, expires=HOUR)
    assert [message.metadata.sequence.stream for message in batch] == [1, 2]
    assert server.idle
    await eventually(lambda: pull.sid not in pull.peer.subscriptions, "UNSUB")


async def test_what_was_left_over_respects_the_limits_of_the_next_fetch(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(5, expires=HOUR))
    pull = await server.pull()
    messages = [pull.message(b"x" * 100) for _ in range(4)]
    pull.send(*messages)
    await round_trip(consumer)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert len(await consumer.fetch(max_bytes=2 * counted(messages[0]) + 1, expires=HOUR)) == 2
    assert len(await consumer.fetch(1, expires=HOUR)) == 1
    assert server.idle


async def stop_with_some_in_flight(server: ScriptedJetStream, consumer: Consumer, kind: str) -> Pull:
    """Three messages of which the user takes one, and a fourth that arrives after the stop."""
    taken = asyncio.Event()

    async def handle(message: JetStreamMsg) -> None:
        taken.set()
        await release.wait()

    release = asyncio.Event()
    if kind == "consume":
        running: Any = await consumer.consume(handle, max_messages=10, expires=HOUR)
    else:
        running = consumer.messages(max_messages=10, expires=HOUR)
        reading = asyncio.create_task(running.next())
    pull = await server.pull()
    pull.send(pull.messages(3))
    await round_trip(consumer)
    if kind == "consume":
        await taken.wait()
    else:
        assert await reading
    server.hold_pongs()
    stopping = asyncio.ensure_future(running.stop())
    await asyncio.sleep(0)
    pull.send(pull.message())
    await server.release_pongs()
    release.set()
    await stopping
    if kind == "messages":
        assert await running.next() is None
    await eventually(lambda: pull.sid not in pull.peer.subscriptions, "UNSUB")
    return pull


@pytest.mark.parametrize("kind", ["messages", "consume"])
async def test_stop_returns_what_is_buffered_or_on_its_way(
    server: ScriptedJetStream, consumer: Consumer, kind: str
) -> None:
    await stop_with_some_in_flight(server, consumer, kind)
    assert sorted(await server.naks(3)) == [2, 3, 4]
    await round_trip(consumer)
    assert server.acks.empty()
    assert server.idle


@pytest.mark.parametrize("kind", ["messages", "consume"])
@pytest.mark.parametrize("ack_policy", ["none", "all"])
async def test_stop_returns_nothing_where_single_messages_are_not_acknowledged(
    kind: str, ack_policy: str
) -> None:
    async with scripted(ack_policy=ack_policy) as (server, consumer):
        await stop_with_some_in_flight(server, consumer, kind)
        await round_trip(consumer)
        assert server.acks.empty()


@pytest.mark.parametrize("kind", ["messages", "consume"])
async def test_drain_hands_out_what_is_buffered_or_on_its_way(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors, kind: str
) -> None:
    reader = Reader(kind, consumer, errors)
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(2))
    await round_trip(consumer)
    server.hold_pongs()
    reader.running.drain()
    await asyncio.sleep(0)
    pull.send(pull.message(), pull.status("409 Leadership Change"))
    await server.release_pongs()
    await reader.ended()
    assert len(await reader.take(3)) == 3
    assert server.idle
    assert server.acks.empty()
    await reader.stop()


async def test_a_messages_that_is_stopped_before_it_began_asks_for_nothing(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    messages = consumer.messages()
    await messages.stop()
    assert await messages.next() is None
    await round_trip(consumer)
    assert server.idle
    assert len(server.peers[0].subscriptions) == 1  # that of the answers of the API


async def test_a_consume_that_is_stopped_twice_returns_what_it_had_once(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    messages = consumer.messages(max_messages=2, expires=HOUR)
    async with messages:
        pull = await server.pull()
        pull.send(pull.messages(2))
        assert await messages.next()
        messages.drain()
        messages.stop()
        await messages.stop()
    assert await server.naks(1) == [2]
    await round_trip(consumer)
    assert server.acks.empty()
