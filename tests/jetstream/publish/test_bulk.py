"""Publishing in bulk: all is acknowledged and counted, what is under way is bounded, one error tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial

import pytest

import jetspark
from jetspark import ConnectionClosed, MaxPayloadError, PublishError, StreamFull, Timeout, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.server import Server
from jetspark.wire import PubFrame
from jetspark.wire.headers import encode_headers
from tests.support.proxy import TCPProxy
from tests.support.publishing import ScriptedStream, came, lose_acknowledgements, make_stream, stored
from tests.support.watch import eventually

LONG = 20.0  # seconds; only a hang takes so long
MEGABYTE = 1024 * 1024


@pytest.fixture(autouse=True)
async def limit() -> AsyncIterator[None]:
    async with asyncio.timeout(3 * LONG):
        yield


def bulk(
    js: JetStream, max_pending: int = 100, *, max_bytes: int = MEGABYTE, timeout: float = LONG
) -> BulkPublisher:
    return BulkPublisher(js.api, max_pending, max_bytes=max_bytes, timeout=timeout)


async def send_all(publisher: BulkPublisher, messages: list[Outgoing]) -> None:
    await publisher.send(messages)
    await publisher.finish()


def outgoing(number: int, *, subject: str = "orders.new", data: bytes | None = None) -> Outgoing:
    msg_id = f"id-{number}"
    block = encode_headers({"Nats-Msg-Id": msg_id})
    return Outgoing(subject, msg_id, block, b"%d" % number if data is None else data)


def many(numbers: Iterable[int], *, size: int | None = None) -> list[Outgoing]:
    return [outgoing(number, data=None if size is None else bytes(size)) for number in numbers]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


# --- what is stored


@pytest.mark.parametrize("max_pending", [1, 7, 5000])
async def test_everything_is_stored_in_order_and_counted(js: JetStream, max_pending: int) -> None:
    stream = await make_stream(js)
    publisher = bulk(js, max_pending)
    await publisher.send(many(range(1, 401)))
    await publisher.send([])
    await publisher.send(many(range(401, 1001)))
    await publisher.finish()
    assert (publisher.acked, publisher.duplicates) == (1000, 0)
    assert await stored(stream) == numbers(1000)


async def test_headers_go_out_as_they_are(js: JetStream) -> None:
    stream = await make_stream(js)
    publisher = bulk(js)
    block = encode_headers({"Nats-Msg-Id": "a", "k": ["v", "w"]})
    await send_all(publisher, [Outgoing("orders.new", "a", block, b"x")])
    message = await stream.get_message(1)
    assert dict(message.headers.multi_items()) == {"Nats-Msg-Id": ["a"], "k": ["v", "w"]}


async def test_what_comes_again_under_its_id_is_counted_and_not_stored(js: JetStream) -> None:
    stream = await make_stream(js)
    for first, duplicates in ((1, 0), (51, 50), (1, 100)):
        publisher = bulk(js)
        await send_all(publisher, many(range(first, first + 100)))
        assert (publisher.acked, publisher.duplicates) == (100, duplicates)
    assert await stored(stream) == numbers(150)


async def test_nothing_to_publish_is_finished_at_once(js: JetStream) -> None:
    publisher = bulk(js)
    await publisher.send([])
    await publisher.finish()
    assert (publisher.acked, publisher.duplicates) == (0, 0)


# --- what is under way


async def test_no_more_messages_are_under_way_than_the_window_has(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    publisher = bulk(js, 10)
    sending = asyncio.create_task(publisher.send(many(range(1, 41))))
    while len(stream.received) < 40:
        await came(stream, min(len(stream.received) + 10, 40))
        assert not sending.done() or len(stream.received) == 40
        stream.acknowledge()
    await sending
    await publisher.finish()
    assert stream.most_unanswered == 10
    assert publisher.acked == 40


async def test_no_more_bytes_are_under_way_than_allowed(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    publisher = bulk(js, 1000, max_bytes=10_000)
    sending = asyncio.create_task(publisher.send(many(range(300), size=900)))
    while not sending.done():
        await eventually(lambda: bool(stream.unanswered) or sending.done(), "messages under way")
        stream.acknowledge(1)
    await sending
    stream.on_message = lambda _: stream.acknowledge()
    stream.acknowledge()
    await publisher.finish()
    assert publisher.acked == 300
    assert 5 < stream.most_unanswered <= 10


async def test_room_for_bytes_that_is_free_is_used_again_before_all_is_sent(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    publisher = bulk(js, 1000, max_bytes=10_000)
    # All of them are one piece, and larger than what may be under way.
    sending = asyncio.create_task(publisher.send(many(range(40), size=900)))
    for answered in (10, 20, 30, 40):
        await came(stream, answered)  # Not one by one, each when the last is answered.
        stream.acknowledge()
    await sending
    await publisher.finish()
    assert publisher.acked == 40


async def test_a_message_larger_than_all_that_is_allowed_goes_alone(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    publisher = bulk(js, 1000, max_bytes=1000)
    sending = asyncio.create_task(publisher.send(many(range(1, 6), size=5000)))
    for number in range(1, 6):
        await came(stream, number)
        stream.acknowledge()
    await sending
    await publisher.finish()
    assert stream.most_unanswered == 1
    assert publisher.acked == 5


# --- what fails


async def test_the_first_that_the_stream_refuses_is_told_by_its_number(js: JetStream) -> None:
    stream = await make_stream(js, max_msgs=25, discard="new")
    publisher = bulk(js)
    with pytest.raises(PublishError, match="maximum messages") as caught:
        await send_all(publisher, many(range(1, 51)))
    assert caught.value.first == 26
    assert isinstance(caught.value.__cause__, StreamFull)
    assert await stored(stream) == numbers(25)
    publisher.abandon()


async def test_a_failure_is_told_while_sending(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    publisher = bulk(js, 10)

    def answer(_: object) -> None:
        if len(stream.received) == 3:
            stream.refuse(err_code=10054, text="too large")
        else:
            stream.acknowledge()

    stream.on_message = answer
    with pytest.raises(PublishError, match="too large") as caught:
        await publisher.send(many(range(1, 1001)))
    publisher.abandon()
    assert caught.value.first == 3
    assert len(stream.received) < 1000


async def test_a_subject_without_a_stream_is_told(js: JetStream) -> None:
    await make_stream(js)
    publisher = bulk(js)
    with pytest.raises(PublishError, match=r"other\.a") as caught:
        await send_all(publisher, [outgoing(1), outgoing(2), outgoing(3, subject="other.a")])
    assert (caught.value.failed, caught.value.first) == (1, 3)


async def test_a_message_that_is_too_large_is_refused_and_the_connection_stays(js: JetStream) -> None:
    stream = await make_stream(js)
    publisher = bulk(js)
    with pytest.raises(MaxPayloadError):
        await publisher.send([outgoing(1), outgoing(2, data=bytes(js.connection.max_payload + 1))])
    publisher.abandon()
    await js.publish("orders.new", b"after")
    assert (await stored(stream))[-1] == b"after"


async def test_an_invalid_subject_is_refused(js: JetStream) -> None:
    publisher = bulk(js)
    with pytest.raises(UsageError, match="not valid"):
        await publisher.send([outgoing(1, subject="a b")])
    publisher.abandon()


async def test_when_nothing_is_acknowledged_it_is_given_up(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    _, js = scripted
    publisher = bulk(js, 10, timeout=0.3)
    with pytest.raises((Timeout, PublishError), match="acknowledge"):
        await publisher.send(many(range(1000)))
    publisher.abandon()
    publisher = bulk(js, 10, timeout=0.3)
    with pytest.raises(PublishError, match="no acknowledgement") as caught:
        await send_all(publisher, many(range(5)))
    assert caught.value.first == 1


async def test_after_abandoning_nothing_is_left_and_nothing_taken(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    before = len(js.connection.session.receivers)
    publisher = bulk(js, 10)
    await publisher.send(many(range(5)))
    await came(stream, 5)
    publisher.abandon()
    publisher.abandon()
    stream.acknowledge()  # too late
    assert len(js.connection.session.receivers) == before
    with pytest.raises(ConnectionClosed):
        await publisher.send(many(range(20)))
    assert publisher.acked == 0


async def test_a_closed_connection_is_told(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    publisher = bulk(js, 10)
    await publisher.send(many(range(5)))
    await came(stream, 5)
    finishing = asyncio.create_task(publisher.finish())
    await js.connection.close()
    with pytest.raises((ConnectionClosed, PublishError), match="closed"):
        await finishing


# --- what passes


async def test_messages_that_are_being_stored_already_are_published_again(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted

    def answer(_: PubFrame) -> None:
        if len(stream.received) <= 4:
            stream.refuse(err_code=10158, code=409, text="duplicate message id is in process")
        else:
            stream.acknowledge()

    stream.on_message = answer
    publisher = bulk(js)
    await send_all(publisher, many(range(1, 4)))
    assert stream.data == [b"1", b"2", b"3", b"1", b"1", b"2", b"3"]
    assert publisher.acked == 3


async def test_lost_acknowledgements_and_cut_connections_lose_and_double_nothing(
    server: Server, proxy: TCPProxy
) -> None:
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc)
        stream = await make_stream(js)
        seen = 0

        def lost(_: bytes) -> bool:
            nonlocal seen
            seen += 1
            if seen in (50, 300, 700):
                proxy.cut()
            return seen % 100 == 50

        dropped = lose_acknowledgements(proxy, lost)
        publisher = bulk(js, 64)
        await send_all(publisher, many(range(1, 1001)))
        assert dropped
        assert publisher.acked == 1000
        assert publisher.duplicates >= 1
    async with await jetspark.connect(server.url) as nc:
        stream = await JetStream(nc).get_stream("ORDERS")
        assert await stored(stream) == numbers(1000)


async def test_a_killed_server_loses_and_doubles_nothing(server: Server) -> None:
    async with await jetspark.connect(server.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, storage="file")
        publisher = bulk(js, 64)
        sending = asyncio.create_task(publisher.send(many(range(1, 20_001))))
        for count in (2000, 6000):
            await eventually(
                partial(lambda count: publisher.acked > count, count), f"{count} to be acknowledged"
            )
            assert not sending.done()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await sending
        await publisher.finish()
        assert publisher.acked == 20_000
        assert (await stream.info()).state.messages == 20_000
        found = {(await stream.get_message(number)).data for number in range(1, 20_001, 97)}
        assert found <= set(numbers(20_000))
