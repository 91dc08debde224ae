"""consume() against a real server."""

from __future__ import annotations

import asyncio
import time

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerIsPush,
    Error,
    UsageError,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.pull.iterate import Consuming
from tests.jetstream.support import Errors
from tests.support.consuming import LONG, fill, listeners, make_consumer, make_stream, sequences, until
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


class Collector:
    """A handler that keeps what it gets, acknowledges it, and can be waited for."""

    def __init__(self) -> None:
        self.messages: list[JetStreamMsg] = []
        self._arrived = asyncio.Event()

    def __call__(self, message: JetStreamMsg) -> None:
        self.messages.append(message)
        message.ack()
        self._arrived.set()

    async def until(self, number: int) -> list[int]:
        await eventually(lambda: len(self.messages) >= number, f"{number} messages", self._arrived)
        return sequences(self.messages)


async def all_acknowledged(consumer: Consumer, sequence: int) -> None:
    async def acknowledged() -> bool:
        return (await consumer.info()).ack_floor.stream_seq == sequence

    await until(acknowledged, f"everything up to {sequence} acknowledged")


# --- handlers


@pytest.mark.parametrize("max_messages", [1, 500])
async def test_a_plain_handler_gets_every_message_in_order(js: JetStream, max_messages: int) -> None:
    consumer = await make_consumer(js, 3000)
    handler = Collector()
    async with await consumer.consume(handler, max_messages=max_messages):
        assert await handler.until(3000) == list(range(1, 3001))
        await all_acknowledged(consumer, 3000)


async def test_a_coroutine_handler_gets_one_message_after_the_other(js: JetStream) -> None:
    consumer = await make_consumer(js, 100)
    seen: list[JetStreamMsg] = []
    running = 0
    done = asyncio.Event()

    async def handle(message: JetStreamMsg) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        seen.append(message)
        await message.ack()
        running -= 1
        if len(seen) == 100:
            done.set()

    async with asyncio.timeout(LONG), await consumer.consume(handle):
        await done.wait()
    assert sequences(seen) == list(range(1, 101))


async def test_bytes_can_be_the_limit(js: JetStream) -> None:
    consumer = await make_consumer(js, 500)
    handler = Collector()
    async with await consumer.consume(handler, max_bytes=1000):
        assert await handler.until(500) == list(range(1, 501))


async def test_up_to_so_many_handlers_run_at_once(js: JetStream) -> None:
    consumer = await make_consumer(js, 20)
    started: list[JetStreamMsg] = []
    go = asyncio.Event()
    finished = 0

    async def handle(message: JetStreamMsg) -> None:
        nonlocal finished
        started.append(message)
        await go.wait()
        message.ack()
        finished += 1

    async with asyncio.timeout(LONG), await consumer.consume(handle, concurrency=4):
        await eventually(lambda: len(started) == 4, "four handlers to start")

        async def buffered() -> bool:
            return (await consumer.info()).num_ack_pending == 20

        await until(buffered, "the others to arrive")
        assert sequences(started) == [1, 2, 3, 4]
        go.set()
        await eventually(lambda: finished == 20, "all to finish")
    assert sorted(sequences(started)) == list(range(1, 21))


async def test_concurrency_is_at_least_one(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js)
    with pytest.raises(UsageError, match="concurrency"):
        await consumer.consume(Collector(), concurrency=0)
    assert not listeners(nc)


# --- handlers that fail


@pytest.mark.parametrize("kind", ["plain", "coroutine", "cancelled"])
async def test_a_handler_that_fails_is_reported_and_the_message_comes_again(js: JetStream, kind: str) -> None:
    consumer = await make_consumer(js, 5, ack_wait=60)
    handler = Collector()
    failures: list[Exception] = []

    def fail_once(message: JetStreamMsg) -> None:
        if message.data == b"2" and message.metadata.num_delivered == 1:
            raise ZeroDivisionError("the handler")
        handler(message)

    async def fail_once_later(message: JetStreamMsg) -> None:
        await asyncio.sleep(0)
        fail_once(message)

    async def be_cancelled_once(message: JetStreamMsg) -> None:
        if message.data == b"2" and message.metadata.num_delivered == 1:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        handler(message)

    handlers = {"plain": fail_once, "coroutine": fail_once_later, "cancelled": be_cancelled_once}
    async with await consumer.consume(handlers[kind], on_error=failures.append):
        assert sorted(await handler.until(5)) == [1, 2, 3, 4, 5]
        await all_acknowledged(consumer, 5)
    (failure,) = failures
    assert isinstance(failure, Error if kind == "cancelled" else ZeroDivisionError)
    (again,) = [message for message in handler.messages if message.data == b"2"]
    assert again.metadata.num_delivered == 2


async def test_a_handler_that_fails_after_it_acknowledged_gets_no_second_chance(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    failures: list[Exception] = []

    def ack_and_fail(message: JetStreamMsg) -> None:
        message.ack()
        raise ZeroDivisionError

    async with await consumer.consume(ack_and_fail, on_error=failures.append):
        await all_acknowledged(consumer, 3)
    info = await consumer.info()
    assert (info.delivered.consumer_seq, info.num_redelivered) == (3, 0)
    assert len(failures) == 3


async def test_an_on_error_that_fails_itself_does_no_harm(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    handler = Collector()

    def fail_first(message: JetStreamMsg) -> None:
        if message.metadata.num_delivered == 1:
            raise ZeroDivisionError
        handler(message)

    def fail_too(error: Exception) -> None:
        raise RuntimeError

    async with await consumer.consume(fail_first, on_error=fail_too):
        assert sorted(await handler.until(3)) == [1, 2, 3]


async def test_on_error_may_be_a_coroutine(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    reported: asyncio.Queue[Exception] = asyncio.Queue()

    def fail_first(message: JetStreamMsg) -> None:
        if message.metadata.num_delivered == 1:
            raise ZeroDivisionError
        message.ack()

    async def report(error: Exception) -> None:
        await reported.put(error)

    async with asyncio.timeout(LONG), await consumer.consume(fail_first, on_error=report):
        assert isinstance(await reported.get(), ZeroDivisionError)


async def test_a_poison_message_is_delivered_so_often_and_does_not_stop_the_others(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, ack_wait=60, max_deliver=3)
    handler = Collector()
    failures: list[Exception] = []
    gave_up = await js.connection.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.worker")

    def fail_at_four(message: JetStreamMsg) -> None:
        if message.data == b"4":
            raise ZeroDivisionError
        handler(message)

    async with await consumer.consume(fail_at_four, on_error=failures.append):
        assert await handler.until(9) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
        advisory = await gave_up.next(LONG)
        assert b'"stream_seq":4,"deliveries":3' in advisory.data
    assert len(failures) == 3
    await gave_up.unsubscribe()


# --- ending


async def test_stop_gives_back_what_is_buffered(js: JetStream) -> None:
    consumer = await make_consumer(js, 100, ack_wait=60)
    seen: list[JetStreamMsg] = []

    def handle(message: JetStreamMsg) -> None:
        seen.append(message)
        message.ack()
        if len(seen) == 3:
            running.stop()

    running = await consumer.consume(handle)
    async with asyncio.timeout(LONG):
        await running.wait_closed()
        assert sequences(seen) == [1, 2, 3]
        assert not running.active
        others = await consumer.fetch(97, expires=LONG)
    assert sorted(sequences(others)) == list(range(4, 101))


async def test_stop_waits_for_the_handler_that_runs(js: JetStream) -> None:
    consumer = await make_consumer(js, 10)
    started, go = asyncio.Event(), asyncio.Event()
    finished = False

    async def handle(message: JetStreamMsg) -> None:
        nonlocal finished
        started.set()
        await go.wait()
        finished = True

    running = await consumer.consume(handle)
    async with asyncio.timeout(LONG):
        await started.wait()
        stopping = asyncio.ensure_future(running.stop())
        await asyncio.sleep(0.1)
        assert not stopping.done()
        assert running.active
        go.set()
        await stopping
    assert finished
    assert not running.active


async def test_drain_handles_what_is_buffered_and_no_more(js: JetStream) -> None:
    consumer = await make_consumer(js, 100)
    handler = Collector()
    running = await consumer.consume(handler, max_messages=20)
    async with asyncio.timeout(LONG):
        await handler.until(1)
        await running.drain()
    seen = sequences(handler.messages)
    assert seen == list(range(1, len(seen) + 1))
    info = await consumer.info()
    assert info.num_pending == 100 - len(seen)


async def test_drain_loses_nothing(js: JetStream) -> None:
    consumer = await make_consumer(js, 2000, ack_policy="none")
    handler = Collector()
    async with asyncio.timeout(LONG):
        while len(handler.messages) < 2000:
            running = await consumer.consume(handler, max_messages=100)
            await handler.until(len(handler.messages) + 1)
            await running.drain()
    assert sequences(handler.messages) == list(range(1, 2001))


@pytest.mark.parametrize("how", ["stop", "drain"])
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_handler_can_end_its_own_consume(js: JetStream, how: str, concurrency: int) -> None:
    consumer = await make_consumer(js, 10)
    running: Consuming
    ended = 0

    async def handle(message: JetStreamMsg) -> None:
        nonlocal ended
        await getattr(running, how)()
        message.ack()
        ended += 1

    running = await consumer.consume(handle, concurrency=concurrency)
    async with asyncio.timeout(LONG):
        await running.wait_closed()
    assert ended


async def test_a_handler_cannot_wait_for_its_own_end(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    running: Consuming
    failures: asyncio.Queue[Exception] = asyncio.Queue()

    async def handle(message: JetStreamMsg) -> None:
        message.ack()
        await running.wait_closed()

    async with asyncio.timeout(LONG):
        running = await consumer.consume(handle, on_error=failures.put_nowait)
        assert isinstance(await failures.get(), UsageError)
        await running.stop()


async def test_a_stop_that_nobody_awaits_stops_all_the_same(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 10)
    handler = Collector()
    running = await consumer.consume(handler)
    await handler.until(10)
    running.stop()
    await eventually(lambda: not running.active and not listeners(nc), "it to end")
    await fill(js, await js.get_stream("ORDERS"), 1)
    assert len(handler.messages) == 10


async def test_ending_twice_does_nothing(js: JetStream) -> None:
    consumer = await make_consumer(js)
    running = await consumer.consume(Collector())
    async with asyncio.timeout(LONG):
        await running.drain()
        await running.drain()
        await running.stop()
        await running.stop()
        await running.wait_closed()


async def test_waiting_can_be_cancelled_without_ending_it(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    handler = Collector()
    async with await consumer.consume(handler) as running:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(running.wait_closed(), 0.05)
        await fill(js, await js.get_stream("ORDERS"), 1)
        assert await handler.until(2) == [1, 2]


async def test_what_ends_it_is_raised_by_wait_closed(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 3)
    handler = Collector()
    running = await consumer.consume(handler)
    await handler.until(3)
    await consumer.delete()
    async with asyncio.timeout(LONG):
        with pytest.raises(ConsumerDeleted):
            await running.wait_closed()
        assert not running.active
        assert not listeners(nc)
        await running.stop()


async def test_closing_the_connection_ends_it(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 3)
    handler = Collector()
    running = await consumer.consume(handler)
    await handler.until(3)
    await nc.close()
    async with asyncio.timeout(LONG):
        with pytest.raises(ConnectionClosed):
            await running.wait_closed()


@pytest.mark.parametrize("stream", [False, True])
async def test_what_ends_it_is_reported_though_nobody_waits(
    js: JetStream, errors: Errors, stream: bool
) -> None:
    consumer = await make_consumer(js, 3)
    handler = Collector()
    running = await consumer.consume(handler, on_error=errors)
    await handler.until(3)
    await (js.delete_stream("ORDERS") if stream else consumer.delete())
    async with asyncio.timeout(LONG):
        assert isinstance(await errors.get(), ConsumerDeleted)
    await running.stop()
    assert errors.empty()


async def test_after_the_connection_closed_nothing_is_handled_that_could_not_be_acknowledged(
    js: JetStream, nc: Connection
) -> None:
    consumer = await make_consumer(js, 100)
    seen: list[JetStreamMsg] = []

    async def handle(message: JetStreamMsg) -> None:
        seen.append(message)
        await nc.close()

    running = await consumer.consume(handle)
    async with asyncio.timeout(LONG):
        with pytest.raises(ConnectionClosed):
            await running.wait_closed()
    assert len(seen) == 1


async def test_it_does_not_start_where_it_never_could(js: JetStream, nc: Connection) -> None:
    pushing = await make_consumer(js, deliver_subject="deliver.here")
    with pytest.raises(ConsumerIsPush):
        await pushing.consume(Collector())
    consumer = await js.create_consumer("ORDERS", ConsumerConfig(name="pulling"))
    with pytest.raises(UsageError, match="expires"):
        await consumer.consume(Collector(), expires=0.5)
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await consumer.consume(Collector())


# --- heartbeats


async def test_a_slow_coroutine_handler_raises_no_alarm(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    failures: list[Exception] = []
    finished: list[JetStreamMsg] = []

    async def handle(message: JetStreamMsg) -> None:
        await asyncio.sleep(5 if message.data == b"1" else 0)
        finished.append(message)

    async with await consumer.consume(
        handle, max_messages=1, expires=2, idle_heartbeat=1, on_error=failures.append
    ):
        await eventually(lambda: len(finished) == 3, "all to be handled")
    assert not failures


async def test_a_handler_that_blocks_the_loop_raises_no_alarm(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    failures: list[Exception] = []
    handler = Collector()

    def handle(message: JetStreamMsg) -> None:
        time.sleep(3 if message.data == b"1" else 0)
        handler(message)

    async with await consumer.consume(
        handle, max_messages=1, expires=2, idle_heartbeat=1, on_error=failures.append
    ):
        assert await handler.until(3) == [1, 2, 3]
    assert not failures


async def test_an_idle_server_raises_no_alarm(js: JetStream) -> None:
    consumer = await make_consumer(js)
    failures: list[Exception] = []
    handler = Collector()
    async with await consumer.consume(handler, expires=2, idle_heartbeat=1, on_error=failures.append):
        await asyncio.sleep(5)
        await fill(js, await js.get_stream("ORDERS"), 1)
        assert await handler.until(1) == [1]
    assert not failures


# --- back-pressure


async def test_it_stalls_at_max_ack_pending_and_goes_on_when_something_is_acknowledged(js: JetStream) -> None:
    stream = await make_stream(js, 20)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", max_ack_pending=5, ack_wait=60))
    seen: list[JetStreamMsg] = []
    failures: list[Exception] = []
    async with await consumer.consume(seen.append, expires=10, on_error=failures.append):
        while len(seen) < 20:
            expected = min(len(seen) + 5, 20)
            await eventually(lambda: len(seen) == expected, f"{expected} messages")  # noqa: B023
            info = await consumer.info()
            assert (info.num_ack_pending, info.num_pending) == (5, 20 - expected)
            for message in seen[-5:]:
                message.ack()
    assert sequences(seen) == list(range(1, 21))
    assert not failures


async def test_two_connections_share_the_work(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 1000)
    mine, theirs = Collector(), Collector()
    async with connect(nc.connected_url or "") as other:
        same = await other.jetstream().get_consumer("ORDERS", "worker")
        async with (
            await consumer.consume(mine, max_messages=10),
            await same.consume(theirs, max_messages=10),
        ):
            await eventually(lambda: len(mine.messages) + len(theirs.messages) == 1000, "all handled")
            await all_acknowledged(consumer, 1000)
    assert sorted(sequences(mine.messages + theirs.messages)) == list(range(1, 1001))
