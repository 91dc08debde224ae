"""What fetch, next, messages and consume make of every status line, of silence and of what comes late."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from jetspark import (
    BadRequest,
    ConnectionClosed,
    ConsumerDeleted,
    ConsumerIsPush,
    Error,
    ExceededLimit,
    LeadershipChanged,
    MissedHeartbeat,
    NoResponders,
    PinEvent,
    ServerShutdown,
    StatusError,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.pull import back_off, fetch
from tests.support.scripted_jetstream import Pull, ScriptedJetStream, soon
from tests.support.watch import eventually

HOUR = 3600.0

#: What a request had left is said with these, for a request of 10 of which 4 arrived.
SILENT_WITH_NUMBERS = [
    "408 Request Timeout",
    "408 Interest Expired",
    "409 Message Size Exceeds MaxBytes",
    "409 Batch Completed",
]
SILENT_WITHOUT_NUMBERS = ["404 No Messages", "408 Requests Pending", "408 request timeout"]
SILENT = SILENT_WITH_NUMBERS + SILENT_WITHOUT_NUMBERS

ENDS = [
    ("400 Bad Request", BadRequest),
    ("400 Bad Request - Priority Group missing", BadRequest),
    ("409 Consumer Deleted", ConsumerDeleted),
    ("409 Consumer is push based", ConsumerIsPush),
]
RESTARTS = [("409 Leadership Change", LeadershipChanged), ("409 Server Shutdown", ServerShutdown)]
REFUSALS = [
    ("409 Exceeded MaxRequestBatch of 10", ExceededLimit),
    ("409 Exceeded MaxRequestExpires of 1s", ExceededLimit),
    ("409 Exceeded MaxRequestMaxBytes of 1024", ExceededLimit),
    ("409 Exceeded MaxWaiting", ExceededLimit),
    ("409 Something New", StatusError),
    ("412 Required Api Level", StatusError),
    ("499 Something Newer", StatusError),
    ("503", NoResponders),
    ("503 No Responders", NoResponders),
]


class Errors(asyncio.Queue[Exception]):
    """An `on_error` that keeps what it is told."""

    def __call__(self, error: Exception) -> None:
        self.put_nowait(error)


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    """No task survives a test; sockets that do are ResourceWarnings, and so errors, when collected."""
    before = asyncio.all_tasks()
    yield
    await eventually(
        lambda: not asyncio.all_tasks() - before - {asyncio.current_task()}, "the end of all tasks"
    )
    gc.collect()


@pytest.fixture
async def errors() -> Errors:
    return Errors()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def consumer(server: ScriptedJetStream) -> AsyncIterator[Consumer]:
    async with connected(server) as made:
        yield made


@pytest.fixture
def never_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever backs off now does not come back within the test."""
    monkeypatch.setattr(back_off, "_FIRST", HOUR)


@pytest.fixture
def short_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "_FIRST", 0.01)


@asynccontextmanager
async def connected(server: ScriptedJetStream) -> AsyncIterator[Consumer]:
    async with connect(server.url, reconnect_wait=0.01) as nc:
        yield await JetStream(nc).get_consumer("S", "C")


@asynccontextmanager
async def scripted(**config: Any) -> AsyncIterator[tuple[ScriptedJetStream, Consumer]]:
    """A server whose consumers have this configuration, and one of them."""
    async with ScriptedJetStream(config=config) as server, connected(server) as consumer:
        yield server, consumer


async def round_trip(consumer: Consumer) -> None:
    """Return when the client has read all that the server sent until now."""
    await consumer._api.connection.flush()


def pending(line: str) -> dict[str, int]:
    return {"messages": 6} if line in SILENT_WITH_NUMBERS else {}


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
    server: ScriptedJetStream, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_GRACE", 0.05)
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


# --- messages and consume: one test for both. `take` waits for messages that the user gets.

Take = Callable[[int], Any]


class Reader:
    """Either kind of consume; what the user gets is in `got`."""

    def __init__(self, kind: str, consumer: Consumer, errors: Errors) -> None:
        self._kind = kind
        self._consumer = consumer
        self._errors = errors
        self._stack = AsyncExitStack()
        self.got: asyncio.Queue[JetStreamMsg] = asyncio.Queue()

    async def start(self, **options: Any) -> None:
        options = {"expires": HOUR, "on_error": self._errors} | options
        if self._kind == "consume":
            running = await self._consumer.consume(self.got.put_nowait, **options)
            self._end = running.wait_closed
        else:
            messages = self._consumer.messages(**options)
            running = await self._stack.enter_async_context(messages)
            reading = asyncio.create_task(self._read(messages))
            self._end = lambda: reading
        self.running = running

    async def _read(self, messages: Any) -> None:
        async for message in messages:
            self.got.put_nowait(message)

    async def take(self, count: int) -> list[JetStreamMsg]:
        return [await soon(self.got) for _ in range(count)]

    async def ended(self) -> None:
        """Wait for the end; raises what ended it."""
        async with asyncio.timeout(20):
            await self._end()

    async def stop(self) -> None:
        if hasattr(self, "running"):
            await self.running.stop()
            try:
                await self.ended()
            except Error:
                pass
        await self._stack.aclose()


@pytest.fixture(params=["messages", "consume"])
async def reader(
    request: pytest.FixtureRequest, server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> AsyncIterator[Reader]:
    made = Reader(request.param, consumer, errors)
    yield made
    await made.stop()


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize("line", SILENT)
async def test_a_request_that_ends_is_replaced_without_a_word(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    assert pull.batch == 10
    pull.send(pull.messages(4))
    await reader.take(4)
    pull.send(pull.status(line, **pending(line)))
    again = await server.pull()
    assert (again.batch, again.request["expires"]) == (10, pull.request["expires"])
    assert again.reply != pull.reply
    again.send(again.messages(10))
    assert len(await reader.take(10)) == 10
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize("line", SILENT_WITH_NUMBERS)
async def test_what_is_buffered_is_not_asked_for_again(
    server: ScriptedJetStream, consumer: Consumer, line: str
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(4), pull.status(line, messages=6))
        if line == "409 Message Size Exceeds MaxBytes":
            for _ in range(4):
                assert await messages.next()
            assert (await server.pull()).batch == 10
        else:
            assert (await server.pull()).batch == 6


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize(("line", "error"), RESTARTS)
async def test_a_new_leader_is_notified_and_pulled_from_at_once(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(5))
    await reader.take(5)
    second = await server.pull()
    assert second.batch == 5
    # Every open request gets one.
    pull.send(pull.status(line), second.status(line))
    again = await server.pull()
    assert again.batch == 10
    assert type(await soon(errors)) is error
    again.send(again.messages(10))
    await reader.take(10)
    assert errors.empty()


@pytest.mark.usefixtures("short_back_off")
@pytest.mark.parametrize(("line", "error"), REFUSALS)
async def test_a_refusal_is_notified_and_pulled_again_after_a_while(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    for _ in range(3):
        pull.send(pull.status(line))
        assert type(await soon(errors)) is error
        pull = await server.pull()
        assert pull.batch == 10
    pull.send(pull.messages(10))
    await reader.take(10)
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize(("line", "error"), [row for row in REFUSALS if row[1] is not NoResponders])
async def test_after_a_refusal_nothing_is_asked_for_until_the_back_off_is_over(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(5))
    await reader.take(5)
    refused = await server.pull()
    refused.send(refused.status(line))
    await soon(errors)
    # The first request is open, and what it brings is taken; no other is made.
    pull.send(pull.messages(5))
    await reader.take(5)
    assert server.idle


async def test_a_refused_request_leaves_the_others_in_the_counters(
    server: ScriptedJetStream, reader: Reader, errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_off, "_FIRST", 0.01)
    await reader.start(max_messages=10, threshold_messages=8)
    pull = await server.pull()
    pull.send(pull.messages(2))
    await reader.take(2)
    refused = await server.pull()
    assert refused.batch == 2
    refused.send(refused.status("409 Exceeded MaxWaiting"))
    assert (await server.pull()).batch == 2


@pytest.mark.usefixtures("short_back_off")
async def test_each_refusal_is_waited_for_twice_as_long_until_a_message_arrives(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_off, "_LAST", 0.05)
    async with consumer.messages(max_messages=10, expires=HOUR, on_error=errors) as messages:
        for wait in (0.01, 0.02, 0.04, 0.05, 0.05):
            pull = await server.pull()
            assert messages._buffer._back_off.wait == wait
            pull.send(pull.status("409 Exceeded MaxWaiting"))
            await soon(errors)
        pull = await server.pull()
        pull.send(pull.messages(1))
        assert await messages.next()
        assert messages._buffer._back_off.wait == 0.01


@pytest.mark.parametrize(("line", "error"), ENDS)
async def test_what_can_never_work_ends_it_with_that_error(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(8))
    await reader.take(8)
    second = await server.pull()
    pull.send(pull.messages(2), pull.status(line), second.status(line))
    with pytest.raises(error) as caught:
        await reader.ended()
    assert type(caught.value) is error
    # What arrived before is handed out all the same, and nothing is asked for any more.
    assert len(await reader.take(2)) == 2
    await eventually(lambda: pull.sid not in pull.peer.subscriptions, "UNSUB")
    assert server.idle
    assert errors.empty()


@pytest.mark.parametrize(("line", "error"), ENDS)
async def test_after_the_end_next_raises_the_error_again_and_again(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2), pull.status(line))
        assert await messages.next()
        assert await messages.next()
        for _ in range(2):
            with pytest.raises(error):
                await messages.next()
    assert server.idle


async def test_a_status_of_a_request_that_was_forgotten_changes_nothing(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.status("409 Leadership Change"))
    await soon(errors)
    again = await server.pull()
    pull.send(
        pull.status("408 Request Timeout", messages=10),
        pull.status("409 Leadership Change"),
        pull.status("409 Exceeded MaxWaiting"),
        again.messages(10),
    )
    await reader.take(10)
    assert errors.empty()
    assert (await server.pull()).batch == 5


async def test_requests_that_are_served_by_turns_are_counted_exactly(
    server: ScriptedJetStream, reader: Reader
) -> None:
    await reader.start(max_messages=12, threshold_messages=6)
    first = await server.pull()
    first.send(first.messages(6))
    await reader.take(6)
    second = await server.pull()
    assert (first.batch, second.batch) == (12, 6)
    # Five more, three for the first and two for the second, which ends before the first does.
    first.send(first.messages(5))
    await reader.take(5)
    second.send(second.status("408 Request Timeout", messages=4))
    third = await server.pull()
    assert third.batch == 12 - 3
    first.send(first.status("408 Request Timeout", messages=3), third.messages(3))
    await reader.take(3)
    assert (await server.pull()).batch == 12 - 6


async def test_it_works_with_a_buffer_of_one(server: ScriptedJetStream, reader: Reader) -> None:
    await reader.start(max_messages=1)
    for _ in range(3):
        pull = await server.pull()
        assert pull.batch == 1
        pull.send(pull.message())
        await reader.take(1)
    pull = await server.pull()
    pull.send(pull.status("408 Request Timeout", messages=1))
    assert (await server.pull()).batch == 1


# --- silence


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


# --- priority groups

PINNED = {"priority_groups": ["jobs"], "priority_policy": "pinned_client"}


WRONG_PIN = "423 Nats-Wrong-Pin-Id"


def pinned_message(pull: Pull, pin_id: str = "mine") -> bytes:
    return pull.message(headers={"Nats-Pin-Id": pin_id})


class Pins(list[tuple[str, bool]]):
    """An `on_pin` that keeps what it is told."""

    def __call__(self, event: PinEvent) -> None:
        assert (event.stream, event.consumer, event.group) == ("S", "C", "jobs")
        self.append((event.pin_id, event.gained))


async def test_a_consume_that_loses_its_pin_pulls_again_without_it_and_reports_no_error(
    errors: Errors,
) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors) as messages,
    ):
        consumer.on_pin(pins := Pins())
        pull = await server.pull()
        assert pull.request["group"] == "jobs"
        assert "id" not in pull.request
        pull.send(pinned_message(pull))
        assert await messages.next()
        pinned = await server.pull()
        assert (pinned.request["id"], pinned.request["group"]) == ("mine", "jobs")
        pinned.send(pinned.status(WRONG_PIN, messages=1))
        again = await server.pull()
        assert "id" not in again.request
        assert again.request["group"] == "jobs"
        again.send(pinned_message(again, "another"))
        assert await messages.next()
        assert (await server.pull()).request["id"] == "another"
        assert pins == [("mine", True), ("mine", False), ("another", True)]
    assert errors.empty()


async def test_a_request_from_before_the_pin_does_not_take_it_away(errors: Errors) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors) as messages,
    ):
        pull = await server.pull()
        pull.send(pinned_message(pull))
        assert await messages.next()
        pinned = await server.pull()
        pull.send(pull.status(WRONG_PIN, messages=1))
        assert (await server.pull()).request["id"] == "mine"
        pinned.send(pinned.status(WRONG_PIN, messages=1))
        assert "id" not in (await server.pull()).request
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
async def test_a_server_that_refuses_every_pin_is_not_asked_without_end(errors: Errors) -> None:
    async with (
        scripted(**PINNED) as (server, consumer),
        consumer.messages(max_messages=2, expires=HOUR, on_error=errors),
    ):
        pull = await server.pull()
        pull.send(pull.status(WRONG_PIN, messages=2))
        await round_trip(consumer)
        assert server.idle
    assert errors.empty()


async def test_a_fetch_that_loses_its_pin_asks_again_without_it_and_raises_nothing() -> None:
    async with scripted(**PINNED) as (server, consumer):
        consumer.on_pin(pins := Pins())
        for pin_id in (None, "mine"):
            fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
            pull = await server.pull()
            assert pull.request.get("id") == pin_id
            pull.send(pinned_message(pull))
            await fetching
        fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull), pull.status(WRONG_PIN, messages=2))
        again = await server.pull()
        assert (again.batch, again.request.get("id"), again.request["group"]) == (2, None, "jobs")
        again.send(pinned_message(again, "another"), pinned_message(again, "another"))
        batch = await fetching
        assert (len(batch), batch.error) == (3, None)
        assert pins == [("mine", True), ("mine", False), ("another", True)]


@pytest.mark.parametrize("came", [0, 1])
async def test_a_fetch_without_a_pin_ends_without_an_error_when_another_is_pinned(came: int) -> None:
    async with scripted(**PINNED) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch_no_wait(5))
        pull = await server.pull()
        pull.send(pull.messages(came), pull.status(WRONG_PIN, messages=5 - came))
        batch = await fetching
        assert (len(batch), batch.error) == (came, None)


async def test_fetches_and_consumes_of_one_object_share_their_pin() -> None:
    async with scripted(**PINNED) as (server, consumer):
        fetching = asyncio.create_task(consumer.next(HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull))
        assert await fetching
        async with consumer.messages(max_messages=2, expires=HOUR):
            assert (await server.pull()).request["id"] == "mine"


async def test_a_header_of_that_name_means_nothing_where_no_client_is_pinned() -> None:
    async with scripted(priority_groups=["jobs"], priority_policy="overflow") as (server, consumer):
        for _ in range(2):
            fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
            pull = await server.pull()
            assert "id" not in pull.request
            pull.send(pinned_message(pull))
            await fetching


async def test_a_listener_that_fails_or_was_removed_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: PinEvent) -> None:
        raise ValueError("no")

    async with scripted(**PINNED) as (server, consumer):
        consumer.on_pin(fail)
        remove = consumer.on_pin(removed := Pins())
        consumer.on_pin(pins := Pins())
        remove()
        fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
        pull = await server.pull()
        pull.send(pinned_message(pull))
        await fetching
    assert (pins, removed) == ([("mine", True)], [])
    assert "on_pin failed" in caplog.text


@pytest.mark.parametrize("how", ["fetch", "fetch_no_wait", "next"])
async def test_every_way_to_fetch_takes_the_options_of_priority_groups(
    server: ScriptedJetStream, consumer: Consumer, how: str
) -> None:
    arguments = (5,) if how != "next" else (HOUR,)
    options = {"group": "jobs", "priority": 3, "min_pending": 10, "min_ack_pending": 20}
    fetching = asyncio.create_task(getattr(consumer, how)(*arguments, **options))
    pull = await server.pull()
    assert options.items() <= pull.request.items()
    pull.send(pull.status("404 No Messages"))
    assert not await fetching


# --- the limits of the consumer

LIMITED = {"max_batch": 100, "max_expires": 2_000_000_000, "max_bytes": 5000}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {"batch": 100}),
        ({"max_messages": 500}, {"batch": 100}),
        ({"max_messages": 7}, {"batch": 7}),
        ({"max_bytes": 1 << 20}, {"batch": 100, "max_bytes": 5000}),
        ({"max_bytes": 3000}, {"batch": 100, "max_bytes": 3000}),
    ],
)
async def test_a_consume_asks_for_no_more_than_the_consumer_allows(
    options: dict[str, int], asked: dict[str, int]
) -> None:
    async with scripted(**LIMITED) as (server, consumer), consumer.messages(**options):
        request = (await server.pull()).request
        assert request == asked | {"expires": 2_000_000_000, "idle_heartbeat": 1_000_000_000}


async def test_a_consume_within_the_limits_goes_on_when_a_request_is_complete(errors: Errors) -> None:
    async with (
        scripted(**LIMITED) as (server, consumer),
        consumer.messages(max_bytes=4000, on_error=errors) as messages,
    ):
        pull = await server.pull()
        first = pull.message()
        left = 4000 - counted(first)
        pull.send(first, pull.status("409 Batch Completed", bytes=left))
        assert (await server.pull()).request["max_bytes"] == left
        assert await messages.next()
    assert errors.empty()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"max_messages": 500}, {"batch": 100}),
        ({"max_bytes": 1 << 20}, {"batch": 100, "max_bytes": 5000}),
        ({"max_messages": 7, "max_bytes": 300}, {"batch": 7, "max_bytes": 300}),
    ],
)
async def test_a_fetch_asks_for_no_more_than_the_consumer_allows(
    options: dict[str, int], asked: dict[str, int]
) -> None:
    async with scripted(**LIMITED) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(**options))
        pull = await server.pull()
        assert pull.request == asked | {"expires": 2_000_000_000}
        pull.send(pull.message(), pull.status("409 Batch Completed"))
        assert len(await fetching) == 1


async def test_a_fetch_that_may_wait_longer_than_a_request_asks_again() -> None:
    async with scripted(max_expires=2_000_000_000) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
        pull = await server.pull()
        for left in (3, 2):
            assert (pull.batch, pull.request["expires"]) == (left, 2_000_000_000)
            pull.send(pull.message(), pull.status("408 Request Timeout", messages=left - 1))
            pull = await server.pull()
        pull.send(pull.message())
        assert len(await fetching) == 3


async def test_a_fetch_whose_time_is_over_does_not_ask_again() -> None:
    async with scripted(max_expires=100_000_000) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(3, expires=0.1))
        pull = await server.pull()
        await asyncio.sleep(0.1)
        pull.send(pull.status("408 Request Timeout", messages=3))
        assert await fetching == []
        assert server.idle


@pytest.mark.usefixtures("short_back_off")
@pytest.mark.parametrize(
    "case",
    [
        ("409 Exceeded MaxRequestBatch of 4", {"max_messages": 10}, {"batch": 4}),
        ("409 Exceeded MaxRequestBatch", {"max_messages": 10}, {"batch": 5}),
        ("409 Exceeded MaxRequestBatch of 4", {"max_bytes": 9000}, {"batch": 4, "max_bytes": 9000}),
        ("409 Exceeded MaxRequestMaxBytes of 800", {"max_bytes": 9000}, {"max_bytes": 800}),
        ("409 Exceeded MaxRequestExpires of 1m0s", {"max_messages": 10}, {"expires": 60_000_000_000}),
    ],
)
async def test_a_consume_that_is_refused_asks_for_less(
    server: ScriptedJetStream,
    reader: Reader,
    errors: Errors,
    case: tuple[str, dict[str, int], dict[str, int]],
) -> None:
    line, options, then = case
    await reader.start(**options)
    pull = await server.pull()
    pull.send(pull.status(line))
    assert isinstance(await soon(errors), ExceededLimit)
    pull = await server.pull()
    assert then.items() <= pull.request.items()
    pull.send(pull.message())
    await reader.take(1)
    assert errors.empty()


async def test_a_fetch_after_one_that_was_refused_asks_for_less(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.status("409 Exceeded MaxRequestBatch of 4"))
    with pytest.raises(ExceededLimit):
        await fetching
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    assert pull.batch == 4
    pull.send(pull.messages(4))
    assert len(await fetching) == 4


async def test_nothing_is_dropped_when_the_limits_are_raised_under_a_consume(errors: Errors) -> None:
    async with (
        scripted(max_batch=2) as (server, consumer),
        consumer.messages(max_messages=10, expires=HOUR, on_error=errors) as messages,
    ):
        pull = await server.pull()
        assert pull.batch == 2
        del server.config["max_batch"]
        await consumer.info()
        pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=2, bytes=1))
        pull = await server.pull()
        assert pull.batch == 10
        pull.send(pull.messages(10))
        async with asyncio.timeout(20):
            received = [await anext(messages) for _ in range(10)]
        assert [message.metadata.sequence.stream for message in received] == list(range(1, 11))
    assert errors.empty()


async def test_the_limits_are_read_again_with_the_info(server: ScriptedJetStream, consumer: Consumer) -> None:
    for limit in (3, 5):
        server.config["max_batch"] = limit
        await consumer.info()
        fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
        pull = await server.pull()
        assert pull.batch == limit
        pull.send(pull.messages(limit))
        await fetching


# --- bytes


def counted(frame: bytes) -> int:
    """The size of an MSG frame as the server counts it: subject, reply and payload."""
    line, _, rest = frame.partition(b"\r\n")
    _, subject, _, reply, size = line.split(b" ")
    assert len(rest) == int(size) + 2
    return len(subject) + len(reply) + int(size)


async def test_in_bytes_it_refills_what_is_missing(server: ScriptedJetStream, reader: Reader) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    assert (pull.batch, pull.request["max_bytes"]) == (1_000_000, 1000)
    messages = [pull.message(b"x" * 100) for _ in range(4)]
    sizes = [counted(message) for message in messages]
    assert sum(sizes[:3]) < 500 < sum(sizes)
    pull.send(*messages[:3])
    await reader.take(3)
    assert server.idle
    pull.send(messages[3])
    await reader.take(1)
    again = await server.pull()
    assert (again.batch, again.request["max_bytes"]) == (1_000_000, sum(sizes))


async def test_in_bytes_the_rest_of_a_request_that_ended_is_counted_out(
    server: ScriptedJetStream, reader: Reader
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    message = pull.message(b"x" * 100)
    pull.send(message)
    await reader.take(1)
    pull.send(pull.status("408 Request Timeout", messages=999_999, bytes=1000 - counted(message)))
    again = await server.pull()
    assert again.request["max_bytes"] == 1000


@pytest.mark.usefixtures("never_back_off")
async def test_a_message_that_does_not_fit_into_the_rest_is_asked_for_when_the_buffer_is_empty(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> None:
    async with consumer.messages(max_bytes=1000, expires=HOUR, on_error=errors) as messages:
        pull = await server.pull()
        two = [pull.message(b"x" * 100), pull.message(b"x" * 100)]
        left = 1000 - sum(map(counted, two))
        pull.send(*two, pull.status("409 Message Size Exceeds MaxBytes", messages=999_998, bytes=left))
        assert await messages.next()
        assert server.idle
        assert await messages.next()
        again = await server.pull()
        assert again.request["max_bytes"] == 1000
        again.send(again.message(b"x" * 800))
        message = await messages.next()
        assert message is not None
        assert len(message.data) == 800
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
async def test_a_message_that_does_not_fit_is_not_reported_to_a_reader_who_has_taken_all(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    message = pull.message(b"x" * 100)
    pull.send(message)
    await reader.take(1)
    left = 1000 - counted(message)
    pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=999_999, bytes=left))
    assert (await server.pull()).request["max_bytes"] == 1000
    assert errors.empty()


@pytest.mark.usefixtures("short_back_off")
async def test_a_message_larger_than_the_limit_is_reported(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=1_000_000, bytes=1000))
    error = await soon(errors)
    assert isinstance(error, ExceededLimit)
    assert "max_bytes=1000" in str(error)
    again = await server.pull()
    assert again.request["max_bytes"] == 1000


# --- what comes late, and what nobody takes


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
    server: ScriptedJetStream, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_GRACE", 0.0)
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


# --- messages of users that look like statuses

ODD: list[tuple[str, dict[str, Any]]] = [
    ("headers and no payload", {"data": b"", "headers": {"Nats-Msg-Size": "100"}}),
    ("neither headers nor payload", {"data": b""}),
    ("a header named status", {"data": b"", "headers": {"Status": "409", "Description": "Consumer Deleted"}}),
    ("a status line and a payload", {"data": b"x", "status": "409 Consumer Deleted"}),
    ("a status line and no payload", {"data": b"", "status": "409 Consumer Deleted"}),
    ("a status line that is none", {"data": b"", "status": "bad luck"}),
]


@pytest.mark.parametrize("message", [message for _, message in ODD], ids=[name for name, _ in ODD])
async def test_a_fetch_takes_messages_of_users_for_what_they_are(
    server: ScriptedJetStream, consumer: Consumer, message: dict[str, Any]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message(**message), pull.message(b"next"))
    batch = await fetching
    assert [each.data for each in batch] == [message["data"], b"next"]
    assert batch.error is None


@pytest.mark.parametrize("message", [message for _, message in ODD], ids=[name for name, _ in ODD])
async def test_a_consume_takes_messages_of_users_for_what_they_are(
    server: ScriptedJetStream, reader: Reader, errors: Errors, message: dict[str, Any]
) -> None:
    await reader.start(max_messages=2)
    pull = await server.pull()
    pull.send(pull.message(**message), pull.message(b"next"))
    assert [each.data for each in await reader.take(2)] == [message["data"], b"next"]
    assert errors.empty()
