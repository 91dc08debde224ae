"""What consumers can be told to deliver, as a reader sees it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetspark import ConsumerConfig
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.stream import Stream
from tests.support.consuming import LONG, fill, make_consumer, make_stream, sequences

pytestmark = pytest.mark.usefixtures("tidy")


async def mixed_stream(js: JetStream) -> Stream:
    """1 a, 2 b, 3 c, 4 a, 5 b, 6 c, 7 a."""
    stream = await make_stream(js)
    for subject in "abcabca":
        await fill(js, stream, 1, subject=f"orders.{subject}")
    return stream


async def read(stream: Stream, **config: Any) -> list[int]:
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", **config))
    return sequences(await consumer.fetch_no_wait(100))


async def everywhere(consumer: Consumer, number: int) -> list[list[int]]:
    """What fetch and messages() read of an ack-none consumer that is set back in between."""
    fetched = sequences(await consumer.fetch(number, expires=LONG))
    async with asyncio.timeout(LONG), consumer.messages() as messages:
        await consumer.reset(1)
        return [fetched, sequences([await anext(messages) for _ in range(number)])]


# --- which messages


async def test_one_filter(js: JetStream) -> None:
    assert await read(await mixed_stream(js), filter_subject="orders.b") == [2, 5]


async def test_several_filters(js: JetStream) -> None:
    stream = await mixed_stream(js)
    assert await read(stream, filter_subjects=["orders.a", "orders.c"]) == [1, 3, 4, 6, 7]


async def test_a_wildcard(js: JetStream) -> None:
    assert await read(await mixed_stream(js), filter_subject="orders.*") == [1, 2, 3, 4, 5, 6, 7]


async def test_from_a_sequence_on(js: JetStream) -> None:
    stream = await mixed_stream(js)
    assert await read(stream, deliver_policy="by_start_sequence", opt_start_seq=5) == [5, 6, 7]


async def test_from_a_time_on(js: JetStream) -> None:
    stream = await mixed_stream(js)
    fourth = await stream.get_message(4)
    assert await read(stream, deliver_policy="by_start_time", opt_start_time=fourth.timestamp) == [4, 5, 6, 7]


async def test_from_the_last_on(js: JetStream) -> None:
    assert await read(await mixed_stream(js), deliver_policy="last") == [7]


async def test_from_the_last_of_each_subject_on(js: JetStream) -> None:
    stream = await mixed_stream(js)
    assert await read(stream, deliver_policy="last_per_subject", filter_subject="orders.>") == [5, 6, 7]


async def test_only_new_ones(js: JetStream) -> None:
    stream = await mixed_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", deliver_policy="new"))
    assert await consumer.fetch_no_wait(10) == []
    await fill(js, stream, 2)
    assert sequences(await consumer.fetch(2)) == [8, 9]


# --- what of them


async def test_headers_come_along(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"data", headers={"Colour": "red", "Tags": ["a", "b"]})
    await js.publish("orders.new", b"none")
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    with_headers, without = await consumer.fetch(2)
    assert with_headers.headers["colour"] == "red"
    assert with_headers.headers.get_all("Tags") == ["a", "b"]
    assert with_headers.data == b"data"
    assert not without.headers


async def test_an_empty_message_with_headers_is_no_status(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"", headers={"Colour": "red"})
    await js.publish("orders.new", b"")
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    assert [message.data for message in await consumer.fetch(2)] == [b"", b""]


async def test_headers_only(js: JetStream) -> None:
    stream = await make_stream(js)
    await js.publish("orders.new", b"12345", headers={"Colour": "red"})
    await js.publish("orders.new", b"1234567890")
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", headers_only=True))
    first, second = await consumer.fetch(2)
    assert (first.data, second.data) == (b"", b"")
    assert first.headers["Colour"] == "red"
    assert [message.headers["Nats-Msg-Size"] for message in (first, second)] == ["5", "10"]


async def test_metadata_tells_where_a_message_comes_from(js: JetStream) -> None:
    stream = await mixed_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker", filter_subject="orders.b"))
    first, second = await consumer.fetch(2)
    metadata = first.metadata
    assert (metadata.stream, metadata.consumer, metadata.domain) == ("ORDERS", "worker", None)
    assert (metadata.sequence.stream, metadata.sequence.consumer) == (2, 1)
    assert (metadata.num_delivered, metadata.num_pending) == (1, 1)
    assert metadata.timestamp == (await stream.get_message(2)).timestamp
    assert abs(datetime.now(UTC) - metadata.timestamp) < timedelta(minutes=1)
    assert (second.metadata.sequence.stream, second.metadata.num_pending) == (5, 0)
    assert second.subject == "orders.b"


# --- managing while reading


async def test_a_paused_consumer_delivers_when_it_goes_on(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    await consumer.pause(600)
    assert (await consumer.info()).paused
    assert await consumer.fetch(3, expires=0.2) == []
    failures: list[Exception] = []
    async with asyncio.timeout(LONG), consumer.messages(expires=3, on_error=failures.append) as messages:
        assert await messages.next(timeout=3.5) is None
        await consumer.resume()
        assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]
    assert not failures


async def test_a_consumer_that_is_set_back_delivers_again(js: JetStream) -> None:
    consumer = await make_consumer(js, 5)
    await (await consumer.fetch(5)).ack()
    await consumer.reset(3)
    assert sequences(await consumer.fetch(3)) == [3, 4, 5]


async def test_one_that_is_set_back_while_it_is_read_goes_on_from_there(js: JetStream) -> None:
    consumer = await make_consumer(js, 5, ack_policy="none")
    assert await everywhere(consumer, 5) == [[1, 2, 3, 4, 5]] * 2


async def test_an_update_does_not_disturb_a_reader(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    async with asyncio.timeout(LONG), consumer.messages() as messages:
        assert sequences([await anext(messages) for _ in range(3)]) == [1, 2, 3]
        await stream.update_consumer(consumer.config.replace(description="read", max_ack_pending=50))
        await fill(js, stream, 3)
        assert sequences([await anext(messages) for _ in range(3)]) == [4, 5, 6]


async def test_a_consumer_without_use_is_deleted_and_one_in_use_is_not(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig(inactive_threshold=2))
    async with asyncio.timeout(LONG), consumer.messages(expires=3) as messages:
        assert await messages.next(timeout=5) is None
        await fill(js, stream, 1)
        assert (await anext(messages)).data == b"1"


async def test_a_work_queue_forgets_what_is_acknowledged(js: JetStream) -> None:
    stream = await make_stream(js, 5, retention="workqueue")
    consumer = await stream.create_consumer(ConsumerConfig(name="worker"))
    for message in await consumer.fetch(3):
        await message.ack_sync()
    state = (await stream.info()).state
    assert (state.messages, state.first_seq) == (2, 4)


async def test_names_come_from_the_server(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await stream.create_consumer(ConsumerConfig())
    assert consumer.name == (await consumer.info()).name
    assert repr(consumer) == f"<Consumer ORDERS > {consumer.name}>"
    assert consumer.cached_info.stream_name == consumer.stream_name == "ORDERS"
