"""messages and consume: silence, errors that are reported, reconnects."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import LeadershipChanged, MissedHeartbeat, connect
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from tests.jetstream.pull.scripted.support import HOUR, Reader, round_trip
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream, soon


async def test_a_lost_request_is_reported_and_made_again(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_messages=10, expires=1, idle_heartbeat=0.5)
    lost = await server.pull()
    assert lost.request["idle_heartbeat"] == 500_000_000
    assert isinstance(await soon(errors), MissedHeartbeat)
    pull = await server.pull()
    assert pull.batch == 10
    pull.send(pull.messages(10))
    await reader.take(10)


async def test_heartbeats_keep_it_quiet(server: ScriptedJetStream, reader: Reader, errors: Errors) -> None:
    await reader.start(max_messages=10, expires=1, idle_heartbeat=0.5)
    pull = await server.pull()
    for _ in range(8):
        await asyncio.sleep(0.2)
        pull.send(pull.status("100 Idle Heartbeat"))
    assert errors.empty()
    assert server.idle


async def test_silence_is_no_news_while_nothing_is_asked_for(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> None:
    async with consumer.messages(max_messages=2, expires=1, idle_heartbeat=0.5, on_error=errors):
        pull = await server.pull()
        pull.send(pull.messages(2))
        await asyncio.sleep(1.6)  # nothing is to happen
        assert errors.empty()
        assert server.idle


async def test_stopping_it_when_told_of_an_error_ends_it(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    def stop(error: Exception) -> None:
        messages.stop()

    messages = consumer.messages(max_messages=2, expires=1, idle_heartbeat=0.5, on_error=stop)
    async with asyncio.timeout(20):
        assert await messages.next() is None
    await messages.stop()
    timer = messages._buffer._heartbeat._timer
    assert timer is None or timer.cancelled() or timer.when() <= asyncio.get_running_loop().time()
    await server.pull()
    assert server.idle


async def test_an_on_error_that_fails_does_not_end_it(
    server: ScriptedJetStream, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: Exception) -> None:
        raise ValueError("no")

    async with consumer.messages(max_messages=2, expires=HOUR, on_error=fail) as messages:
        pull = await server.pull()
        pull.send(pull.status("409 Leadership Change"))
        pull = await server.pull()
        pull.send(pull.message())
        assert await messages.next()
    assert "on_error failed" in caplog.text


async def test_errors_go_to_the_connection_when_nobody_else_wants_them(
    server: ScriptedJetStream, errors: Errors
) -> None:
    async with connect(server.url, on_error=errors) as nc:
        consumer = await JetStream(nc).get_consumer("S", "C")
        async with consumer.messages(max_messages=2, expires=HOUR):
            pull = await server.pull()
            pull.send(pull.status("409 Leadership Change"))
            assert isinstance(await soon(errors), LeadershipChanged)


async def test_after_a_reconnect_it_asks_for_what_is_missing_on_the_same_inbox(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR, on_error=errors) as messages:
        pull = await server.pull()
        pull.send(pull.messages(4))
        await round_trip(consumer)
        pull.peer.abort()
        again = await server.pull()
        assert (again.peer, again.batch) == (server.peers[1], 6)
        assert again.reply.rpartition(".")[0] == pull.reply.rpartition(".")[0]
        again.send(again.messages(6))
        for sequence in range(1, 11):
            message = await messages.next()
            assert message is not None
            assert message.metadata.sequence.stream == sequence
    assert errors.empty()
