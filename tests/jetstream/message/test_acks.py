"""Every way to acknowledge, against a real server."""

from __future__ import annotations

import asyncio
import json

import pytest

from jetspark import (
    Connection,
    NoResponders,
    NotJetStreamMessage,
    Timeout,
    UsageError,
    ack_all,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg, give_back
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.wire import MsgFrame
from tests.support.consuming import ACK, LONG, Lossy, listeners, make_consumer, sequences, until
from tests.support.proxy import TCPProxy
from tests.support.watch import eventually

pytestmark = pytest.mark.usefixtures("tidy")


async def one(consumer: Consumer) -> JetStreamMsg:
    message = await consumer.next(expires=LONG)
    assert message is not None
    return message


async def settled_info(consumer: Consumer, *, ack_pending: int) -> ConsumerInfo:
    async def settled() -> bool:
        return (await consumer.info()).num_ack_pending == ack_pending

    await until(settled, f"{ack_pending} messages without acknowledgement")
    return consumer.cached_info


# --- one message


async def test_ack_is_the_end_of_a_message(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=0.2)
    message = await one(consumer)
    message.ack()
    assert message.settled
    info = await settled_info(consumer, ack_pending=0)
    assert info.ack_floor.stream_seq == 1
    assert await consumer.fetch(1, expires=0.5) == []


async def test_a_message_without_acknowledgement_comes_again(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=0.2)
    first = await one(consumer)
    second = await one(consumer)
    assert (first.metadata.num_delivered, second.metadata.num_delivered) == (1, 2)
    assert second.metadata.sequence.stream == 1
    assert second.metadata.sequence.consumer == 2


async def test_every_acknowledgement_can_be_awaited(js: JetStream) -> None:
    consumer = await make_consumer(js, 4)
    ack, nak, term, progress = await consumer.fetch(4)
    await ack.ack()
    await nak.nak(delay=60)
    await term.term()
    await progress.in_progress()
    await progress.ack()
    await settled_info(consumer, ack_pending=1)


async def test_ack_sync_returns_when_the_server_has_it(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    for message in await consumer.fetch(3):
        await message.ack_sync()
        assert message.settled
        assert (await consumer.info()).ack_floor.stream_seq == message.metadata.sequence.stream
        await message.ack_sync()  # Nothing left to say.


async def test_ack_sync_says_when_the_consumer_is_gone(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    message = await one(consumer)
    await consumer.delete()
    with pytest.raises(NoResponders, match="no consumer"):
        await message.ack_sync()
    assert not message.settled


async def test_ack_sync_says_when_the_server_does_not_confirm(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 1)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        message = await one(consumer)
        proxy.client_to_server = Lossy(ACK, lose=1)
        with pytest.raises(Timeout):
            await message.ack_sync(timeout=0.2)
        assert not message.settled
        await message.ack_sync()
        assert (await consumer.info()).ack_floor.stream_seq == 1


async def test_nak_brings_it_again_at_once(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=60)
    (await one(consumer)).nak()
    async with asyncio.timeout(LONG):
        again = await one(consumer)
    assert again.metadata.num_delivered == 2


async def test_nak_with_a_delay_brings_it_again_after_that(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=60)
    naked = await js.connection.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.ORDERS.worker")
    loop = asyncio.get_running_loop()
    start = loop.time()
    (await one(consumer)).nak(delay=0.5)
    assert json.loads((await naked.next(LONG)).data)["stream_seq"] == 1
    again = await one(consumer)
    # The server's word is that it is not earlier.
    assert loop.time() - start >= 0.5
    assert again.metadata.num_delivered == 2
    await naked.unsubscribe()


async def test_a_delay_cannot_be_negative(js: JetStream) -> None:
    message = await one(await make_consumer(js, 1))
    with pytest.raises(UsageError, match="delay"):
        message.nak(delay=-1)
    assert not message.settled


async def test_in_progress_gives_more_time(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=6)
    message = await one(consumer)
    for _ in range(12):
        await asyncio.sleep(0.75)
        message.in_progress()
        assert not message.settled
    assert await consumer.fetch_no_wait(1) == []
    await message.ack_sync()
    info = await consumer.info()
    assert (info.ack_floor.stream_seq, info.delivered.consumer_seq) == (1, 1)


async def test_term_is_the_end_of_a_message_and_says_why(js: JetStream) -> None:
    consumer = await make_consumer(js, 2, ack_wait=1.5)
    ended = await js.connection.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.worker")
    (await one(consumer)).term("not a number: “x”")
    (await one(consumer)).term()
    first, second = [json.loads((await ended.next(LONG)).data) for _ in range(2)]
    assert (first["stream_seq"], first["reason"]) == (1, "not a number: “x”")
    assert "reason" not in second
    await settled_info(consumer, ack_pending=0)
    assert await consumer.fetch(1, expires=2) == []
    await ended.unsubscribe()


async def test_a_reason_is_one_line(js: JetStream) -> None:
    message = await one(await make_consumer(js, 1))
    with pytest.raises(UsageError, match="reason"):
        message.term("two\r\nlines")
    assert not message.settled


# --- ack and next


async def test_ack_next_acknowledges_and_brings_the_next(js: JetStream) -> None:
    consumer = await make_consumer(js, 3)
    message: JetStreamMsg | None = await one(consumer)
    seen = []
    while message is not None:
        seen.append(message)
        last, message = message, await message.ack_next(expires=2)
        assert last.settled
    assert sequences(seen) == [1, 2, 3]
    assert (await settled_info(consumer, ack_pending=0)).ack_floor.stream_seq == 3


async def test_ack_next_is_one_packet(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 2)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        message = await one(consumer)
        acks = proxy.client_to_server = Lossy(ACK)
        assert (await message.ack_next()) is not None
    (payload,) = acks.payloads
    assert payload.startswith(b"+NXT {")
    assert json.loads(payload.removeprefix(b"+NXT ")) == {
        "batch": 1,
        "expires": pytest.approx(5 * 10**9, rel=0.5),
    }


async def test_ack_next_of_a_settled_message_does_nothing(js: JetStream) -> None:
    consumer = await make_consumer(js, 2)
    message = await one(consumer)
    message.ack()
    assert await message.ack_next() is None


async def test_what_comes_to_a_cancelled_ack_next_is_given_back(js: JetStream, nc: Connection) -> None:
    consumer = await make_consumer(js, 1, ack_wait=60)
    message = await one(consumer)
    waiting = asyncio.create_task(message.ack_next(expires=LONG))
    await eventually(lambda: bool(listeners(nc)), "the pull")
    nc.publish("orders.new", b"2")
    await asyncio.sleep(0)
    waiting.cancel()  # Its message is on its way.
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(LONG):
        assert (await one(consumer)).data == b"2"


# --- once is enough


@pytest.mark.parametrize("first", ["ack", "nak", "term", "ack_sync"])
async def test_after_the_last_word_nothing_is_sent(js: JetStream, proxy: TCPProxy, first: str) -> None:
    await make_consumer(js, 1, max_deliver=1)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        message = await one(consumer)
        await getattr(message, first)()
        await nc.flush()
        acks = proxy.client_to_server = Lossy(ACK)
        before = nc.statistics.out_bytes
        for again in ("ack", "nak", "term", "in_progress", "ack_sync", "ack_next"):
            await getattr(message, again)()
        await ack_all([message])
        await nc.flush()
        assert nc.statistics.out_bytes - before == len(b"PING\r\n")
    assert not acks.payloads


async def test_in_progress_is_not_the_last_word(js: JetStream) -> None:
    consumer = await make_consumer(js, 1)
    message = await one(consumer)
    message.in_progress()
    message.ack()
    assert (await settled_info(consumer, ack_pending=0)).ack_floor.stream_seq == 1


async def test_a_consumer_without_acknowledgements_hears_none(js: JetStream, proxy: TCPProxy) -> None:
    acks = proxy.client_to_server = Lossy(ACK)
    await make_consumer(js, 2, ack_policy="none")
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        batch = await consumer.fetch(2)
        for message in batch:
            assert message.settled
            for word in ("ack", "nak", "term", "in_progress", "ack_sync", "ack_next"):
                await getattr(message, word)()
        await batch.ack()
        await nc.flush()
    assert not acks.payloads


# --- many messages


async def test_a_batch_is_acknowledged_with_one_write(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 100)
    async with connect(proxy.url) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        batch = await consumer.fetch(100)
        chunks: list[int] = []

        def count(data: bytes) -> bytes:
            chunks.append(data.count(b"+ACK\r\n"))
            return data

        proxy.client_to_server = count
        batch[0].ack()
        await nc.flush()
        await batch.ack()
        await nc.flush()
        proxy.client_to_server = None
        assert [acks for acks in chunks if acks] == [1, 99]
        assert all(message.settled for message in batch)
        assert (await settled_info(consumer, ack_pending=0)).ack_floor.stream_seq == 100


async def test_messages_of_several_fetches_can_be_acknowledged_together(js: JetStream) -> None:
    consumer = await make_consumer(js, 10)
    messages = [*await consumer.fetch(4), *await consumer.fetch(6)]
    await ack_all(message for message in messages)
    await settled_info(consumer, ack_pending=0)


async def test_an_empty_batch_can_be_acknowledged_too(js: JetStream) -> None:
    consumer = await make_consumer(js)
    batch = await consumer.fetch(5, expires=0.05)
    await batch.ack()
    batch.ack()
    await ack_all([])


async def test_ack_all_acknowledges_everything_before(js: JetStream) -> None:
    consumer = await make_consumer(js, 10, ack_policy="all", ack_wait=0.5)
    batch = await consumer.fetch(10)
    batch[6].ack()
    info = await settled_info(consumer, ack_pending=3)
    assert info.ack_floor.stream_seq == 7
    assert sequences(await consumer.fetch(3, expires=LONG)) == [8, 9, 10]


# --- redelivery


async def test_a_message_is_delivered_no_more_often_than_allowed(js: JetStream) -> None:
    consumer = await make_consumer(js, 2, ack_wait=60, max_deliver=3)
    deliveries = []
    for _ in range(3):
        for message in await consumer.fetch(2, expires=LONG):
            deliveries.append((message.data, message.metadata.num_delivered))
            message.nak()
    assert sorted(deliveries) == [(data, n) for data in (b"1", b"2") for n in (1, 2, 3)]
    assert await consumer.fetch(2, expires=0.3) == []


async def test_backoff_says_when_it_comes_again(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, backoff=[0.1, 0.3, 60], max_deliver=4)
    loop = asyncio.get_running_loop()
    asked, came = [], []
    for delivery in (1, 2, 3):
        asked.append(loop.time())
        message = await one(consumer)
        came.append(loop.time())
        assert message.metadata.num_delivered == delivery
    # Not from when it came: we may see that late.
    assert came[1] - asked[0] >= 0.1 - 0.05
    assert came[2] - asked[1] >= 0.3 - 0.05
    assert await consumer.fetch(1, expires=0.5) == []


async def test_acknowledgements_are_kept_while_the_connection_is_down(js: JetStream, proxy: TCPProxy) -> None:
    await make_consumer(js, 10, ack_wait=60)
    async with connect(proxy.url, reconnect_wait=0.01) as nc:
        consumer = await nc.jetstream().get_consumer("ORDERS", "worker")
        batch = await consumer.fetch(10)
        proxy.refuse()
        proxy.cut()
        await eventually(lambda: not nc.connected, "the connection to break")
        batch.ack()
        proxy.accept()
        assert (await settled_info(consumer, ack_pending=0)).ack_floor.stream_seq == 10


@pytest.mark.parametrize("reply", [b"", b"orders.cancel", b"$JS.ACKS.S.C.1.1.1.1.0"])
async def test_nothing_but_acknowledgement_subjects_is_published_to(nc: Connection, reply: bytes) -> None:
    """Whoever knows an inbox can send a message with any reply: an acknowledgement would go there."""
    published = await nc.subscribe(">")
    forged = MsgFrame(b"1", b"orders.new", reply, b"", b"forged")
    for word in ("ack", "nak", "term", "in_progress"):
        with pytest.raises(NotJetStreamMessage):
            getattr(JetStreamMsg(forged, nc, False), word)()
    for word in ("ack_sync", "ack_next"):
        with pytest.raises(NotJetStreamMessage):
            await getattr(JetStreamMsg(forged, nc, False), word)()
    for body in (b"", b"data"):
        with pytest.raises(NotJetStreamMessage):
            JetStreamMsg(forged, nc, False).respond(body, headers={"a": "b"})
    with pytest.raises(NotJetStreamMessage):
        ack_all([JetStreamMsg(forged, nc, False)])
    give_back(nc, "explicit", [forged])
    await nc.flush()
    assert published.pending_msgs == 0
    await published.unsubscribe()


async def test_what_no_consumer_delivered_cannot_be_acknowledged(js: JetStream, nc: Connection) -> None:
    subscription = await nc.subscribe("orders.new")
    await make_consumer(js, 1)
    plain = await subscription.next(LONG)
    message = JetStreamMsg(plain._frame, nc, False)
    for word in ("ack", "nak", "term", "in_progress"):
        with pytest.raises(NotJetStreamMessage):
            getattr(message, word)()
    for word in ("ack_sync", "ack_next"):
        with pytest.raises(NotJetStreamMessage):
            await getattr(message, word)()
    with pytest.raises(NotJetStreamMessage):
        _ = message.metadata
    with pytest.raises(NotJetStreamMessage):
        ack_all([message])
    await nc.flush()
    await subscription.unsubscribe()


async def test_an_empty_answer_acknowledges(js: JetStream) -> None:
    consumer = await make_consumer(js, 1, ack_wait=60)
    (message,) = await consumer.fetch(1)
    await message.respond()
    await settled_info(consumer, ack_pending=0)
