"""js.subscribe: finding the stream, finding, checking and creating the consumer. Against the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConsumerConfig,
    ConsumerIsPull,
    ConsumerIsPush,
    ConsumerMismatch,
    ConsumerNotFound,
    DuplicateSubscription,
    NoMatchingStream,
    PushSubscription,
    StreamNotFound,
    UsageError,
    connect,
)
from jetspark.core.subscription import Subscription
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.support import cut_at_answer, memory
from tests.support.consuming import LONG, fill, make_stream, sequences
from tests.support.proxy import TCPProxy
from tests.support.untyped import untyped
from tests.support.watch import eventually


async def read(subscription: PushSubscription, count: int) -> list[int]:
    """Acknowledge so many messages; their sequences."""
    messages = [await subscription.next(LONG) for _ in range(count)]
    for message in messages:
        message.ack()
    return sequences(messages)


async def names(js: JetStream, stream: str = "ORDERS") -> list[str]:
    return [name async for name in js.consumer_names(stream)]


def listening(nc: Connection) -> list[Subscription]:
    return [receiver for receiver in nc.session.receivers if isinstance(receiver, Subscription)]


@pytest.fixture
async def other(server: Server) -> AsyncIterator[JetStream]:
    """Another program."""
    async with connect(server.url) as nc:
        yield nc.jetstream()


# --- the stream


async def test_the_stream_is_found_by_its_subject(js: JetStream) -> None:
    await make_stream(js, 3)
    await js.create_stream(memory("OTHER", "other.>"))
    subscription = await js.subscribe("orders.new")
    assert subscription.stream_name == "ORDERS"
    assert await read(subscription, 3) == [1, 2, 3]


async def test_no_stream_with_the_subject_is_an_error(js: JetStream, nc: Connection) -> None:
    with pytest.raises(NoMatchingStream, match="no stream stores 'nothing'") as caught:
        await js.subscribe("nothing")
    assert caught.value.streams == ()
    with pytest.raises(NoMatchingStream):
        await js.pull_subscribe("nothing", "D")
    assert listening(nc) == []


async def test_several_streams_with_the_subject_are_an_error_that_lists_them(js: JetStream) -> None:
    await js.create_stream(memory("B", "many.b"))
    await js.create_stream(memory("A", "many.a"))
    with pytest.raises(NoMatchingStream, match="A, B") as caught:
        await js.subscribe("many.*")
    assert caught.value.streams == ("A", "B")
    assert "stream=" in str(caught.value)


async def test_neither_subject_nor_stream_is_an_error_and_nothing_is_sent(
    js: JetStream, nc: Connection
) -> None:
    sent = nc.statistics.out_msgs
    with pytest.raises(UsageError, match="neither subject nor stream"):
        await js.subscribe(durable="D")
    assert nc.statistics.out_msgs == sent


async def test_with_a_stream_no_subject_is_needed(js: JetStream) -> None:
    await make_stream(js, 2)
    subscription = await js.subscribe(stream="ORDERS")
    assert await read(subscription, 2) == [1, 2]
    assert (await subscription.consumer_info()).config.filter_subject is None


async def test_a_stream_that_is_not_there_is_an_error(js: JetStream, nc: Connection) -> None:
    with pytest.raises(StreamNotFound):
        await js.subscribe("orders.new", stream="NOWHERE")
    assert listening(nc) == []


@pytest.mark.parametrize("way", ["push", "ordered", "pull"])
async def test_a_consumer_whose_creation_was_not_answered_is_found_after_the_reconnect(
    js: JetStream, proxy: TCPProxy, way: str
) -> None:
    stream = await make_stream(js)
    async with connect(proxy.url, reconnect_wait=0.01) as nc:
        cut_at_answer(proxy, b"consumer_create_response")
        if way == "pull":
            pulling = await nc.jetstream().pull_subscribe("orders.>")
            await fill(js, stream, 3)
            found = sequences(await pulling.fetch(3, timeout=LONG))
        else:
            pushed = await nc.jetstream().subscribe("orders.>", ordered=way == "ordered")
            await fill(js, stream, 3)
            found = sequences([await pushed.next(LONG) for _ in range(3)])
        assert found == [1, 2, 3]
        assert proxy.accepted == 2
        assert len(await names(js)) == 1


# --- refused outright


@pytest.mark.parametrize("options", [{"idle_heartbeat": 1.0}, {"flow_control": True}])
async def test_a_queue_with_heartbeats_or_flow_control_is_refused(
    js: JetStream, options: dict[str, Any]
) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="excludes queue"):
        await js.subscribe("orders.>", "workers", **options)
    assert await names(js) == []


@pytest.mark.parametrize("policy", ["none", "all"])
async def test_pull_with_ack_none_or_all_is_refused(js: JetStream, policy: str) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="ack_policy"):
        await js.pull_subscribe("orders.>", config=ConsumerConfig(ack_policy=policy))
    assert await names(js) == []


async def test_pull_on_a_push_consumer_is_refused(js: JetStream) -> None:
    await make_stream(js)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="D", deliver_subject="somewhere"))
    with pytest.raises(ConsumerIsPush, match="pushes to 'somewhere'"):
        await js.pull_subscribe("orders.>", "D")
    with pytest.raises(ConsumerIsPush):
        await js.pull_subscribe(stream="ORDERS", consumer="D")


async def test_push_on_a_pull_consumer_is_refused(js: JetStream, nc: Connection) -> None:
    await make_stream(js)
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="D"))
    with pytest.raises(ConsumerIsPull, match="only be pulled"):
        await js.subscribe("orders.>", durable="D")
    assert listening(nc) == []


# --- the consumer


async def test_a_consumer_that_is_named_must_exist(js: JetStream, nc: Connection) -> None:
    await make_stream(js)
    with pytest.raises(ConsumerNotFound):
        await js.subscribe("orders.>", consumer="C")
    assert await names(js) == []
    assert listening(nc) == []


async def test_a_consumer_that_exists_is_used_as_it_is(js: JetStream) -> None:
    await make_stream(js, 3)
    config = ConsumerConfig(
        durable_name="C",
        deliver_subject="to.here",
        opt_start_seq=2,
        deliver_policy="by_start_sequence",
    )
    await js.create_consumer("ORDERS", config)
    subscription = await js.subscribe(stream="ORDERS", consumer="C")
    assert (subscription.subject, subscription.consumer_name) == ("to.here", "C")
    assert await read(subscription, 2) == [2, 3]


async def test_a_second_subscription_to_a_durable_is_a_duplicate(js: JetStream, other: JetStream) -> None:
    await make_stream(js)
    first = await js.subscribe("orders.>", durable="D")
    for subscribe in (js, other):
        with pytest.raises(DuplicateSubscription, match="already"):
            await subscribe.subscribe("orders.>", durable="D")
    with pytest.raises(DuplicateSubscription):
        await other.subscribe("orders.>", consumer="D")
    await first.drain()


async def test_a_durable_whose_subscriber_left_is_taken_over_where_it_was(
    server: Server, js: JetStream
) -> None:
    stream = await make_stream(js, 4)
    async with connect(server.url) as nc:
        subscription = await nc.jetstream().subscribe("orders.>", durable="D")
        assert await read(subscription, 4) == [1, 2, 3, 4]
        await nc.flush()

    async def free() -> bool:
        return not (await js.consumer_info("ORDERS", "D")).push_bound

    async with asyncio.timeout(LONG):
        while not await free():
            await asyncio.sleep(0.01)
    again = await js.subscribe("orders.>", durable="D")
    await fill(js, stream, 2)
    assert await read(again, 2) == [5, 6]


@pytest.mark.parametrize(
    ("queue", "group", "message"),
    [
        ("", "them", "not a queue subscription"),
        ("us", "them", "is for the queue group 'them', not 'us'"),
        ("us", None, "has no deliver group"),
    ],
)
async def test_the_three_mismatches_of_the_deliver_group_are_refused(
    js: JetStream, nc: Connection, queue: str, group: str | None, message: str
) -> None:
    await make_stream(js)
    await js.create_consumer(
        "ORDERS", ConsumerConfig(durable_name="D", deliver_subject="to.here", deliver_group=group)
    )
    with pytest.raises(ConsumerMismatch, match=message):
        await js.subscribe("orders.>", queue, durable="D")
    assert listening(nc) == []


@pytest.mark.parametrize("config", [{"idle_heartbeat": 1.0}, {"idle_heartbeat": 1.0, "flow_control": True}])
async def test_a_queue_on_a_consumer_with_heartbeats_or_flow_control_is_refused(
    js: JetStream, config: dict[str, Any]
) -> None:
    await make_stream(js)
    await js.create_consumer(
        "ORDERS", ConsumerConfig(durable_name="D", deliver_subject="to.here", deliver_group="q", **config)
    )
    with pytest.raises(ConsumerMismatch, match="does not work with a queue"):
        await js.subscribe("orders.>", "q", durable="D")


async def test_another_subject_than_the_consumer_filters_is_refused(js: JetStream) -> None:
    await make_stream(js)
    await js.subscribe("orders.eu", "q", durable="D")
    with pytest.raises(ConsumerMismatch, match=r"delivers orders\.eu, not orders\.us"):
        await js.subscribe("orders.us", "q", durable="D")
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="P", filter_subject="orders.eu"))
    with pytest.raises(ConsumerMismatch, match=r"delivers orders\.eu, not orders\.us"):
        await js.pull_subscribe("orders.us", "P")


async def test_configuration_drift_is_refused_and_names_each_field(js: JetStream) -> None:
    await make_stream(js)
    first = ConsumerConfig(ack_wait=10, max_deliver=3, description="first")
    await js.subscribe("orders.>", "q", durable="D", config=first)
    await js.subscribe("orders.>", "q", durable="D", config=first)
    await js.subscribe("orders.>", "q", durable="D")
    with pytest.raises(ConsumerMismatch) as caught:
        await js.subscribe("orders.>", "q", durable="D", config=first.replace(ack_wait=20, max_deliver=4))
    assert caught.value.differences == {"ack_wait": (20.0, 10.0), "max_deliver": (4, 3)}
    assert (await js.consumer_info("ORDERS", "D")).config.ack_wait == 10.0


async def test_what_is_said_is_drift_also_where_it_is_the_default(js: JetStream) -> None:
    await js.create_stream(memory("A", "a.>"))
    config = ConsumerConfig(durable_name="D", ack_policy="none", deliver_subject="d")
    await js.create_consumer("A", config)
    with pytest.raises(ConsumerMismatch) as caught:
        await js.subscribe("a.>", durable="D", config=ConsumerConfig(ack_policy="explicit"))
    assert caught.value.differences == {"ack_policy": ("explicit", "none")}
    await (await js.subscribe("a.>", durable="D", config=ConsumerConfig())).unsubscribe()


async def test_configuration_drift_of_a_pull_consumer_is_refused(js: JetStream) -> None:
    await make_stream(js)
    await js.pull_subscribe("orders.>", "P", config=ConsumerConfig(max_waiting=10))
    await js.pull_subscribe("orders.>", "P")
    with pytest.raises(ConsumerMismatch) as caught:
        await js.pull_subscribe("orders.>", "P", config=ConsumerConfig(max_waiting=20))
    assert caught.value.differences == {"max_waiting": (20, 10)}


# --- creating


async def test_what_is_created_is_what_the_rules_say(js: JetStream) -> None:
    await make_stream(js)
    subscription = await js.subscribe("orders.eu", durable="D")
    config = (await subscription.consumer_info()).config
    assert (config.durable_name, config.filter_subject) == ("D", "orders.eu")
    assert (config.ack_policy, config.deliver_group) == ("explicit", None)
    assert config.deliver_subject == subscription.subject
    assert subscription.subject.startswith("_INBOX.")


async def test_options_become_the_configuration(js: JetStream) -> None:
    await make_stream(js, 3)
    subscription = await js.subscribe(
        "orders.>",
        idle_heartbeat=2.0,
        flow_control=True,
        deliver_policy="last",
        headers_only=True,
        inactive_threshold=60.0,
        config=ConsumerConfig(description="mine", ack_policy="all"),
    )
    config = (await subscription.consumer_info()).config
    assert (config.idle_heartbeat, config.flow_control, config.deliver_policy) == (2.0, True, "last")
    assert (config.headers_only, config.inactive_threshold) == (True, 60.0)
    assert (config.description, config.ack_policy) == ("mine", "all")
    assert await read(subscription, 1) == [3]


async def test_a_deliver_subject_of_the_user_is_kept(js: JetStream) -> None:
    await make_stream(js, 1)
    subscription = await js.subscribe("orders.>", config=ConsumerConfig(deliver_subject="to.here"))
    assert subscription.subject == "to.here"
    assert await read(subscription, 1) == [1]


async def test_a_queue_without_durable_is_one_consumer_for_all_its_members(
    js: JetStream, other: JetStream
) -> None:
    stream = await make_stream(js)
    got: list[list[int]] = [[], []]
    members = [
        await js.subscribe("orders.>", "workers", callback=lambda m: got[0].extend(sequences([m]))),
        await other.subscribe("orders.>", "workers", callback=lambda m: got[1].extend(sequences([m]))),
    ]
    assert await names(js) == ["workers"]
    config = (await members[0].consumer_info()).config
    assert (config.durable_name, config.deliver_group) == ("workers", "workers")
    await fill(js, stream, 100)
    await eventually(lambda: len(got[0]) + len(got[1]) >= 100, "all to arrive")
    assert sorted(got[0] + got[1]) == list(range(1, 101))
    assert got[0]
    assert got[1]


async def test_members_that_start_at_once_agree_on_one_consumer(server: Server, js: JetStream) -> None:
    """All of them find nothing, one creates it, the others take what it created."""
    stream = await make_stream(js)
    got: list[int] = []
    connections = [await connect(server.url) for _ in range(4)]
    try:
        members = await asyncio.gather(
            *(
                nc.jetstream().subscribe("orders.>", "workers", callback=lambda m: got.extend(sequences([m])))
                for nc in connections
            )
        )
        assert await names(js) == ["workers"]
        assert len({member.subject for member in members}) == 1
        await fill(js, stream, 200)
        await eventually(lambda: len(got) >= 200, "all to arrive")
        assert sorted(got) == list(range(1, 201))
    finally:
        for nc in connections:
            await nc.close()


async def test_of_two_that_create_a_durable_at_once_one_is_a_duplicate(server: Server, js: JetStream) -> None:
    await make_stream(js)
    async with connect(server.url) as one, connect(server.url) as two:
        results = await asyncio.gather(
            *(nc.jetstream().subscribe("orders.>", durable="D") for nc in (one, two)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, DuplicateSubscription)]
        assert len(refused) == 1
        assert len(listening(one)) + len(listening(two)) == 1


async def test_an_ephemeral_consumer_gets_its_name_from_the_answer(js: JetStream) -> None:
    await make_stream(js)
    one, two = await js.subscribe("orders.>"), await js.subscribe("orders.>")
    assert one.consumer_name != two.consumer_name
    assert sorted(await names(js)) == sorted([one.consumer_name, two.consumer_name])
    assert (await one.consumer_info()).config.durable_name is None


async def test_a_subscribe_that_is_cancelled_leaves_nothing(js: JetStream, nc: Connection) -> None:
    await make_stream(js)
    task = asyncio.create_task(js.subscribe("orders.>", stream="ORDERS"))
    while not listening(nc):  # It has subscribed, and waits for the answer to its request.
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert listening(nc) == []

    async with asyncio.timeout(LONG):
        await asyncio.sleep(0)
        while await names(js):
            await asyncio.sleep(0.01)


async def test_options_that_cannot_be_are_refused(js: JetStream) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="callback"):
        await js.subscribe("orders.>", callback=untyped("f"))
    with pytest.raises(UsageError, match="on_error"):
        await js.subscribe("orders.>", on_error=untyped("f"))
    for limit in untyped(({"pending_msgs_limit": 0}, {"pending_bytes_limit": -1}, {"alarm_after": 0.0})):
        with pytest.raises(UsageError, match=next(iter(limit))):
            await js.subscribe("orders.>", **limit)
    assert await names(js) == []
