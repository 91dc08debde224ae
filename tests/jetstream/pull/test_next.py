"""next against a real server."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import ConsumerConfig, ConsumerDeleted, ConsumerIsPush, UsageError
from jetspark.jetstream.context import JetStream
from tests.support.consuming import LONG, fill, make_consumer, make_stream, until
from tests.support.timing import impatient

pytestmark = pytest.mark.usefixtures("tidy")


async def test_it_gives_one_message_after_the_other(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    for expected in (b"1", b"2", b"3"):
        message = await consumer.next(expires=LONG)
        assert message is not None
        assert message.data == expected


async def test_it_gives_none_when_nothing_comes(js: JetStream) -> None:
    consumer = await make_consumer(js)
    assert await consumer.next(expires=0.1) is None


async def test_it_waits_for_a_message(js: JetStream) -> None:
    consumer = await make_consumer(js)
    waiting = asyncio.create_task(consumer.next(expires=LONG))

    async def asked() -> bool:
        return (await consumer.info()).num_waiting == 1

    await until(asked, "the request to wait")
    await js.publish("orders.new", b"here")
    message = await waiting
    assert message is not None
    assert message.data == b"here"


async def test_it_asks_only_when_it_is_called(js: JetStream) -> None:
    consumer = await make_consumer(js, 2)
    assert (await consumer.info()).delivered.consumer_seq == 0
    await consumer.next()
    info = await consumer.info()
    assert (info.delivered.consumer_seq, info.num_waiting) == (1, 0)


async def test_a_message_is_not_lost_to_a_timeout_around_it(js: JetStream) -> None:
    stream = await make_stream(js)
    consumer = await js.create_consumer("ORDERS", ConsumerConfig(name="worker", ack_policy="none"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.next(expires=LONG), 0.05)
    await fill(js, stream, 1)
    message = await consumer.next(expires=LONG)
    assert message is not None
    assert message.metadata.num_delivered == 1


async def test_what_fails_is_raised(js: JetStream) -> None:
    impatient(js)
    consumer = await make_consumer(js)
    with pytest.raises(UsageError, match="expires"):
        await consumer.next(expires=0)
    await consumer.delete()
    with pytest.raises(ConsumerDeleted):
        await consumer.next(expires=LONG)
    pushing = await js.create_consumer(
        "ORDERS", ConsumerConfig(name="pushing", deliver_subject="deliver.here")
    )
    with pytest.raises(ConsumerIsPush):
        await pushing.next()
