"""fetch, next and every status line, silence, reconnects and the end of the connection."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import ConnectionClosed, Error, MissedHeartbeat
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from tests.jetstream.pull.scripted.support import (
    ENDS,
    HOUR,
    REFUSALS,
    RESTARTS,
    SILENT,
    counted,
    pending,
    round_trip,
)
from tests.support.scripted_jetstream import ScriptedJetStream
from tests.support.timing import set_timing
from tests.support.watch import eventually

# --- fetch


@pytest.mark.parametrize("line", SILENT)
async def test_a_fetch_ends_without_an_error(
    server: ScriptedJetStream, consumer: Consumer, line: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.status(line, messages=10))
    batch = await fetching
    assert (batch, batch.error) == ([], None)


@pytest.mark.parametrize("line", SILENT)
async def test_a_fetch_that_ends_early_returns_what_arrived(
    server: ScriptedJetStream, consumer: Consumer, line: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(4), pull.status(line, **pending(line)))
    batch = await fetching
    assert [message.metadata.sequence.stream for message in batch] == [1, 2, 3, 4]
    assert batch.error is None


@pytest.mark.parametrize(("line", "error"), [*ENDS, *REFUSALS, *RESTARTS])
async def test_a_fetch_to_which_nothing_came_raises_the_error(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.status(line))
    with pytest.raises(error) as caught:
        await fetching
    assert type(caught.value) is error


@pytest.mark.parametrize(("line", "error"), [*ENDS, *REFUSALS])
async def test_a_fetch_to_which_something_came_returns_it_with_the_error(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(4), pull.status(line))
    batch = await fetching
    assert len(batch) == 4
    assert type(batch.error) is error


@pytest.mark.parametrize(("line", "error"), RESTARTS)
async def test_a_new_leader_is_no_error_of_a_fetch_to_which_something_came(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(4))
    await round_trip(consumer)
    pull.send(pull.status(line))
    batch = await fetching
    assert (len(batch), batch.error) == (4, None)


async def test_a_fetch_goes_on_after_heartbeats(server: ScriptedJetStream, consumer: Consumer) -> None:
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR, idle_heartbeat=30))
    pull = await server.pull()
    pull.send(pull.status("100 Idle Heartbeat"), pull.message(), pull.status("100 Idle Heartbeat"))
    await round_trip(consumer)
    assert not fetching.done()
    pull.send(pull.message())
    assert len(await fetching) == 2


@pytest.mark.parametrize("line", ["404 No Messages", "408 Requests Pending"])
async def test_a_fetch_that_does_not_wait_says_so_and_ends_when_there_is_no_more(
    server: ScriptedJetStream, consumer: Consumer, line: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch_no_wait(10))
    pull = await server.pull()
    assert pull.request == {"batch": 10, "no_wait": True}
    pull.send(pull.messages(3), pull.status(line))
    assert len(await fetching) == 3


async def test_a_fetch_that_is_over_leaves_no_subscription(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message())
    await fetching
    await eventually(lambda: pull.sid not in pull.peer.subscriptions, "UNSUB")


@pytest.mark.parametrize(
    ("expires", "idle_heartbeat"), [(20.0, 0.5), (60.0, 30.0), (20.0, 10.0), (40.0, None), (20.0, None)]
)
async def test_a_fetch_asks_for_the_heartbeat_and_the_time_that_the_user_gave(
    server: ScriptedJetStream, consumer: Consumer, expires: float, idle_heartbeat: float | None
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat))
    pull = await server.pull()
    asked = pull.request["expires"], pull.request.get("idle_heartbeat", 0)
    pull.send(pull.message())
    await fetching
    wanted = idle_heartbeat or (expires / 2 if expires > 30 else 0)
    assert expires * 0.9 <= asked[0] / 1e9 <= expires
    assert wanted * 0.9 <= asked[1] / 1e9 <= wanted
    assert 2 * asked[1] <= asked[0]


async def test_a_fetch_whose_request_is_lost_raises_the_missed_heartbeat(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR, idle_heartbeat=0.05))
    await server.pull()
    with pytest.raises(MissedHeartbeat):
        await fetching


async def test_a_fetch_returns_what_came_before_the_server_fell_silent(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR, idle_heartbeat=1))
    pull = await server.pull()
    pull.send(pull.message())
    batch = await fetching
    assert len(batch) == 1
    assert isinstance(batch.error, MissedHeartbeat)


async def test_a_fetch_whose_request_is_lost_returns_nothing_at_its_deadline(
    server: ScriptedJetStream, js: JetStream, consumer: Consumer
) -> None:
    set_timing(js, fetch_grace=0.05)
    assert await consumer.fetch(1, expires=0.05) == []


async def test_a_fetch_asks_again_for_what_is_missing_after_a_reconnect(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message())
    await round_trip(consumer)
    pull.peer.abort()
    again = await server.pull()
    assert (again.peer, again.batch, again.reply) == (server.peers[1], 2, pull.reply)
    again.send(again.messages(2))
    assert len(await fetching) == 3


async def test_a_fetch_in_bytes_asks_again_for_the_bytes_that_are_missing_after_a_reconnect(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(max_bytes=1000, expires=HOUR))
    pull = await server.pull()
    assert (pull.batch, pull.request["max_bytes"]) == (1_000_000, 1000)
    message = pull.message(b"x" * 100)
    pull.send(message)
    await round_trip(consumer)
    pull.peer.abort()
    again = await server.pull()
    assert again.request["max_bytes"] == 1000 - counted(message)
    again.send(again.status("409 Message Size Exceeds MaxBytes", bytes=1))
    assert len(await fetching) == 1


async def test_a_fetch_fails_when_the_connection_is_closed_meanwhile(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
    await server.pull()
    await consumer._api.connection.close()
    with pytest.raises(ConnectionClosed):
        await fetching


async def test_nothing_waits_on_a_closed_connection(server: ScriptedJetStream, consumer: Consumer) -> None:
    await consumer._api.connection.close()
    with pytest.raises(ConnectionClosed):
        await consumer.fetch(1, expires=HOUR)
    with pytest.raises(ConnectionClosed):
        await consumer.next(HOUR)
    with pytest.raises(ConnectionClosed):
        await consumer.consume(print)
    with pytest.raises(ConnectionClosed):
        await consumer.messages().next()


# --- next


@pytest.mark.parametrize("line", SILENT)
async def test_next_gives_none(server: ScriptedJetStream, consumer: Consumer, line: str) -> None:
    waiting = asyncio.create_task(consumer.next(HOUR))
    pull = await server.pull()
    assert pull.batch == 1
    pull.send(pull.status(line, messages=1))
    assert await waiting is None


@pytest.mark.parametrize(("line", "error"), [*ENDS, *REFUSALS, *RESTARTS])
async def test_next_raises_the_error(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    waiting = asyncio.create_task(consumer.next(HOUR))
    pull = await server.pull()
    pull.send(pull.status(line))
    with pytest.raises(error):
        await waiting


async def test_next_goes_on_after_a_heartbeat(server: ScriptedJetStream, consumer: Consumer) -> None:
    waiting = asyncio.create_task(consumer.next(HOUR, idle_heartbeat=30))
    pull = await server.pull()
    pull.send(pull.status("100 Idle Heartbeat"), pull.message(b"one"))
    message = await waiting
    assert message is not None
    assert message.data == b"one"
