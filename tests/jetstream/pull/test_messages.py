"""The iterator of messages() against a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerIsPush,
    ExceededLimit,
    UsageError,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.pull import options
from jetspark.jetstream.pull.iterate import Messages
from tests.support.cases import for_each
from tests.support.consuming import (
    LONG,
    PULL,
    Lossy,
    fill,
    listeners,
    make_consumer,
    make_stream,
    pull_requests,
    sequences,
    until,
)
from tests.support.proxy import TCPProxy
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


async def take(messages: Messages, number: int) -> list[JetStreamMsg]:
    taken: list[JetStreamMsg] = []
    async with asyncio.timeout(LONG):
        while len(taken) < number:
            taken.append(await anext(messages))
    return taken


async def delivered(consumer: Consumer, number: int) -> None:
    """Wait until the server has sent so many messages: one that stops earlier is not sent the rest."""

    async def all_of_them() -> bool:
        return (await consumer.info()).delivered.consumer_seq == number

    await until(all_of_them, f"{number} messages to be delivered")


# --- reading


@pytest.mark.parametrize("max_messages", [1, 7, 500])
async def test_ten_thousand_messages_come_in_order(js: JetStream, max_messages: int) -> None:
    consumer = await make_consumer(js, 10_000)
    seen = 0
    async with asyncio.timeout(60), consumer.messages(max_messages=max_messages) as messages:
        async for message in messages:
            seen += 1
            assert message.metadata.sequence.stream == seen
            message.ack()
            if seen == 10_000:
                break

    async def acknowledged() -> bool:
        return (await consumer.info()).ack_floor.stream_seq == 10_000

    await until(acknowledged, "all acknowledged")


@pytest.mark.parametrize("max_messages", [1, 7, 500])
async def test_batches_bring_all_messages_in_order_and_can_be_acknowledged_at_once(
    js: JetStream, max_messages: int
) -> None:
    consumer = await make_consumer(js, 2000)
    seen: list[int] = []
    async with asyncio.timeout(LONG), consumer.messages(max_messages=max_messages) as messages:
        async for batch in messages.batches():
            assert 1 <= len(batch) <= max(max_messages // 2, 1)
            batch.ack()
            seen += sequences(batch)
            if len(seen) == 2000:
                break
    assert seen == list(range(1, 2001))

    async def acknowledged() -> bool:
        return (await consumer.info()).ack_floor.stream_seq == 2000

    await until(acknowledged, "all acknowledged")


async def test_batches_end_with_what_is_buffered_when_they_are_drained(js: JetStream) -> None:
    consumer = await make_consumer(js, 100)
    messages = consumer.messages(max_messages=100)
    seen: list[int] = []
    async with asyncio.timeout(LONG):
        async for batch in messages.batches():
            batch.ack()
            seen += sequences(batch)
            messages.drain()
    assert seen == list(range(1, len(seen) + 1))
    assert (await consumer.info()).num_pending == 100 - len(seen)


async def test_messages_come_in_order_when_bytes_are_the_limit(js: JetStream) -> None:
    errors: list[Exception] = []
    consumer = await make_consumer(js, 2000, ack_policy="none")
    async with consumer.messages(max_bytes=1000, on_error=errors.append) as messages:
        assert sequences(await take(messages, 2000)) == list(range(1, 2001))
    assert not errors


async def test_a_message_that_is_larger_than_the_limit_is_reported_and_comes_with_a_larger_one(
    js: JetStream,
) -> None:
    stream = await make_stream(js, 2)
    await js.publish("orders.new", b"x" * 2000)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    reported: asyncio.Queue[Exception] = asyncio.Queue()
    async with asyncio.timeout(LONG):
        async with consumer.messages(max_bytes=500, on_error=reported.put_nowait) as messages:
            assert sequences(await take(messages, 2)) == [1, 2]
            error = await reported.get()
            assert isinstance(error, ExceededLimit)
            assert "max_bytes=500" in str(error)
        async with consumer.messages(max_bytes=5000) as messages:
            assert sequences(await take(messages, 1)) == [3]


@pytest.mark.parametrize("max_messages", [4, 500])
async def test_large_messages_fill_the_buffer_with_fewer(
    js: JetStream, monkeypatch: pytest.MonkeyPatch, max_messages: int
) -> None:
    monkeypatch.setattr(options, "MOST_BYTES", 20_000)
    stream = await make_stream(js, 3)
    for size in [*[5000] * 20, 15_000, 0]:
        await js.publish("orders.new", bytes(size))
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    errors: list[Exception] = []
    held: list[int] = []
    async with consumer.messages(max_messages=max_messages, on_error=errors.append) as messages:
        for _ in range(25):
            held.append(sum(frame.size for frame in messages._buffer.frames))
            await take(messages, 1)
    assert 0 < max(held) < 40_000
    assert not errors


async def test_a_consumer_with_a_smaller_limit_for_requests_is_read_without_one(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, max_bytes=1000)
    async with consumer.messages() as messages:
        assert sequences(await take(messages, 10)) == list(range(1, 11))


async def test_messages_that_are_stored_meanwhile_come_too(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    async with consumer.messages() as messages:
        for count in (1, 5, 50):
            await fill(js, stream, count)
            assert len(await take(messages, count)) == count


async def test_it_goes_on_when_requests_expire(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    async with consumer.messages(max_messages=10, expires=1) as messages:
        assert await messages.next(timeout=2.5) is None
        await fill(js, stream, 25)
        assert sequences(await take(messages, 25)) == list(range(1, 26))


async def test_next_waits_so_long_and_then_gives_none(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    async with consumer.messages() as messages:
        first = await messages.next(timeout=LONG)
        assert first is not None
        assert first.data == b"1"
        assert await messages.next(timeout=0.1) is None
        assert await messages.next(timeout=0) is None


async def test_a_cancelled_next_loses_nothing(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_policy="none"))
    async with consumer.messages() as messages:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(messages.next(), 0.05)
        await fill(js, stream, 3)
        assert sequences(await take(messages, 3)) == [1, 2, 3]


async def test_it_works_without_a_context_too(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    messages = consumer.messages()
    assert sequences(await take(messages, 3)) == [1, 2, 3]
    await messages.stop()


async def test_it_never_holds_more_than_the_limit(js: JetStream) -> None:
    consumer = await make_consumer(js, 100)
    async with consumer.messages(max_messages=10) as messages:
        for taken in range(1, 51):
            await take(messages, 1)
            assert (await consumer.info()).num_ack_pending <= taken + 10


async def test_requests_fill_the_buffer_up_to_the_limit(js: JetStream, proxy: TCPProxy) -> None:
    seen = proxy.client_to_server = Lossy(PULL)
    await make_consumer(js, 100)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        async with consumer.messages(max_messages=10, threshold_messages=4, expires=8) as messages:
            await take(messages, 6)
            await nc.flush()
    first, second, *_ = pull_requests(seen)
    assert first == {
        "batch": 10,
        "max_bytes": options.MOST_BYTES,
        "expires": 8 * 10**9,
        "idle_heartbeat": 4 * 10**9,
    }
    assert second["batch"] == 6


# --- ending


async def test_stop_ends_the_iteration(js: JetStream) -> None:
    consumer = await make_consumer(js, 10)
    seen = []
    messages = consumer.messages()
    async for message in messages:
        seen.append(message)
        if len(seen) == 3:
            messages.stop()
    assert sequences(seen) == [1, 2, 3]
    assert await messages.next() is None


async def test_stop_wakes_those_who_wait(js: JetStream) -> None:
    consumer = await make_consumer(js)
    messages = consumer.messages()
    readers = [asyncio.create_task(messages.next()) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(LONG):
        await messages.stop()
        assert await asyncio.gather(*readers) == [None, None, None]


async def test_what_stop_finds_in_the_buffer_goes_to_another_client_at_once(
    js: JetStream, nc: Connection
) -> None:
    stream = await make_stream(js, 50)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_wait=60))
    messages = consumer.messages(max_messages=50)
    for message in await take(messages, 5):
        message.ack()
    await delivered(consumer, 50)
    await messages.stop()
    async with asyncio.timeout(LONG), connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        batch = await theirs.fetch(45, expires=LONG)
    assert sorted(sequences(batch)) == list(range(6, 51))
    # Given back once, and not delivered to the one that stopped in between.
    assert {message.metadata.num_delivered for message in batch} == {2}


async def test_stop_gives_back_what_is_still_on_its_way(js: JetStream) -> None:
    consumer = await make_consumer(js, 2000, ack_wait=60, max_ack_pending=-1)
    for _ in range(10):
        messages = consumer.messages(max_messages=1000)
        await take(messages, 1)
        await messages.stop()
    async with asyncio.timeout(LONG):
        seen: set[int] = set()
        while len(seen) < 1990:
            seen.update(sequences(await consumer.fetch(1000, expires=1)))


async def test_stopping_without_waiting_for_it_gives_back_too(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, ack_wait=60)
    messages = consumer.messages()
    await take(messages, 1)
    messages.stop()
    messages.stop()
    async with asyncio.timeout(LONG):
        assert sorted(sequences(await consumer.fetch(9, expires=LONG))) == list(range(2, 11))


async def test_a_stop_that_is_cancelled_stops_all_the_same(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 10, ack_wait=60)
    messages = consumer.messages()
    await take(messages, 1)
    stopping = asyncio.ensure_future(messages.stop())
    stopping.cancel()
    await eventually(lambda: not listeners(nc), "the pull to end")
    async with asyncio.timeout(LONG):
        assert len(await consumer.fetch(9, expires=LONG)) == 9


async def test_drain_hands_out_what_is_buffered_and_asks_for_no_more(js: JetStream) -> None:
    consumer = await make_consumer(js, 100)
    async with asyncio.timeout(LONG), consumer.messages(max_messages=20) as messages:
        seen = await take(messages, 1)
        await delivered(consumer, 20)
        messages.drain()
        seen += [message async for message in messages]
    assert sequences(seen) == list(range(1, len(seen) + 1))
    assert 1 < len(seen) <= 40
    assert (await consumer.info()).num_pending == 100 - len(seen)


async def test_drain_loses_nothing_of_what_is_on_its_way(js: JetStream) -> None:
    consumer = await make_consumer(js, 5000, ack_policy="none")
    seen: list[int] = []
    async with asyncio.timeout(LONG):
        while len(seen) < 5000:
            messages = consumer.messages(max_messages=300)
            taken = await take(messages, 1)
            messages.drain()
            seen += sequences(taken + [message async for message in messages])
    assert seen == list(range(1, 5001))


async def test_what_is_left_of_a_drain_goes_back_with_stop(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, ack_wait=60)
    async with consumer.messages() as messages:
        await take(messages, 1)
        await messages.drain()
    async with asyncio.timeout(LONG):
        assert sorted(sequences(await consumer.fetch(9, expires=LONG))) == list(range(2, 11))


async def test_leaving_the_context_stops(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 10, ack_wait=60)

    async def fail() -> None:
        async with consumer.messages() as messages:
            async for _ in messages:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not listeners(nc)
    async with asyncio.timeout(LONG):
        assert len(await consumer.fetch(9, expires=LONG)) == 9


async def test_a_consumer_without_acknowledgements_gets_nothing_back(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, ack_policy="none")
    async with consumer.messages() as messages:
        await take(messages, 1)
        await delivered(consumer, 10)
    assert (await consumer.info()).num_pending == 0


# --- what goes wrong


async def test_a_consumer_that_is_deleted_ends_it_with_that_error(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 5)
    async with asyncio.timeout(LONG), consumer.messages() as messages:
        assert sequences(await take(messages, 5)) == [1, 2, 3, 4, 5]
        await consumer.delete()
        for _ in range(2):
            with pytest.raises(ConsumerDeleted):
                await anext(messages)
        assert not listeners(nc)


async def test_what_is_buffered_comes_before_the_error(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 5)
    async with asyncio.timeout(LONG), consumer.messages() as messages:
        await take(messages, 1)
        await delivered(consumer, 5)
        await consumer.delete()
        await eventually(lambda: not listeners(nc), "the pull to end")
        assert sequences(await take(messages, 4)) == [2, 3, 4, 5]
        with pytest.raises(ConsumerDeleted):
            await anext(messages)


async def test_the_server_forgets_the_inbox_of_one_that_ended(js: JetStream, proxy: TCPProxy) -> None:
    sent = bytearray()

    def record(data: bytes) -> bytes:
        sent.extend(data)
        return data

    proxy.client_to_server = record
    await make_consumer(js)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        messages = consumer.messages()
        waiting = asyncio.create_task(messages.next())

        async def asked() -> bool:
            return (await consumer.info()).num_waiting == 1

        await until(asked, "the request to wait")
        await consumer.delete()
        with pytest.raises(ConsumerDeleted):
            await waiting
        await nc.flush()
        requests_inbox = 1
        assert sent.count(b"SUB ") - sent.count(b"UNSUB ") == requests_inbox + sent.count(b"UNSUB ")


LIMITS = [{"max_batch": 3}, {"max_expires": 1.5}, {"max_bytes": 300}]


@pytest.mark.parametrize("options", [{}, {"max_messages": 100}, {"max_bytes": 100_000}])
@pytest.mark.parametrize("limit", LIMITS)
async def test_requests_stay_within_the_limits_of_the_consumer(
    js: JetStream, limit: dict[str, Any], options: dict[str, Any]
) -> None:
    consumer = await make_consumer(js, 20, **limit)
    reported: list[Exception] = []
    async with consumer.messages(on_error=reported.append, **options) as messages:
        assert sequences(await take(messages, 20)) == list(range(1, 21))
    assert not reported


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_request_beyond_limits_that_are_not_known_is_reported_once_and_then_smaller(
    js: JetStream, limit: dict[str, Any]
) -> None:
    consumer = await make_consumer(js, 20)
    await (await js.get_stream("ORDERS")).update_consumer(consumer.config.replace(**limit))
    reported: list[Exception] = []
    async with consumer.messages(max_bytes=100_000, on_error=reported.append) as messages:
        assert sequences(await take(messages, 20)) == list(range(1, 21))
    assert [type(error) for error in reported] == [ExceededLimit]


async def test_errors_go_to_the_connection_when_nobody_else_wants_them(js: JetStream, nc: Connection) -> None:
    made = await make_consumer(js, 5)
    reported: asyncio.Queue[Exception] = asyncio.Queue()
    async with asyncio.timeout(LONG), connect(nc.connected_url or "", on_error=reported.put_nowait) as other:
        consumer = await other.jetstream().get_consumer("ORDERS", "worker")
        await (await js.get_stream("ORDERS")).update_consumer(made.config.replace(max_batch=10))
        async with consumer.messages():
            assert isinstance(await reported.get(), ExceededLimit)


async def test_two_iterators_share_a_consumer(js: JetStream) -> None:
    consumer = await make_consumer(js, 1000)
    seen: list[JetStreamMsg] = []

    async def read(messages: Messages) -> None:
        async for message in messages:
            seen.append(message)
            await message.ack()
            await asyncio.sleep(0)
            if len(seen) == 1000:
                return

    async with (
        asyncio.timeout(LONG),
        consumer.messages(max_messages=10) as one,
        consumer.messages(max_messages=10) as two,
    ):
        readers = [asyncio.create_task(read(messages)) for messages in (one, two)]
        await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(one.stop(), two.stop(), *readers)
    assert sorted(sequences(seen)) == list(range(1, 1001))


async def test_closing_the_connection_ends_it(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 5)
    messages = consumer.messages()
    await take(messages, 5)
    waiting = asyncio.create_task(messages.next())
    await asyncio.sleep(0)
    await nc.close()
    async with asyncio.timeout(LONG):
        with pytest.raises(ConnectionClosed):
            await waiting
        await messages.stop()


async def test_a_closed_connection_is_an_error(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 5)
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await consumer.messages().next()


async def test_one_cannot_pull_from_a_push_consumer(js: JetStream) -> None:
    consumer = await make_consumer(js, deliver_subject="deliver.here")
    with pytest.raises(ConsumerIsPush):
        consumer.messages()


@for_each(
    ("options", "complaint"),
    [
        ({"max_messages": 1, "max_bytes": 1}, "max_messages and max_bytes"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"expires": 0.9}, "expires"),
        ({"idle_heartbeat": 0.4}, "idle_heartbeat"),
        ({"idle_heartbeat": 31, "expires": 100}, "idle_heartbeat"),
        ({"idle_heartbeat": 1, "expires": 1.9}, "idle_heartbeat"),
        ({"max_messages": 10, "threshold_messages": 11}, "threshold_messages"),
        ({"max_messages": 10, "threshold_messages": -1}, "threshold_messages"),
        ({"max_messages": 10, "threshold_bytes": 1}, "threshold_bytes"),
        ({"max_bytes": 10, "threshold_messages": 1}, "threshold_messages"),
        ({"priority": 10}, "priority"),
    ],
)
async def test_bad_options_are_named(js: JetStream, options: dict[str, Any], complaint: str) -> None:
    consumer = await make_consumer(js)
    with pytest.raises(UsageError, match=complaint):
        consumer.messages(**options)


@pytest.mark.parametrize("expires", [1, 10 / 3, 1.999999999, 61.7])
async def test_the_default_heartbeat_is_one_that_the_server_takes(js: JetStream, expires: float) -> None:
    consumer = await make_consumer(js, 1)
    async with asyncio.timeout(LONG), consumer.messages(expires=expires) as messages:
        assert len(await take(messages, 1)) == 1
