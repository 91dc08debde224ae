"""fetch and fetch_no_wait against a real server."""

from __future__ import annotations

import asyncio
import random
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
from jetspark.jetstream.context import JetStream
from tests.support.cases import for_each
from tests.support.consuming import (
    LONG,
    PULL,
    Lossy,
    fill,
    gathered,
    make_consumer,
    make_stream,
    pull_requests,
    sequences,
    until,
)
from tests.support.proxy import TCPProxy
from tests.support.timing import impatient
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


# --- how much, and when


async def test_it_returns_as_many_as_asked_for_in_order(js: JetStream) -> None:
    consumer = await make_consumer(js, 20)
    assert sequences(await consumer.fetch(7)) == list(range(1, 8))
    batch = await consumer.fetch(13)
    assert sequences(batch) == list(range(8, 21))
    assert [message.data for message in batch] == [b"%d" % n for n in range(8, 21)]


async def test_it_returns_at_once_when_all_are_there(js: JetStream) -> None:
    consumer = await make_consumer(js, 10)
    async with asyncio.timeout(LONG):
        assert len(await consumer.fetch(10, expires=600)) == 10


async def test_it_waits_for_those_that_are_missing(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))

    async def delivered() -> bool:
        return (await consumer.info()).delivered.stream_seq == 3

    await until(delivered, "the first three delivered")
    await fill(js, stream, 2)
    assert sequences(await fetching) == [1, 2, 3, 4, 5]


async def test_it_returns_what_came_when_it_expires(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    assert sequences(await consumer.fetch(10, expires=2)) == [1, 2, 3]


async def test_timeout_is_another_word_for_expires(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    for reader in (consumer, await js.ordered_consumer("ORDERS")):
        assert len(await reader.fetch(1, timeout=LONG)) == 1
        assert await reader.fetch(10, timeout=0.1) == []
        assert await reader.next(timeout=0.1) is None
        with pytest.raises(UsageError, match="timeout must be more than 0 seconds, not 0"):
            await reader.next(timeout=0)
        with pytest.raises(UsageError, match="expires must be more than 0 seconds, not 0"):
            await reader.next(expires=0)


async def test_nothing_is_an_empty_list(js: JetStream) -> None:
    consumer = await make_consumer(js)
    batch = await consumer.fetch(10, expires=0.2)
    assert batch == []
    assert batch.error is None


async def test_a_deadline_may_be_as_short_as_one_likes(js: JetStream) -> None:
    consumer = await make_consumer(js)
    for expires in (1e-9, 1e-6, 0.001):
        assert await consumer.fetch(10, expires=expires) == []


async def test_many_messages_at_once(js: JetStream) -> None:
    consumer = await make_consumer(js, 10_000, ack_policy="none")
    assert sequences(await consumer.fetch(10_000)) == list(range(1, 10_001))


# --- by bytes


async def test_it_never_brings_more_bytes_than_asked_for(js: JetStream) -> None:
    stream = await make_stream(js)
    sizes = random.Random(1)
    for _ in range(50):
        await js.publish("orders.new", b"x" * sizes.randrange(300))
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_policy="none"))
    seen: list[int] = []
    while len(seen) < 50:
        batch = await consumer.fetch(max_bytes=1000, expires=3)
        assert 1 <= sum(message._frame.size for message in batch) <= 1000
        seen += sequences(batch)
    assert seen == list(range(1, 51))


async def test_a_message_that_is_larger_than_the_bytes_asked_for_is_left(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"x" * 500)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    assert await consumer.fetch(max_bytes=400) == []
    assert len(await consumer.fetch(max_bytes=1000, expires=2)) == 1


# --- without waiting


async def test_no_wait_brings_what_is_there(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    assert sequences(await consumer.fetch_no_wait(10)) == [1, 2, 3]
    assert await consumer.fetch_no_wait(10) == []


async def test_no_wait_brings_no_more_than_asked_for(js: JetStream) -> None:
    consumer = await make_consumer(js, 5)
    assert sequences(await consumer.fetch_no_wait(2)) == [1, 2]
    assert sequences(await consumer.fetch_no_wait(10)) == [3, 4, 5]


async def test_no_wait_brings_no_more_bytes_than_asked_for(js: JetStream) -> None:
    stream = await make_stream(js)
    for _ in range(4):
        await js.publish("orders.new", b"x" * 300)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_policy="none"))
    assert sequences(await consumer.fetch_no_wait(10, max_bytes=1000)) == [1, 2]
    assert sequences(await consumer.fetch_no_wait(1, max_bytes=1000)) == [3]
    assert await consumer.fetch_no_wait(10, max_bytes=100) == []
    assert sequences(await consumer.fetch_no_wait(10)) == [4]


# --- what is asked


@pytest.mark.parametrize(
    ("expires", "heartbeat"), [(30, None), (31, 15.5), (40, 20), (100 / 3, 50 / 3), (60, 30), (600, 30)]
)
async def test_heartbeats_are_asked_for_when_it_may_take_long(
    js: JetStream, proxy: TCPProxy, expires: float, heartbeat: float | None
) -> None:
    seen = proxy.client_to_server = Lossy(PULL)
    await make_consumer(js, 1)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        # Taken: the server answers 400 to heartbeats that it finds too long.
        assert len(await consumer.fetch(1, expires=expires)) == 1
    (request,) = pull_requests(seen)
    if heartbeat is None:
        assert "idle_heartbeat" not in request
    else:
        assert request["idle_heartbeat"] == pytest.approx(heartbeat * 10**9, abs=10**8)
        assert 2 * request["idle_heartbeat"] <= request["expires"]


async def test_a_heartbeat_of_ones_own_is_asked_for(js: JetStream, proxy: TCPProxy) -> None:
    seen = proxy.client_to_server = Lossy(PULL)
    await make_consumer(js, 5)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        assert len(await consumer.fetch(5, expires=LONG, idle_heartbeat=10)) == 5
    (request,) = pull_requests(seen)
    assert request["idle_heartbeat"] == 10_000_000_000


@for_each(
    ("arguments", "complaint"),
    [
        ({}, "max_messages or max_bytes"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": -1}, "max_messages"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_messages": 1, "expires": 0}, "expires"),
        ({"max_messages": 1, "expires": -1.0}, "expires"),
        ({"max_messages": 1, "expires": float("nan")}, "expires"),
        ({"max_messages": 1, "expires": 2, "idle_heartbeat": 1.5}, "idle_heartbeat"),
        ({"max_messages": 1, "expires": 2, "idle_heartbeat": -1}, "idle_heartbeat"),
        ({"max_messages": 1, "priority": 10}, "priority"),
    ],
)
async def test_bad_arguments_are_named(js: JetStream, arguments: dict[str, Any], complaint: str) -> None:
    consumer = await make_consumer(js)
    with pytest.raises(UsageError, match=complaint):
        await consumer.fetch(**arguments)


async def test_no_wait_needs_limits_that_let_something_through(js: JetStream) -> None:
    consumer = await make_consumer(js)
    with pytest.raises(UsageError, match="max_messages"):
        await consumer.fetch_no_wait(0)
    with pytest.raises(UsageError, match="max_bytes"):
        await consumer.fetch_no_wait(1, max_bytes=0)


# --- several at a time


async def test_fetches_at_the_same_time_share_without_duplicates(js: JetStream) -> None:
    consumer = await make_consumer(js, 500)
    batches = await asyncio.gather(*[consumer.fetch(50, expires=5) for _ in range(10)])
    assert sorted(sequences(message for batch in batches for message in batch)) == list(range(1, 501))


async def test_connections_share_without_duplicates(js: JetStream, nc: Connection) -> None:
    mine = await make_consumer(js, 500)
    async with connect(nc.connected_url or "") as other:
        theirs = await other.jetstream().get_consumer("ORDERS", "worker")
        batches = await asyncio.gather(*[c.fetch(50, expires=5) for c in (mine, theirs) for _ in range(5)])
    assert sorted(sequences(message for batch in batches for message in batch)) == list(range(1, 501))


# --- cancelled


@pytest.mark.parametrize("ack_policy", ["explicit", "none"])
async def test_what_a_cancelled_fetch_had_received_comes_with_the_next(
    js: JetStream, nc: Connection, ack_policy: str
) -> None:
    stream = await make_stream(js, 4)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", ack_policy=ack_policy))
    fetching = asyncio.create_task(consumer.fetch(10))
    await eventually(lambda: 4 in gathered(nc), "four messages")
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert sequences(await consumer.fetch(3)) == [1, 2, 3]
    await fill(js, stream, 2)
    assert sequences(await consumer.fetch(3)) == [4, 5, 6]


@pytest.mark.parametrize("ack_policy", ["explicit", "none"])
async def test_what_is_on_its_way_to_a_cancelled_fetch_comes_with_the_next(
    js: JetStream, ack_policy: str
) -> None:
    consumer = await make_consumer(js, 100, ack_policy=ack_policy)
    fetching = asyncio.create_task(consumer.fetch(10))
    await asyncio.sleep(0)  # The request is on its way, and nothing can have come.
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert sequences(await consumer.fetch(10)) == list(range(1, 11))
    assert sequences(await consumer.fetch(90)) == list(range(11, 101))


@pytest.mark.parametrize("ack_policy", ["explicit", "none"])
async def test_fetches_that_are_cancelled_at_any_moment_lose_nothing(js: JetStream, ack_policy: str) -> None:
    messages = 20_000
    moments = random.Random(ack_policy)
    consumer = await make_consumer(js, messages, ack_policy=ack_policy, ack_wait=3600, max_ack_pending=-1)
    seen: list[int] = []
    async with asyncio.timeout(120):
        while len(seen) < messages:
            fetching = asyncio.create_task(consumer.fetch(1000, expires=1))
            await asyncio.sleep(moments.random() / 100)
            fetching.cancel()
            outcome = (await asyncio.gather(fetching, return_exceptions=True))[0]
            if not isinstance(outcome, BaseException):
                seen += sequences(outcome)
            if len(seen) < messages:
                batch = await consumer.fetch(min(500, messages - len(seen)), expires=LONG)
                assert batch, f"{messages - len(seen)} messages are lost"
                seen += sequences(batch)
    assert seen == list(range(1, messages + 1))


async def test_what_a_cancelled_fetch_left_counts_against_the_bytes_of_the_next(
    js: JetStream, nc: Connection
) -> None:
    stream = await make_stream(js)
    for _ in range(6):
        await js.publish("orders.new", b"x" * 200)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    fetching = asyncio.create_task(consumer.fetch(10))
    await eventually(lambda: 6 in gathered(nc), "six messages")
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    seen: list[int] = []
    while len(seen) < 6:
        batch = await consumer.fetch(max_bytes=700, expires=0.3)
        assert 1 <= sum(message._frame.size for message in batch) <= 700
        seen += sequences(batch)
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_a_timeout_around_it_is_a_cancel(js: JetStream) -> None:
    stream = await make_stream(js, 2)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.fetch(5, expires=LONG), 0.2)
    assert sequences(await consumer.fetch(2)) == [1, 2]


# --- what fails


async def test_a_consumer_that_is_deleted_meanwhile_is_an_error(js: JetStream) -> None:
    consumer = await make_consumer(js)
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))

    async def waiting() -> bool:
        return (await consumer.info()).num_waiting == 1

    await until(waiting, "the request to wait")
    await consumer.delete()
    with pytest.raises(ConsumerDeleted):
        await fetching


async def test_an_error_after_messages_came_is_on_the_batch(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 2)
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))
    await eventually(lambda: 2 in gathered(nc), "two messages")
    await consumer.delete()
    batch = await fetching
    assert sequences(batch) == [1, 2]
    assert isinstance(batch.error, ConsumerDeleted)


async def test_a_stream_that_is_deleted_meanwhile_is_an_error(js: JetStream) -> None:
    consumer = await make_consumer(js)
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))

    async def waiting() -> bool:
        return (await consumer.info()).num_waiting == 1

    await until(waiting, "the request to wait")
    await js.delete_stream("ORDERS")
    with pytest.raises(ConsumerDeleted):
        await fetching


async def test_a_consumer_that_is_gone_does_not_answer(js: JetStream) -> None:
    impatient(js)
    consumer = await make_consumer(js)
    await consumer.delete()
    with pytest.raises(ConsumerDeleted):
        await consumer.fetch(5, expires=LONG)
    with pytest.raises(ConsumerDeleted):
        await consumer.fetch_no_wait(5)


async def test_one_cannot_fetch_from_a_push_consumer(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, deliver_subject="deliver.here")
    with pytest.raises(ConsumerIsPush, match="pushes to"):
        await consumer.fetch(1)


async def test_more_waiting_fetches_than_allowed_are_an_error(js: JetStream) -> None:
    consumer = await make_consumer(js, max_waiting=1)
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))

    async def waiting() -> bool:
        return (await consumer.info()).num_waiting == 1

    await until(waiting, "the first request to wait")
    with pytest.raises(ExceededLimit, match="max_waiting"):
        await consumer.fetch(5, expires=LONG)
    fetching.cancel()


LIMITS = [
    ({"max_batch": 5}, {"max_messages": 6}, 5),
    ({"max_batch": 5}, {"max_bytes": 10_000}, 5),
    ({"max_expires": 1.0}, {"max_messages": 1, "expires": LONG}, 1),
    ({"max_bytes": 200}, {"max_bytes": 10_000}, 3),
]


@pytest.mark.parametrize(("limit", "beyond", "count"), LIMITS)
async def test_the_limits_of_the_consumer_bound_what_is_asked_for(
    js: JetStream, limit: dict[str, Any], beyond: dict[str, Any], count: int
) -> None:
    consumer = await make_consumer(js, 10, **limit)
    assert len(await consumer.fetch(**beyond)) == count


@pytest.mark.parametrize(("limit", "beyond", "count"), LIMITS)
async def test_a_limit_that_is_not_known_refuses_one_fetch_and_not_the_next(
    js: JetStream, limit: dict[str, Any], beyond: dict[str, Any], count: int
) -> None:
    consumer = await make_consumer(js, 10)
    stream = await js.get_stream("ORDERS")
    await stream.update_consumer(consumer.config.replace(**limit))
    with pytest.raises(ExceededLimit) as caught:
        await consumer.fetch(**beyond)
    assert caught.value.status == 409
    assert len(await consumer.fetch(**beyond)) == count


async def test_a_fetch_waits_longer_than_the_consumer_lets_one_request_wait(js: JetStream) -> None:
    consumer = await make_consumer(js, max_expires=0.1)
    stream = await js.get_stream("ORDERS")
    fetching = asyncio.create_task(consumer.fetch(1, expires=LONG))

    async def expired() -> bool:
        await asyncio.sleep(0.2)  # longer than one request
        return (await consumer.info()).num_waiting == 1

    await until(expired, "another request")
    await fill(js, stream, 1)
    assert sequences(await fetching) == [1]


@pytest.mark.parametrize(("max_messages", "max_bytes", "count"), [(3, 10_000, 3), (10, 250, 2)])
async def test_the_first_of_two_limits_ends_it(
    js: JetStream, max_messages: int, max_bytes: int, count: int
) -> None:
    consumer = await make_consumer(js)
    for _ in range(10):
        await js.publish("orders.new", bytes(40))
    async with asyncio.timeout(LONG):
        batch = await consumer.fetch(max_messages, max_bytes=max_bytes, expires=2 * LONG)
    assert (len(batch), batch.error) == (count, None)
    assert sum(message._frame.size for message in batch) <= max_bytes


async def test_a_closed_connection_is_an_error(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 1)
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await consumer.fetch(1)


async def test_a_connection_that_closes_meanwhile_is_an_error(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js)
    fetching = asyncio.create_task(consumer.fetch(5, expires=LONG))
    await asyncio.sleep(0)
    await nc.close()
    with pytest.raises(ConnectionClosed):
        await fetching
