"""The fetch of pull subscriptions and a server that answers what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jetspark import (
    BadRequest,
    Connection,
    ConsumerDeleted,
    Error,
    Event,
    ExceededLimit,
    LeadershipChanged,
    NoResponders,
    PullSubscription,
    ServerShutdown,
    StatusError,
    SubscriptionClosed,
    Timeout,
    connect,
)
from jetspark.wire import MsgFrame, SubFrame, UnsubFrame
from tests.support.consuming import sequences
from tests.support.scripted_jetstream import ScriptedJetStream
from tests.support.untyped import untyped
from tests.support.watch import Watch, eventually

LONG = 30.0


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def nc(server: ScriptedJetStream, watch: Watch) -> AsyncIterator[Connection]:
    async with connect(server.url, reconnect_wait=0.01, **watch.listeners) as connected:
        yield connected


@pytest.fixture
async def subscription(nc: Connection) -> PullSubscription:
    return await nc.jetstream().pull_subscribe(stream="S", consumer="C")


def fetch(subscription: PullSubscription, batch: int, timeout: float = LONG) -> asyncio.Task[list[int]]:
    async def numbers() -> list[int]:
        return sequences(await subscription.fetch(batch, timeout))

    return asyncio.create_task(numbers())


@pytest.mark.parametrize("line", ["404 No Messages", "408 Requests Pending"])
async def test_the_protocol_of_a_batch(
    server: ScriptedJetStream, subscription: PullSubscription, line: str
) -> None:
    """As the document has it: SUB, no_wait, 404, UNSUB with batch + 1, the lingering request."""
    fetching = fetch(subscription, 5)
    first = await server.pull()
    assert first.request == {"batch": 5, "no_wait": True}
    first.send(first.status(line))
    second = await server.pull()
    assert second.request.keys() == {"batch", "expires"}
    assert second.batch == 5
    assert second.reply == first.reply
    assert second.request["expires"] < LONG * 1e9
    peer = server.peers[0]
    assert (peer.all(UnsubFrame)[-1].sid, peer.all(UnsubFrame)[-1].max_msgs) == (second.sid, 6)
    second.send(second.messages(5))
    assert await fetching == [1, 2, 3, 4, 5]


async def test_the_protocol_of_one_message(server: ScriptedJetStream, subscription: PullSubscription) -> None:
    """A wildcard inbox for what is there now, then a request with an inbox of its own."""
    fetching = fetch(subscription, 1)
    first = await server.pull()
    peer = server.peers[0]
    assert first.request == {"batch": 1, "no_wait": True}
    assert peer.subscriptions[first.sid].subject.decode() == first.reply.rpartition(".")[0] + ".*"
    first.send(first.status("404 No Messages"))
    second = await server.pull()
    assert second.request.keys() == {"batch", "expires"}
    assert second.sid != first.sid
    assert (peer.all(UnsubFrame)[-1].sid, peer.all(UnsubFrame)[-1].max_msgs) == (second.sid, 1)
    second.send(second.message())
    assert await fetching == [1]
    again = fetch(subscription, 1)
    third = await server.pull()
    assert third.sid == first.sid
    assert third.reply != first.reply
    third.send(third.message())
    assert await again == [2]


async def test_what_came_at_once_is_not_asked_for_again(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    fetching = fetch(subscription, 5)
    first = await server.pull()
    first.send(first.messages(3), first.status("404 No Messages"))
    second = await server.pull()
    assert second.batch == 2
    assert server.peers[0].all(UnsubFrame)[-1].max_msgs == 6
    second.send(second.messages(1), second.status("408 Request Timeout", messages=1))
    assert await fetching == [1, 2, 3, 4]
    await eventually(lambda: second.sid not in server.peers[0].subscriptions, "the inbox to end")


STATUSES = [
    pytest.param("400 Bad Request - Invalid", BadRequest, id="400"),
    pytest.param("409 Consumer Deleted", ConsumerDeleted, id="deleted"),
    pytest.param("409 Exceeded MaxWaiting", ExceededLimit, id="waiting"),
    pytest.param("409 Exceeded MaxRequestBatch of 10", ExceededLimit, id="batch"),
    pytest.param("409 Leadership Change", LeadershipChanged, id="leader"),
    pytest.param("409 Server Shutdown", ServerShutdown, id="shutdown"),
    pytest.param("503", NoResponders, id="503"),
    pytest.param("777 Whatever", StatusError, id="unknown"),
]


@pytest.mark.parametrize(("line", "error"), STATUSES)
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lingering", [False, True])
async def test_other_statuses_are_raised_when_nothing_came(
    server: ScriptedJetStream,
    subscription: PullSubscription,
    *,
    line: str,
    error: type[Error],
    batch: int,
    lingering: bool,
) -> None:
    fetching = fetch(subscription, batch)
    pull = await server.pull()
    if lingering:
        pull.send(pull.status("404 No Messages"))
        pull = await server.pull()
    pull.send(pull.status(line))
    with pytest.raises(error):
        await fetching


@pytest.mark.parametrize(("line", "error"), STATUSES)
async def test_other_statuses_come_with_what_came_before(
    server: ScriptedJetStream, subscription: PullSubscription, line: str, error: type[Error]
) -> None:
    fetching = asyncio.create_task(subscription.fetch(5, LONG))
    first = await server.pull()
    first.send(first.messages(2), first.status("404 No Messages"))
    second = await server.pull()
    second.send(second.messages(1), second.status(line))
    batch = await fetching
    assert sequences(batch) == [1, 2, 3]
    if error not in (LeadershipChanged, ServerShutdown):
        assert isinstance(batch.error, error)


@pytest.mark.parametrize("batch", [1, 5])
async def test_heartbeats_and_expiry_never_reach_the_user(
    server: ScriptedJetStream, subscription: PullSubscription, batch: int
) -> None:
    fetching = fetch(subscription, batch)
    first = await server.pull()
    first.send(first.status("100 Idle Heartbeat"), first.status("404 No Messages"))
    second = await server.pull()
    second.send(second.status("100 Idle Heartbeat"), second.status("408 Request Timeout", messages=batch))
    with pytest.raises(Timeout):
        await fetching


@pytest.mark.parametrize("batch", [1, 5])
async def test_a_server_that_never_answers_is_a_timeout(
    server: ScriptedJetStream, subscription: PullSubscription, batch: int
) -> None:
    fetching = fetch(subscription, batch, 0.1)
    await server.pull()
    with pytest.raises(Timeout):
        await fetching


async def test_the_late_answer_to_one_fetch_comes_with_the_next(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    """The request of the first one is orphaned: its message arrives when nobody waits for it."""
    fetching = fetch(subscription, 1, 0.1)
    orphan = await server.pull()
    with pytest.raises(Timeout):
        await fetching
    orphan.send(orphan.message())
    await eventually(lambda: subscription.pending_msgs == 1, "the late message")
    assert await subscription.fetch(1) != []
    assert server.idle


async def test_a_late_message_during_the_next_fetch_is_its_answer_and_nothing_is_lost(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    fetching = fetch(subscription, 1, 0.1)
    orphan = await server.pull()
    with pytest.raises(Timeout):
        await fetching
    later = fetch(subscription, 1)
    pull = await server.pull()
    orphan.send(orphan.message())
    assert await later == [1]
    pull.send(pull.message())
    assert sequences(await subscription.fetch(1)) == [2]


async def test_late_statuses_do_not_end_a_later_fetch(
    server: ScriptedJetStream, subscription: PullSubscription, nc: Connection
) -> None:
    fetching = fetch(subscription, 1, 0.1)
    orphan = await server.pull()
    with pytest.raises(Timeout):
        await fetching
    later = fetch(subscription, 1)
    pull = await server.pull()
    orphan.send(orphan.status("409 Exceeded MaxWaiting"), orphan.status("404 No Messages"))
    await nc.flush()  # They arrive in a read of their own.
    pull.send(pull.message())
    assert await later == [1]


async def test_a_batch_that_is_late_comes_with_the_next_fetch(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    server.hold_pongs()
    fetching = fetch(subscription, 5, 1.5)
    first = await server.pull()
    first.send(first.status("404 No Messages"))
    second = await server.pull()
    with pytest.raises(Timeout):
        await fetching
    second.send(second.messages(2))
    await eventually(lambda: subscription.pending_msgs == 2, "the late messages")
    await server.release_pongs()
    assert sequences(await subscription.fetch(2)) == [1, 2]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lingering", [False, True])
async def test_after_a_reconnect_what_is_missing_is_asked_for_again(
    server: ScriptedJetStream, subscription: PullSubscription, watch: Watch, batch: int, lingering: bool
) -> None:
    fetching = fetch(subscription, batch)
    pull = await server.pull()
    got = 0
    if batch > 1:
        pull.send(pull.message())
        got = 1
    if lingering:
        pull.send(pull.status("404 No Messages"))
        pull = await server.pull()
    await asyncio.sleep(0.01)
    pull.peer.abort()
    await watch.until(Event.RECONNECTED)
    again = await server.pull()
    assert again.batch == batch - got
    assert "expires" in again.request
    limits = [(frame.sid, frame.max_msgs) for frame in again.peer.all(UnsubFrame)]
    assert limits[-1] == (again.sid, batch - got)
    again.send(again.messages(batch - got))
    assert await fetching == list(range(1, batch + 1))


async def test_no_inbox_is_left_when_all_is_done(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    for batch in (1, 5):
        fetching = fetch(subscription, batch)
        pull = await server.pull()
        pull.send(pull.messages(batch))
        await fetching
    await subscription.unsubscribe()
    peer = server.peers[0]
    await eventually(
        lambda: not [sub for sub in peer.subscriptions.values() if _is_pull_inbox(sub)], "all inboxes to end"
    )


async def test_a_fetch_that_waits_its_turn_ends_with_the_subscription(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    """The inbox is gone by then: a message that it asked for would be delivered to nobody."""
    fetching = [fetch(subscription, 1), fetch(subscription, 1)]
    await server.pull()
    await subscription.unsubscribe()
    for each in fetching:
        with pytest.raises(SubscriptionClosed):
            await each
    assert server.idle


async def test_a_message_that_arrived_before_the_end_is_returned(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    fetching = fetch(subscription, 1)
    pull = await server.pull()
    one = subscription._one
    delivered = one.deliver

    def deliver_and_end(frames: list[MsgFrame]) -> None:
        delivered(frames)
        one.end(SubscriptionClosed("ended before the fetch continues"))

    untyped(one).deliver = deliver_and_end
    pull.send(pull.message())
    assert await fetching == [1]


@pytest.mark.parametrize("batch", [1, 5])
async def test_a_drain_lets_a_fetch_ask_a_second_time(
    server: ScriptedJetStream, subscription: PullSubscription, batch: int
) -> None:
    fetching = fetch(subscription, batch)
    first = await server.pull()
    draining = asyncio.create_task(subscription.drain())
    await eventually(lambda: not subscription.active, "the drain to begin")
    with pytest.raises(SubscriptionClosed):
        await subscription.fetch(1)
    first.send(first.status("404 No Messages"))
    second = await server.pull()
    second.send(second.messages(batch))
    assert await fetching == list(range(1, batch + 1))
    await draining


async def test_what_a_fetch_finds_left_over_goes_back_when_the_subscription_ends_first(
    server: ScriptedJetStream, subscription: PullSubscription
) -> None:
    server.hold_pongs()
    cancelled = fetch(subscription, 5)
    pull = await server.pull()
    pull.send(pull.messages(2))
    await eventually(lambda: any(len(each.frames) == 2 for each in subscription._running), "two messages")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    fetching = fetch(subscription, 5)
    ending = asyncio.create_task(subscription.unsubscribe())
    await eventually(lambda: not subscription.active, "the end to begin")
    await server.release_pongs()
    with pytest.raises(SubscriptionClosed):
        await fetching
    await ending
    assert await server.naks(2) == [1, 2]


def _is_pull_inbox(sub: SubFrame) -> bool:
    return sub.subject.startswith(b"_INBOX.") and sub.sid != b"1"  # The first is that of requests.
