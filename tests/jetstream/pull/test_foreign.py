"""Messages that the consumer did not send, in the inboxes of pulls: dropped, counted, never acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jetspark import Connection, NotJetStreamMessage, connect
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.subscribe.pull import PullSubscription
from jetspark.wire import PubFrame
from tests.support.consuming import sequences
from tests.support.scripted_jetstream import Pull, ScriptedJetStream
from tests.support.watch import eventually

HOUR = 3600.0
#: Reply subjects that are not those of consumer C of stream S.
FOREIGN = [
    "",
    "orders.cancel",
    "$JS.API.STREAM.DELETE.S",
    "$JS.ACK.S.C",
    "$JS.ACK.S.C.1.1.1.x.0",
    "$JS.ACK.S.OTHER.1.1.1.1.0",
    "$JS.ACK.OTHER.C.1.1.1.1.0",
    "$JS.ACK.hub.hash.OTHER.C.1.1.1.1.0",
]
#: Those of servers that name domain and account, too.
OURS = [
    "$JS.ACK.S.C.1.1.1.1.0",
    "$JS.ACK._.hash.S.C.1.1.1.1.0",
    "$JS.ACK.hub.hash.S.C.1.1.1.1.0.token.another",
]


@pytest.fixture
async def errors() -> list[Exception]:
    return []


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def nc(server: ScriptedJetStream, errors: list[Exception]) -> AsyncIterator[Connection]:
    async with connect(server.url, on_error=errors.append) as connection:
        yield connection


@pytest.fixture
async def consumer(nc: Connection) -> Consumer:
    return await JetStream(nc).get_consumer("S", "C")


@pytest.fixture
async def subscription(nc: Connection) -> PullSubscription:
    return await JetStream(nc).pull_subscribe(stream="S", consumer="C")


def published(pull: Pull, *, but: tuple[bytes, ...] = (b"$JS.API.",)) -> list[bytes]:
    """The subjects that the client published to, without the API."""
    return [frame.subject for frame in pull.peer.all(PubFrame) if not frame.subject.startswith(but)]


# --- fetch


@pytest.mark.parametrize("reply", FOREIGN)
async def test_a_fetch_drops_what_the_consumer_did_not_send(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception], reply: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message(b"forged", ack=reply), pull.message(b"one"), pull.message(b"two"))
    batch = await fetching
    assert [message.data for message in batch] == [b"one", b"two"]
    batch.ack()
    await consumer._api.connection.flush()
    assert published(pull, but=(b"$JS.API.", b"$JS.ACK.S.C.1.")) == []
    assert [type(error) for error in errors] == [NotJetStreamMessage]
    assert "S.C did not send: 1 so far" in str(errors[0])


@pytest.mark.parametrize("reply", OURS)
async def test_every_format_of_acknowledgement_subjects_is_known(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception], reply: str
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message(ack=reply))
    (message,) = await fetching
    message.ack()
    await consumer._api.connection.flush()
    assert published(pull) == [reply.encode()]
    assert not errors


@pytest.mark.parametrize("wanted", [1, 5])
async def test_a_fetch_returns_no_more_than_it_asked_for(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception], wanted: int
) -> None:
    fetching = asyncio.create_task(consumer.fetch(wanted, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(24))
    assert sequences(await fetching) == list(range(1, wanted + 1))
    assert not consumer._leftover.frames
    assert f"not asked for: {24 - wanted} so far" in str(errors[0])


async def test_next_returns_one_and_keeps_none(server: ScriptedJetStream, consumer: Consumer) -> None:
    for sequence in (1, 25):
        waiting = asyncio.create_task(consumer.next(HOUR))
        pull = await server.pull()
        pull.send(pull.messages(24))
        message = await waiting
        assert message is not None
        assert message.metadata.sequence.stream == sequence


async def test_a_fetch_in_bytes_takes_twice_its_bytes_at_most(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(max_bytes=10_000, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.messages(100, b"x" * 1000), pull.status("408 Request Timeout"))
    batch = await fetching
    assert 10 <= len(batch) <= 20
    assert len(errors) == 1


async def test_messages_of_a_request_that_a_reconnect_repeated_are_left_over(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception]
) -> None:
    """The server may answer both: the inbox has interest again."""
    fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
    (await server.pull()).peer.abort()
    again = await server.pull()
    again.send(again.messages(6))
    assert sequences(await fetching) == [1, 2, 3]
    assert sequences(await consumer.fetch(3)) == [4, 5, 6]
    assert not [error for error in errors if isinstance(error, NotJetStreamMessage)]


async def test_messages_of_a_repeated_request_that_come_after_the_end_are_left_over(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
    (await server.pull()).peer.abort()
    again = await server.pull()
    again.send(again.messages(3))
    assert sequences(await fetching) == [1, 2, 3]
    again.send(again.messages(3))
    assert sequences(await consumer.fetch(3)) == [4, 5, 6]


async def test_ack_next_takes_one_message_of_the_same_consumer(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message())
    (first,) = await fetching
    waiting = asyncio.create_task(first.ack_next(HOUR))
    ack = await pull.peer.expect(PubFrame, lambda frame: frame.data.startswith(b"+NXT"))
    forged, second = pull.message(b"forged", ack="orders.cancel"), pull.message(b"second")
    sid = next(sid for sid, sub in pull.peer.subscriptions.items() if sub.subject == ack.reply)
    for frame in (forged, second, pull.message(b"third")):
        pull.send(frame.replace(b" %b " % pull.sid, b" %b " % sid, 1))
    following = await waiting
    assert following is not None
    assert following.data == b"second"


# --- classic fetch


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lingering", [False, True])
async def test_a_classic_fetch_takes_what_it_asked_for_from_the_consumer(
    server: ScriptedJetStream,
    subscription: PullSubscription,
    errors: list[Exception],
    *,
    batch: int,
    lingering: bool,
) -> None:
    fetching = asyncio.create_task(subscription.fetch(batch, HOUR))
    pull = await server.pull()
    if lingering:
        pull.send(pull.status("404 No Messages"))
        pull = await server.pull()
    pull.send(pull.message(b"forged", ack="orders.cancel"), pull.messages(24))
    got = await fetching
    assert len(got) == batch
    assert b"forged" not in [message.data for message in got]
    await subscription._api.connection.flush()
    assert subscription.pending_msgs == 0
    assert {type(error) for error in errors} == {NotJetStreamMessage}


# --- messages


async def test_messages_drops_what_the_consumer_did_not_send_and_reports_few_times(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception]
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        for number in range(300):
            pull.send(*(pull.message(b"forged", ack=FOREIGN[number % len(FOREIGN)]) for _ in range(10)))
        pull.send(pull.message(b"one"))
        message = await messages.next()
        assert message is not None
        assert message.data == b"one"
        assert messages._buffer._foreign.count == 3000
    assert {type(error) for error in errors} == {NotJetStreamMessage}
    assert len(errors) <= 4


async def test_messages_buffers_no_more_than_its_limit(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception]
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(4))
        pull.send(pull.messages(3000))
        await eventually(lambda: messages._buffer._foreign.count == 2994, "the flood")
        assert len(messages._buffer.frames) == 10
        assert [(await anext(messages)).metadata.sequence.stream for _ in range(10)] == list(range(1, 11))
    assert len(errors) <= 4


async def test_messages_in_bytes_buffers_twice_its_bytes_at_most(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    async with consumer.messages(max_bytes=10_000, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(100, b"x" * 1000))
        await eventually(lambda: messages._buffer._foreign.count > 0, "the flood")
        assert 10 <= len(messages._buffer.frames) <= 20


async def test_late_answers_to_requests_that_were_given_up_are_taken(
    server: ScriptedJetStream, consumer: Consumer, errors: list[Exception]
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        late = await server.pull()
        late.send(late.status("409 Leadership Change"))
        pull = await server.pull()
        late.send(late.messages(10), pull.messages(10))
        got = [await anext(messages) for _ in range(20)]
    assert sequences(got) == list(range(1, 21))
    assert not [error for error in errors if isinstance(error, NotJetStreamMessage)]


async def test_a_malformed_status_is_dropped(server: ScriptedJetStream, consumer: Consumer) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await server.pull()
    block = b"NATS/1.0 404\r\nno colon\r\n\r\n"
    pull.send(
        b"HMSG %b %b %d %d\r\n%b\r\n" % (pull.reply.encode(), pull.sid, len(block), len(block), block),
        pull.message(b"one"),
    )
    assert [message.data for message in await fetching] == [b"one"]


# --- ordered, and behind a prefix


@pytest.mark.parametrize("reply", FOREIGN)
async def test_an_ordered_consumer_drops_it_too(
    server: ScriptedJetStream, nc: Connection, reply: str
) -> None:
    async with OrderedConsumer(JetStream(nc).api, "S").messages(expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.message(b"forged", ack=reply, sequence=7, consumer_sequence=7))
        pull.send(pull.message(b"one", sequence=1, consumer_sequence=1))
        assert (await anext(messages)).data == b"one"
    assert nc.connected
    assert len(server.created) == 1


async def test_behind_a_prefix_the_names_may_be_others(server: ScriptedJetStream, nc: Connection) -> None:
    """An import may call the stream and the consumer as it likes; the replies have their own names."""
    pulls: asyncio.Queue[Pull] = asyncio.Queue()
    server.on("hub.CONSUMER.MSG.NEXT.MINE.*", lambda peer, frame: pulls.put_nowait(Pull(server, peer, frame)))
    js = JetStream(nc, api_prefix="hub")
    subscription = await js.pull_subscribe(stream="MINE", consumer="D")
    fetching = asyncio.create_task(subscription.fetch(2, HOUR))
    pull = await pulls.get()
    pull.send(pull.message(b"forged", ack="orders.cancel"), pull.message(ack=OURS[0]), pull.message())
    assert [message.metadata.consumer for message in await fetching] == ["C", "D"]
