"""js.pull_subscribe and its fetch, against the real server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConnectionClosed,
    ConsumerConfig,
    ConsumerDeleted,
    ConsumerMismatch,
    ConsumerNotFound,
    Event,
    ExceededLimit,
    NoResponders,
    PullSubscription,
    SubscriptionClosed,
    Timeout,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server, User
from tests.support.cases import for_each
from tests.support.consuming import (
    LONG,
    PULL,
    Lossy,
    fill,
    listeners,
    make_stream,
    pull_requests,
    sequences,
    until,
)
from tests.support.proxy import TCPProxy
from tests.support.timing import impatient
from tests.support.watch import Watch, eventually


@pytest.fixture
async def through(proxy: TCPProxy, watch: Watch) -> AsyncIterator[JetStream]:
    async with connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        yield nc.jetstream()


async def names(js: JetStream) -> list[str]:
    return [name async for name in js.consumer_names("ORDERS")]


async def waiting(js: JetStream, subscription: PullSubscription, count: int) -> None:
    """Wait until the server has so many pull requests of the consumer."""

    async def so_many() -> bool:
        return (await js.consumer_info("ORDERS", subscription.consumer_name)).num_waiting == count

    await until(so_many, f"{count} requests to wait")


# --- fetching


async def test_a_fetch_brings_what_is_there(js: JetStream, tidy: None) -> None:
    await make_stream(js, 10)
    subscription = await js.pull_subscribe("orders.>", "D")
    batch = await subscription.fetch(4)
    assert sequences(batch) == [1, 2, 3, 4]
    batch.ack()
    assert sequences(await subscription.fetch(6)) == [5, 6, 7, 8, 9, 10]


async def test_a_fetch_of_one_brings_one(js: JetStream, tidy: None) -> None:
    await make_stream(js, 3)
    subscription = await js.pull_subscribe("orders.>", "D")
    assert [sequences(await subscription.fetch()) for _ in range(3)] == [[1], [2], [3]]


@pytest.mark.parametrize("batch", [1, 5])
async def test_a_fetch_waits_for_what_is_not_there_yet(js: JetStream, batch: int, tidy: None) -> None:
    stream = await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(batch, timeout=LONG))
    await waiting(js, subscription, 1)
    await fill(js, stream, batch)
    assert sequences(await fetching) == list(range(1, batch + 1))


async def test_what_is_missing_is_waited_for(js: JetStream, tidy: None) -> None:
    stream = await make_stream(js, 3)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    await fill(js, stream, 2)
    assert sequences(await fetching) == [1, 2, 3, 4, 5]


async def test_a_partial_batch_is_returned_when_the_time_is_up(js: JetStream, tidy: None) -> None:
    await make_stream(js, 3)
    subscription = await js.pull_subscribe("orders.>", "D")
    batch = await subscription.fetch(5, timeout=2)
    assert sequences(batch) == [1, 2, 3]
    assert batch.error is None


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("timeout", [0.05, 0.4])
async def test_nothing_at_all_is_a_timeout(js: JetStream, batch: int, timeout: float, tidy: None) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    for _ in range(2):
        with pytest.raises(Timeout, match="no message of ORDERS > D within"):
            await subscription.fetch(batch, timeout=timeout)


async def test_expires_is_another_word_for_timeout(js: JetStream, tidy: None) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    with pytest.raises(Timeout, match=r"within 0\.1 s"):
        await subscription.fetch(2, expires=0.1)
    with pytest.raises(UsageError, match="expires must be more than 0 seconds, not 0"):
        await subscription.fetch(2, expires=0)


async def test_after_a_timeout_no_request_is_left_at_the_server(js: JetStream, tidy: None) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    for batch in (1, 5):
        with pytest.raises(Timeout):
            await subscription.fetch(batch, timeout=0.3)
        await waiting(js, subscription, 0)


# --- what goes over the wire


async def test_the_first_request_does_not_wait_and_the_second_asks_for_what_is_missing(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    await make_stream(js, 3)
    subscription = await through.pull_subscribe("orders.>", "D")
    seen = Lossy(PULL)
    proxy.client_to_server = seen
    await subscription.fetch(5, timeout=3.0)
    first, second = pull_requests(seen)
    assert first == {"batch": 5, "no_wait": True}
    assert second["batch"] == 2
    assert "no_wait" not in second
    assert 0 < second["expires"] <= 2_900_000_000


async def test_a_fetch_that_is_served_at_once_asks_once(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    await make_stream(js, 6)
    subscription = await through.pull_subscribe("orders.>", "D")
    seen = Lossy(PULL)
    proxy.client_to_server = seen
    await subscription.fetch(5)
    await subscription.fetch(1)
    assert pull_requests(seen) == [{"batch": 5, "no_wait": True}, {"batch": 1, "no_wait": True}]


async def test_fetching_one_subscribes_once(through: JetStream, proxy: TCPProxy, js: JetStream) -> None:
    await make_stream(js, 20)
    subscription = await through.pull_subscribe("orders.>", "D")
    await through.connection.flush()
    subs = Lossy(re.compile(rb"((?:UN)?SUB \S+(?: \S+)*)\r\n"))
    proxy.client_to_server = subs
    for _ in range(20):
        await subscription.fetch(1)
    assert subs.payloads == []


async def test_an_inbox_ends_by_itself_when_everything_came(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    """SUB, the request, UNSUB with as many as may come: messages that are missing, and the status before."""
    stream = await make_stream(js, 1)
    subscription = await through.pull_subscribe("orders.>", "D")
    await through.connection.flush()
    subs = Lossy(re.compile(rb"((?:UN)?SUB \S+(?: \S+)*)\r\n"))
    proxy.client_to_server = subs
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    await fill(js, stream, 4)
    await fetching
    await through.connection.flush()
    assert len(subs.payloads) == 2
    sid = subs.payloads[0].split()[-1]
    assert subs.payloads[0].startswith(b"SUB _INBOX.")
    assert subs.payloads[1] == b"UNSUB %b 6" % sid


async def test_an_inbox_is_ended_when_the_fetch_leaves_early(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    await make_stream(js, 1)
    subscription = await through.pull_subscribe("orders.>", "D")
    await through.connection.flush()
    subs = Lossy(re.compile(rb"((?:UN)?SUB \S+(?: \S+)*)\r\n"))
    proxy.client_to_server = subs
    await subscription.fetch(5, timeout=2)
    await eventually(lambda: len(subs.payloads) == 3, "the inbox to end")
    sid = subs.payloads[0].split()[-1]
    assert subs.payloads[1:] == [b"UNSUB %b 6" % sid, b"UNSUB %b" % sid]
    assert listeners(through.connection) == []


# --- errors


@for_each("batch", [0, -1, 1.5, "3", True])
async def test_a_batch_that_cannot_be_is_refused(js: JetStream, batch: Any) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    with pytest.raises(UsageError, match="batch"):
        await subscription.fetch(batch)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), None])
async def test_a_timeout_that_cannot_be_is_refused(js: JetStream, timeout: float) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    with pytest.raises(UsageError, match="timeout"):
        await subscription.fetch(1, timeout)


async def test_more_than_max_batch_is_an_error(js: JetStream, tidy: None) -> None:
    await make_stream(js, 20)
    subscription = await js.pull_subscribe("orders.>", "D", config=ConsumerConfig(max_batch=10))
    with pytest.raises(ExceededLimit, match="MaxRequestBatch"):
        await subscription.fetch(11)
    assert len(await subscription.fetch(10)) == 10


@pytest.mark.parametrize("batch", [1, 5])
async def test_more_than_max_waiting_is_an_error(js: JetStream, batch: int, tidy: None) -> None:
    stream = await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D", config=ConsumerConfig(max_waiting=1))
    first = asyncio.create_task(subscription.fetch(2, timeout=LONG))
    await waiting(js, subscription, 1)
    with pytest.raises(ExceededLimit, match="MaxWaiting"):
        await subscription.fetch(batch, timeout=LONG)
    await fill(js, stream, 2)
    assert sequences(await first) == [1, 2]


async def test_a_consumer_that_is_deleted_during_a_fetch_is_an_error(js: JetStream, tidy: None) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    await js.delete_consumer("ORDERS", "D")
    with pytest.raises(ConsumerDeleted):
        await fetching


@pytest.mark.parametrize("batch", [1, 5])
async def test_a_consumer_that_is_gone_is_an_error(js: JetStream, batch: int, tidy: None) -> None:
    impatient(js)
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    await js.delete_consumer("ORDERS", "D")
    with pytest.raises(ConsumerDeleted, match="consumer D of stream ORDERS was deleted"):
        await subscription.fetch(batch)


async def test_a_closed_connection_is_an_error(server: Server, js: JetStream) -> None:
    await make_stream(js)
    async with connect(server.url) as nc:
        subscription = await nc.jetstream().pull_subscribe("orders.>", "D")
        fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
        await waiting(js, subscription, 1)
    with pytest.raises(ConnectionClosed):
        await fetching
    with pytest.raises(ConnectionClosed):
        await subscription.fetch(5)


# --- one after the other, and at once


async def test_an_orphaned_request_does_not_take_from_a_later_fetch(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    """The 408 of the first fetch, and its UNSUB, are late: the second fetch gets the message all the same."""
    stream = await make_stream(js)
    subscription = await through.pull_subscribe("orders.>", "D", config=ConsumerConfig(ack_wait=3600))
    for _ in range(5):
        with pytest.raises(Timeout):
            await subscription.fetch(3, timeout=0.1)
    later = asyncio.create_task(subscription.fetch(1, timeout=LONG))
    await fill(js, stream, 1)
    assert sequences(await later) == [1]


@pytest.mark.parametrize("batch", [1, 5])
async def test_a_cancelled_fetch_neither_loses_nor_keeps_messages(
    js: JetStream, batch: int, tidy: None
) -> None:
    """Cancelled again and again while messages come: each is handed out by some fetch, once."""
    stream = await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D", config=ConsumerConfig(ack_wait=3600))
    got: list[int] = []
    filling = asyncio.create_task(fill(js, stream, 200))
    for turn in range(100):
        fetching = asyncio.create_task(subscription.fetch(batch, timeout=LONG))
        for _ in range(turn % 7):
            await asyncio.sleep(0.0005)
        fetching.cancel()
        try:
            got += sequences(await fetching)
        except asyncio.CancelledError:
            continue
    await filling
    async with asyncio.timeout(LONG):
        while len(got) < 200:
            got += sequences(await subscription.fetch(min(batch, 200 - len(got)), timeout=LONG))
    assert sorted(got) == list(range(1, 201))


async def test_what_a_cancelled_fetch_had_comes_with_the_next_one(js: JetStream, tidy: None) -> None:
    await make_stream(js, 3)
    subscription = await js.pull_subscribe("orders.>", "D", config=ConsumerConfig(ack_wait=3600))
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert sequences(await subscription.fetch(3, timeout=LONG)) == [1, 2, 3]


async def test_what_a_cancelled_fetch_had_goes_back_when_nobody_fetches_any_more(js: JetStream) -> None:
    await make_stream(js, 3)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="D", ack_wait=3600))
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await subscription.unsubscribe()
    other = await js.pull_subscribe("orders.>", "D")
    assert sorted(sequences(await other.fetch(3, timeout=LONG))) == [1, 2, 3]


@pytest.mark.parametrize("batch", [1, 4])
async def test_fetches_at_once_share_the_messages(js: JetStream, batch: int, tidy: None) -> None:
    stream = await make_stream(js, 20)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetches = [asyncio.create_task(subscription.fetch(batch, timeout=LONG)) for _ in range(40 // batch)]
    await asyncio.sleep(0.05)
    await fill(js, stream, 20)
    batches = await asyncio.gather(*fetches)
    assert sorted(sequence for got in batches for sequence in sequences(got)) == list(range(1, 41))
    assert [len(got) for got in batches] == [batch] * (40 // batch)


async def test_every_subscription_has_a_handler_of_its_own(js: JetStream, nc: Connection) -> None:
    await make_stream(js, 40)
    one = await js.pull_subscribe("orders.>", "ONE")
    two = await js.pull_subscribe("orders.>", "TWO")
    for sequence in range(1, 41):
        got = await asyncio.gather(one.fetch(), two.fetch())
        assert [sequences(batch) for batch in got] == [[sequence], [sequence]]
        assert [batch[0].metadata.consumer for batch in got] == ["ONE", "TWO"]


# --- the consumer


async def test_without_a_name_the_consumer_is_ephemeral(js: JetStream) -> None:
    await make_stream(js, 2)
    async with await js.pull_subscribe("orders.>") as subscription:
        assert sequences(await subscription.fetch(2)) == [1, 2]
        assert (await subscription.consumer_info()).config.durable_name is None
    assert await names(js) == []


@pytest.mark.parametrize("how", ["unsubscribe", "drain"])
async def test_a_consumer_that_it_created_is_deleted_with_it_and_no_other(js: JetStream, how: str) -> None:
    await make_stream(js)
    first = await js.pull_subscribe("orders.>", "D")
    second = await js.pull_subscribe("orders.>", "D")
    await getattr(second, how)()
    assert await names(js) == ["D"]
    await getattr(first, how)()
    assert await names(js) == []
    for subscription in (first, second):
        assert not subscription.active
        with pytest.raises(SubscriptionClosed):
            await subscription.fetch()


async def test_errors_of_deleting_are_raised_by_unsubscribe_and_reported_by_drain(
    server: Server, js: JetStream, watch: Watch
) -> None:
    await make_stream(js)
    async with connect(server.url, **watch.listeners) as nc:
        one = await nc.jetstream().pull_subscribe("orders.>", "ONE")
        two = await nc.jetstream().pull_subscribe("orders.>", "TWO")
        await js.delete_consumer("ORDERS", "ONE")
        await js.delete_consumer("ORDERS", "TWO")
        with pytest.raises(ConsumerNotFound):
            await one.unsubscribe()
        assert watch.count(Event.ERROR) == 0
        await two.drain()
        assert isinstance(await watch.until(Event.ERROR), ConsumerNotFound)


async def test_unsubscribe_ends_a_fetch_that_waits(js: JetStream) -> None:
    await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(5, timeout=LONG))
    await waiting(js, subscription, 1)
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosed):
        await fetching


async def test_drain_waits_for_fetches_and_not_for_whoever_makes_them(js: JetStream) -> None:
    """A worker that fetches for ever learns of the end from its next fetch."""
    await make_stream(js, 30)
    subscription = await js.pull_subscribe("orders.>", "D")
    got: list[int] = []
    ended = asyncio.Event()

    async def work() -> None:
        while True:
            try:
                got.extend(sequences(await subscription.fetch(1, timeout=1)))
            except Timeout:
                continue
            except SubscriptionClosed:
                ended.set()
                await asyncio.Event().wait()

    worker = asyncio.create_task(work())
    await eventually(lambda: len(got) > 3, "the worker to work")
    await asyncio.wait_for(subscription.drain(), LONG)
    await asyncio.wait_for(ended.wait(), LONG)
    worker.cancel()
    assert got == list(range(1, len(got) + 1))
    assert await names(js) == []


async def test_drain_lets_a_fetch_that_waits_finish(js: JetStream) -> None:
    stream = await make_stream(js)
    subscription = await js.pull_subscribe("orders.>", "D")
    fetching = asyncio.create_task(subscription.fetch(2, timeout=LONG))
    await waiting(js, subscription, 1)
    draining = asyncio.create_task(subscription.drain())
    await asyncio.sleep(0)
    await fill(js, stream, 2)
    assert sequences(await fetching) == [1, 2]
    await draining
    assert await names(js) == []


async def test_a_named_consumer_need_not_be_there_yet(js: JetStream) -> None:
    await make_stream(js, 2)
    subscription = await js.pull_subscribe(stream="ORDERS", consumer="LATER")
    with pytest.raises(NoResponders):
        await subscription.fetch(2)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="LATER"))
    assert sequences(await subscription.fetch(2)) == [1, 2]
    await subscription.unsubscribe()
    assert await names(js) == ["LATER"]


async def test_who_may_only_pull_pulls_from_a_named_consumer_without_a_look_at_it() -> None:
    users = [
        User(user="admin", password="a"),
        User(user="worker", password="w", publish_allow=["$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>"]),
    ]
    with Server(users=users) as server:
        async with (
            connect(server.url, user="admin", password="a") as admin,
            connect(server.url, user="worker", password="w") as worker,
        ):
            await make_stream(admin.jetstream(), 5)
            await admin.jetstream().create_consumer("ORDERS", ConsumerConfig(durable_name="D"))
            subscription = await worker.jetstream().pull_subscribe(stream="ORDERS", consumer="D")
            batch = await subscription.fetch(5)
            assert sequences(batch) == [1, 2, 3, 4, 5]
            for message in batch:
                await message.ack()
            await subscription.unsubscribe()

            async def acknowledged() -> bool:
                return (await admin.jetstream().consumer_info("ORDERS", "D")).num_ack_pending == 0

            await until(acknowledged, "all to be acknowledged")


async def test_a_subject_that_the_consumer_does_not_deliver_is_refused(js: JetStream) -> None:
    await make_stream(js)
    await js.pull_subscribe("orders.eu", "D")
    with pytest.raises(ConsumerMismatch):
        await js.pull_subscribe("orders.us", "D")


async def test_who_is_late_to_create_takes_what_is_there(server: Server, js: JetStream) -> None:
    await make_stream(js, 4)
    async with connect(server.url) as one, connect(server.url) as two:
        subscriptions = await asyncio.gather(
            *(nc.jetstream().pull_subscribe("orders.>", "D") for nc in (one, two))
        )
        assert await names(js) == ["D"]
        got = [sequences(await subscription.fetch(2)) for subscription in subscriptions]
        assert sorted(got) == [[1, 2], [3, 4]]
