"""Consumers that do not answer: deleted while no pull was open, without a leader, or not reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    ExceededLimit,
    NoResponders,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.jetstream.subscribe.pull import PullSubscription
from jetspark.jetstream.timing import Timing
from jetspark.wire import PubFrame, UnsubFrame
from tests.support.scripted_jetstream import ScriptedJetStream, soon
from tests.support.timing import impatient, set_timing
from tests.support.watch import eventually

HOUR = 3600.0
INFO = b"$JS.API.CONSUMER.INFO."


@pytest.fixture
async def errors() -> asyncio.Queue[Exception]:
    return asyncio.Queue()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def nc(server: ScriptedJetStream, errors: asyncio.Queue[Exception]) -> AsyncIterator[Connection]:
    async with connect(server.url, on_error=errors.put_nowait, reconnect_wait=0.01) as connection:
        yield connection


@pytest.fixture
async def context(nc: Connection) -> JetStream:
    return JetStream(nc)


@pytest.fixture
async def consumer(context: JetStream) -> Consumer:
    return await context.get_consumer("S", "C")


@pytest.fixture
async def subscription(context: JetStream) -> PullSubscription:
    return await context.pull_subscribe(stream="S", consumer="C")


@pytest.fixture
def quick(context: JetStream) -> None:
    """Short waits between pulls and between questions."""
    impatient(context)
    set_timing(context, pull_back_off=0.01, election_back_off_limit=0.01)


async def refuse_for_ever(server: ScriptedJetStream) -> None:
    while True:
        pull = await server.pull()
        pull.send(pull.status("503"))


def questions(server: ScriptedJetStream) -> int:
    """How often the consumer was looked up."""
    return sum(frame.subject.startswith(INFO) for peer in server.peers for frame in peer.all(PubFrame))


# --- a consumer that was deleted while no pull was open


async def read(consumer: Consumer) -> None:
    async with consumer.messages(expires=HOUR) as messages:
        async for _ in messages:
            pass


async def consume(consumer: Consumer) -> None:
    async with await consumer.consume(lambda message: None, expires=HOUR) as running:
        await running.wait_closed()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", [read, consume])
async def test_a_reader_ends_when_the_consumer_is_gone(
    server: ScriptedJetStream, consumer: Consumer, how: Callable[[Consumer], Awaitable[None]]
) -> None:
    server.missing = True
    refusing = asyncio.create_task(refuse_for_ever(server))
    async with asyncio.timeout(20):
        with pytest.raises(ConsumerDeleted, match="consumer C of stream S was deleted") as caught:
            await how(consumer)
    assert isinstance(caught.value.__cause__, ConsumerNotFound)
    refusing.cancel()


@pytest.mark.usefixtures("quick")
async def test_one_refusal_after_a_reconnect_is_enough_to_look(
    server: ScriptedJetStream, context: JetStream, consumer: Consumer
) -> None:
    set_timing(context, pull_back_off=HOUR, election_back_off_limit=HOUR)
    async with consumer.messages(expires=HOUR) as messages:
        (await server.pull()).peer.abort()
        server.missing = True
        pull = await server.pull()
        pull.send(pull.status("503"))
        async with asyncio.timeout(20):
            with pytest.raises(ConsumerDeleted):
                await messages.next()


@pytest.mark.usefixtures("quick")
async def test_missed_heartbeats_are_reason_enough_to_look(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    async with consumer.messages(expires=1, idle_heartbeat=0.5) as messages:
        server.missing = True
        async with asyncio.timeout(20):
            with pytest.raises(ConsumerDeleted):
                await messages.next()


@pytest.mark.usefixtures("quick")
async def test_a_reader_goes_on_when_the_consumer_has_only_lost_its_leader(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    before = questions(server)
    async with consumer.messages(expires=HOUR) as messages:
        while questions(server) < before + 3:
            pull = await server.pull()
            pull.send(pull.status("503"))
        pull = await server.pull()
        pull.send(pull.message(b"one"))
        assert (await anext(messages)).data == b"one"


@pytest.mark.usefixtures("quick")
async def test_a_server_that_restores_its_consumers_is_given_time(
    server: ScriptedJetStream, context: JetStream, consumer: Consumer
) -> None:
    set_timing(context, consumer_missing=HOUR)
    server.missing = True
    before = questions(server)
    async with consumer.messages(expires=HOUR) as messages:
        while questions(server) < before + 3:
            pull = await server.pull()
            pull.send(pull.status("503"))
        server.missing = False
        pull = await server.pull()
        pull.send(pull.message(b"one"))
        assert (await anext(messages)).data == b"one"


@pytest.mark.usefixtures("quick")
async def test_a_consumer_that_was_missing_long_ago_is_given_time_again(
    server: ScriptedJetStream, context: JetStream, consumer: Consumer
) -> None:
    set_timing(context, consumer_memory=0.01)
    server.missing = True
    looked = consumer._presence
    assert await looked.refusal() is None
    await asyncio.sleep(0.2)
    assert await looked.refusal() is None


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["fetch", "next", "no wait", "classic", "classic batch"])
@pytest.mark.parametrize("gone", [True, False])
async def test_a_fetch_says_whether_the_consumer_is_gone(
    server: ScriptedJetStream, consumer: Consumer, subscription: PullSubscription, *, how: str, gone: bool
) -> None:
    server.missing = gone
    fetches: dict[str, Callable[[], Awaitable[object]]] = {
        "fetch": lambda: consumer.fetch(5, expires=20),
        "next": lambda: consumer.next(20),
        "no wait": lambda: consumer.fetch_no_wait(5),
        "classic": lambda: subscription.fetch(1, 20),
        "classic batch": lambda: subscription.fetch(5, 20),
    }
    refusing = asyncio.create_task(refuse_for_ever(server))
    with pytest.raises(ConsumerDeleted if gone else NoResponders):
        await fetches[how]()
    refusing.cancel()


@pytest.mark.usefixtures("quick")
async def test_short_fetches_find_out_together(server: ScriptedJetStream, consumer: Consumer) -> None:
    server.missing = True
    refusing = asyncio.create_task(refuse_for_ever(server))

    async def fetch_for_ever() -> None:
        while True:
            with suppress(NoResponders):
                await consumer.fetch(1, expires=0.01)

    async with asyncio.timeout(20):
        with pytest.raises(ConsumerDeleted):
            await fetch_for_ever()
    refusing.cancel()


@pytest.mark.usefixtures("quick")
async def test_a_consumer_that_was_only_named_may_not_be_there_yet(
    server: ScriptedJetStream, context: JetStream
) -> None:
    server.missing = True
    subscription = await context.pull_subscribe(stream="S", consumer="LATER")
    fetching = asyncio.create_task(subscription.fetch(1, 20))
    pull = await server.pull()
    pull.send(pull.status("503"))
    with pytest.raises(NoResponders):
        await fetching
    fetching = asyncio.create_task(subscription.fetch(1, 20))
    pull = await server.pull()
    pull.send(pull.message())
    assert len(await fetching) == 1
    fetching = asyncio.create_task(subscription.fetch(1, 20))
    pull = await server.pull()
    pull.send(pull.status("503"))
    with pytest.raises(ConsumerDeleted):
        await fetching


# --- signs of life


@pytest.fixture
def never_again(context: JetStream) -> None:
    """Whoever backs off now does not come back within the test."""
    set_timing(context, pull_back_off=HOUR, election_back_off_limit=HOUR)


@pytest.mark.usefixtures("never_again")
@pytest.mark.parametrize("sign", ["message", "heartbeat"])
async def test_a_consumer_that_is_heard_again_is_asked_at_once(
    server: ScriptedJetStream, consumer: Consumer, errors: asyncio.Queue[Exception], sign: str
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        first = await server.pull()
        first.send(first.messages(5))
        for _ in range(5):
            await anext(messages)
        refused = await server.pull()
        refused.send(refused.status("503"))
        assert isinstance(await soon(errors), NoResponders)
        first.send(first.message() if sign == "message" else first.status("100 Idle Heartbeat"))
        assert (await server.pull()).batch == 5


@pytest.mark.usefixtures("never_again")
@pytest.mark.parametrize("line", ["503", "409 Exceeded MaxWaiting"])
async def test_a_reconnect_ends_the_wait(
    server: ScriptedJetStream, consumer: Consumer, errors: asyncio.Queue[Exception], line: str
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR):
        refused = await server.pull()
        refused.send(refused.status(line))
        await soon(errors)
        refused.peer.abort()
        assert (await server.pull()).batch == 10


async def test_a_consumer_without_a_leader_is_asked_every_second(
    server: ScriptedJetStream, context: JetStream, consumer: Consumer
) -> None:
    assert Timing().election_back_off_limit == 1.0
    set_timing(context, pull_back_off=0.01, election_back_off_limit=0.02)
    async with consumer.messages(expires=HOUR) as messages:
        for wait in (0.01, 0.02, 0.02):
            pull = await server.pull()
            assert messages._buffer._pacing._elections._wait == wait
            pull.send(pull.status("503"))
        await server.pull()


# --- requests that get lost in an election

LOST = 0.1


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedJetStream]:
    """A server that is one of several: they elect leaders, and requests may get lost."""
    async with ScriptedJetStream(info={"cluster": "three"}) as running:
        yield running


@pytest.fixture
async def js(cluster: ScriptedJetStream) -> AsyncIterator[JetStream]:
    async with connect(cluster.url) as nc:
        js = JetStream(nc)
        set_timing(js, request_lost=LOST)
        yield js


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_fetch_asks_again_when_its_request_is_lost(
    cluster: ScriptedJetStream, js: JetStream, lost: int
) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR))
    for _ in range(lost):
        assert (await cluster.pull()).request["idle_heartbeat"] == LOST / 2 * 1e9
    again = await cluster.pull()
    assert again.batch == 2
    again.send(again.messages(2))
    assert len(await fetching) == 2


async def test_a_fetch_asks_again_only_for_what_is_missing(cluster: ScriptedJetStream, js: JetStream) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR))
    pull = await cluster.pull()
    pull.send(pull.message(b"one"))
    again = await cluster.pull()
    assert again.batch == 1
    # The first one was only late.
    pull.send(pull.message(b"two"), again.message(b"three"))
    assert [message.data for message in await fetching] == [b"one", b"two"]
    assert [message.data for message in await consumer.fetch(1)] == [b"three"]


@pytest.mark.parametrize(("expires", "heartbeat"), [(30.0, None), (31.0, 15.5), (120.0, 30.0)])
async def test_a_fetch_that_may_take_long_asks_for_heartbeats(
    server: ScriptedJetStream, consumer: Consumer, expires: float, heartbeat: float | None
) -> None:
    fetching = asyncio.create_task(consumer.fetch(1, expires=expires))
    request = (await server.pull()).request
    fetching.cancel()
    await asyncio.wait([fetching])
    found = request.get("idle_heartbeat")
    assert found == (None if heartbeat is None else pytest.approx(heartbeat * 1e9, rel=0.01))


async def test_heartbeats_keep_a_fetch_waiting(cluster: ScriptedJetStream, js: JetStream) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await cluster.pull()
    for _ in range(20):
        pull.send(pull.status("100 Idle Heartbeat"))
        await asyncio.sleep(LOST / 20)
    assert cluster.idle
    pull.send(pull.message())
    assert len(await fetching) == 1


async def test_a_heartbeat_that_is_only_late_costs_no_second_request(
    cluster: ScriptedJetStream, js: JetStream
) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await cluster.pull()
    answer = cluster._info

    def late(peer: Any, frame: PubFrame) -> None:
        pull.send(pull.status("100 Idle Heartbeat"))
        answer(peer, frame)

    cluster._handlers.insert(0, ("$JS.API.CONSUMER.INFO.S.*", late))
    before = questions(cluster)
    await eventually(lambda: questions(cluster) >= before + 2, "two questions")
    assert cluster.idle
    pull.send(pull.message())
    assert len(await fetching) == 1


async def test_too_many_requests_are_an_error_though_the_server_does_not_say_so(
    cluster: ScriptedJetStream, js: JetStream
) -> None:
    """It does not answer a request with a heartbeat when `max_waiting` is reached."""
    cluster.config |= {"max_waiting": 7}
    cluster.num_waiting = 7
    consumer = await js.get_consumer("S", "C")
    with pytest.raises(ExceededLimit, match="max_waiting"):
        await consumer.fetch(1, expires=HOUR)


async def test_the_heartbeat_of_the_caller_is_an_error_when_missed(
    cluster: ScriptedJetStream, js: JetStream
) -> None:
    consumer = await js.get_consumer("S", "C")
    with pytest.raises(Error, match=r"silent for 0\.02 s"):
        await consumer.fetch(1, expires=HOUR, idle_heartbeat=0.01)


async def test_a_fetch_that_does_not_wait_asks_again(cluster: ScriptedJetStream, js: JetStream) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch_no_wait(5))
    await cluster.pull()
    again = await cluster.pull()
    assert again.request == {"batch": 5, "no_wait": True}
    again.send(again.message(), again.status("404 No Messages"))
    assert len(await fetching) == 1


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lingering", [False, True])
async def test_a_classic_fetch_asks_again(
    cluster: ScriptedJetStream, js: JetStream, *, batch: int, lingering: bool
) -> None:
    subscription = await js.pull_subscribe(stream="S", consumer="C")
    fetching = asyncio.create_task(subscription.fetch(batch, HOUR))
    lost = await cluster.pull()
    if lingering:
        lost.send(lost.status("404 No Messages"))
        lost = await cluster.pull()
        # The server would count the heartbeats.
        assert not [frame for frame in lost.peer.all(UnsubFrame) if frame.max_msgs]
    again = await cluster.pull()
    assert again.request.keys() == lost.request.keys()
    again.send(again.messages(batch))
    assert len(await fetching) == batch
    await subscription.unsubscribe()
    await eventually(lambda: again.sid not in again.peer.subscriptions, "UNSUB")


async def test_ack_next_asks_again(cluster: ScriptedJetStream, js: JetStream) -> None:
    consumer = await js.get_consumer("S", "C")
    fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
    pull = await cluster.pull()
    pull.send(pull.message())
    (first,) = await fetching
    waiting: asyncio.Task[JetStreamMsg | None] = asyncio.create_task(first.ack_next(HOUR))
    for _ in range(2):
        ack = await pull.peer.expect(PubFrame, lambda frame: frame.data.startswith(b"+NXT"))
    sid = next(sid for sid, sub in pull.peer.subscriptions.items() if sub.subject == ack.reply)
    pull.send(pull.message(b"second").replace(b" %b " % pull.sid, b" %b " % sid, 1))
    following = await waiting
    assert following is not None
    assert following.data == b"second"
