"""A push subscription at work, against the real server: reading, acknowledging, heartbeats, flow control."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jetspark import (
    ConsumerConfig,
    Event,
    JetStreamMsg,
    MessageGap,
    MissedHeartbeat,
    SlowConsumer,
    SubscriptionClosed,
    Timeout,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.support.consuming import LONG, Lossy, fill, freeze, make_stream, sequences, until
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch, eventually

DELIVERY = re.compile(rb"MSG orders\.new \d+ (\$JS\.ACK\S+) \d+\r\n\d+\r\n")
FLOW_CONTROL = re.compile(rb"HMSG \S+ \d+ (\$JS\.FC\S+) \d+ \d+\r\n[^\r]+\r\n\r\n\r\n")
ANSWER = re.compile(rb"PUB (\$JS\.FC\S+) 0\r\n\r\n")
HEARTBEAT = re.compile(rb"HMSG \S+ \d+ \d+ \d+\r\n(NATS/1\.0 100 Idle Heartbeat)\r\n(?:[^\r]+\r\n)*\r\n\r\n")


@pytest.fixture
async def through(proxy: TCPProxy, watch: Watch) -> AsyncIterator[JetStream]:
    """JetStream through the proxy, watched."""
    async with connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        yield nc.jetstream()


async def acknowledged(js: JetStream, name: str, floor: int) -> None:
    async def all_of_them() -> bool:
        info = await js.consumer_info("ORDERS", name)
        return info.ack_floor.stream_seq == floor and info.num_ack_pending == 0

    await until(all_of_them, f"acknowledgements up to {floor}")


# --- reading


async def test_messages_are_read_one_by_one_and_iterated(js: JetStream) -> None:
    await make_stream(js, 5)
    subscription = await js.subscribe("orders.>")
    first = await subscription.next(LONG)
    assert isinstance(first, JetStreamMsg)
    assert (first.data, first.metadata.sequence.stream) == (b"1", 1)
    assert first.metadata.consumer == subscription.consumer_name
    got = []
    async for message in subscription:
        got.append(message.metadata.sequence.stream)
        if message.metadata.num_pending == 0:
            break
    assert got == [2, 3, 4, 5]


async def test_nothing_in_time_is_a_timeout(js: JetStream) -> None:
    await make_stream(js)
    subscription = await js.subscribe("orders.>")
    with pytest.raises(Timeout, match="no message of ORDERS"):
        await subscription.next(0.01)


async def test_with_a_callback_messages_cannot_be_read_otherwise(js: JetStream) -> None:
    await make_stream(js, 3)
    got: list[int] = []

    async def handle(message: JetStreamMsg) -> None:
        await asyncio.sleep(0)
        got.extend(sequences([message]))

    subscription = await js.subscribe("orders.>", callback=handle)
    await eventually(lambda: got == [1, 2, 3], "all to arrive")
    with pytest.raises(UsageError, match="callback"):
        await subscription.next()
    with pytest.raises(UsageError, match="callback"):
        aiter(subscription)


async def test_what_is_read_after_the_end_is_closed(js: JetStream) -> None:
    await make_stream(js)
    subscription = await js.subscribe("orders.>")
    await subscription.unsubscribe()
    with pytest.raises(SubscriptionClosed):
        await subscription.next(LONG)
    assert [message async for message in subscription] == []


# --- acknowledging


async def test_a_callback_that_returned_has_acknowledged(js: JetStream) -> None:
    await make_stream(js, 5)
    await js.subscribe("orders.>", callback=lambda message: None, durable="D")
    await acknowledged(js, "D", 5)


async def test_with_manual_ack_it_has_not(js: JetStream) -> None:
    await make_stream(js, 5)
    got: list[JetStreamMsg] = []
    await js.subscribe("orders.>", callback=got.append, durable="D", manual_ack=True)
    await eventually(lambda: len(got) == 5, "all to arrive")
    assert (await js.consumer_info("ORDERS", "D")).num_ack_pending == 5
    for message in got:
        message.ack()
    await acknowledged(js, "D", 5)


async def test_without_a_callback_nothing_is_acknowledged_by_itself(js: JetStream) -> None:
    await make_stream(js, 2)
    subscription = await js.subscribe("orders.>", durable="D")
    messages = [await subscription.next(LONG) for _ in range(2)]
    assert (await js.consumer_info("ORDERS", "D")).num_ack_pending == 2
    messages[0].ack()
    await messages[1].ack_sync()
    await acknowledged(js, "D", 2)


async def test_a_callback_that_raised_is_reported_and_its_message_comes_again(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        await make_stream(js, 2)
        got: list[tuple[int, int]] = []

        def handle(message: JetStreamMsg) -> None:
            metadata = message.metadata
            got.append((metadata.sequence.stream, metadata.num_delivered))
            if got[-1] == (1, 1):
                raise RuntimeError("not this time")

        await js.subscribe("orders.>", callback=handle, durable="D", config=ConsumerConfig(ack_wait=6))
        error = await watch.until(Event.ERROR)
        assert isinstance(error, RuntimeError)
        await eventually(lambda: (1, 2) in got, "it to come again")
        await acknowledged(js, "D", 2)
    assert got == [(1, 1), (2, 1), (1, 2)]


async def test_a_callback_that_awaits_something_cancelled_is_reported_and_the_next_one_runs(
    server: Server, watch: Watch
) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        await make_stream(js, 2)
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        got: list[int] = []

        async def handle(message: JetStreamMsg) -> None:
            got.append(message.metadata.sequence.stream)
            if got == [1]:
                await cancelled

        await js.subscribe("orders.>", callback=handle, durable="D")
        error = await watch.until(Event.ERROR)
        assert isinstance(error.__cause__, asyncio.CancelledError)
        await eventually(lambda: got == [1, 2], "the next message")


async def test_a_message_that_the_callback_acknowledged_is_not_acknowledged_again(js: JetStream) -> None:
    await make_stream(js, 2)
    got: list[tuple[int, int]] = []

    def handle(message: JetStreamMsg) -> None:
        got.append((message.metadata.sequence.stream, message.metadata.num_delivered))
        if got[-1][1] == 1:
            message.nak()

    await js.subscribe("orders.>", callback=handle, durable="D")
    await acknowledged(js, "D", 2)
    assert sorted(got) == [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize("kind", ["ack", "nak", "term"])
async def test_after_a_terminal_acknowledgement_all_others_are_ignored(
    through: JetStream, proxy: TCPProxy, kind: str
) -> None:
    seen = Lossy(re.compile(rb"PUB \$JS\.ACK\S+ \d+\r\n([^\r\n]*)\r\n"))
    proxy.client_to_server = seen
    await make_stream(through, 1)
    subscription = await through.subscribe("orders.>", config=ConsumerConfig(max_deliver=1))
    message = await subscription.next(LONG)
    message.in_progress()
    getattr(message, kind)()
    for ignored in (message.ack, message.nak, message.term, message.in_progress):
        ignored()
    await message.ack_sync()
    await through.connection.flush()
    assert seen.payloads == [b"+WPI", {"ack": b"+ACK", "nak": b"-NAK", "term": b"+TERM"}[kind]]


async def test_with_ack_none_all_acknowledgements_are_ignored(through: JetStream, proxy: TCPProxy) -> None:
    seen = Lossy(re.compile(rb"PUB \$JS\.ACK\S+ \d+\r\n([^\r\n]*)\r\n"))
    proxy.client_to_server = seen
    await make_stream(through, 2)
    got: list[JetStreamMsg] = []
    config = ConsumerConfig(ack_policy="none")
    subscription = await through.subscribe("orders.>", config=config)
    (await subscription.next(LONG)).ack()
    await through.subscribe("orders.>", config=config, callback=got.append)
    await eventually(lambda: len(got) == 2, "all to arrive")
    assert got[0].settled
    await through.connection.flush()
    assert seen.payloads == []


# --- heartbeats


async def test_heartbeats_never_reach_the_user_and_none_is_missed(
    through: JetStream, proxy: TCPProxy, watch: Watch
) -> None:
    seen = Lossy(HEARTBEAT)
    proxy.server_to_client = seen
    stream = await make_stream(through)
    subscription = await through.subscribe("orders.>", idle_heartbeat=1)
    with pytest.raises(Timeout):
        await subscription.next(4)
    await fill(through, stream, 1)
    assert sequences([await subscription.next(LONG)]) == [1]
    assert seen.payloads
    assert watch.count(Event.ERROR) == 0


async def test_missed_heartbeats_reach_the_error_callback_until_the_server_is_heard_again(
    through: JetStream, proxy: TCPProxy, watch: Watch
) -> None:
    await make_stream(through)
    subscription = await through.subscribe("orders.>", idle_heartbeat=0.2, alarm_after=2.5)
    proxy.server_to_client = Lossy(HEARTBEAT, lose=10**6)
    error = await watch.until(Event.ERROR)
    assert isinstance(error, MissedHeartbeat)
    assert "silent for 2.5 s" in str(error)
    await watch.until(Event.ERROR, times=2)
    proxy.server_to_client = Lossy(HEARTBEAT)
    await asyncio.wait_for(proxy.server_to_client.happened.wait(), LONG)
    watch.clear()
    with pytest.raises(Timeout):
        await subscription.next(3.5)
    assert watch.count(Event.ERROR) == 0


async def test_alarm_after_sets_when_a_heartbeat_is_missed(through: JetStream, proxy: TCPProxy) -> None:
    await make_stream(through)
    missed: asyncio.Queue[Exception] = asyncio.Queue()
    proxy.server_to_client = Lossy(HEARTBEAT, lose=10**6)
    await through.subscribe("orders.>", idle_heartbeat=30.0, alarm_after=0.25, on_error=missed.put_nowait)
    error = await asyncio.wait_for(missed.get(), LONG)
    assert isinstance(error, MissedHeartbeat)
    assert "silent for 0.25 s" in str(error)


async def test_a_frozen_server_misses_heartbeats_and_no_message_is_lost(server: Server, watch: Watch) -> None:
    async with connect(server.url, ping_interval=60, **watch.listeners) as nc:
        js = nc.jetstream()
        stream = await make_stream(js)
        subscription = await js.subscribe("orders.>", idle_heartbeat=0.2)
        await freeze(server)
        try:
            assert isinstance(await watch.until(Event.ERROR), MissedHeartbeat)
        finally:
            server.resume()
        await fill(js, stream, 3)
        assert sequences([await subscription.next(LONG) for _ in range(3)]) == [1, 2, 3]


async def test_a_blocked_event_loop_is_not_a_missed_heartbeat(server: Server, watch: Watch) -> None:
    import time

    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        await make_stream(js)
        subscription = await js.subscribe("orders.>", idle_heartbeat=0.1, alarm_after=2)
        for _ in range(2):
            time.sleep(3)
            await asyncio.sleep(0.05)
        with pytest.raises(Timeout):
            await subscription.next(0.2)
    assert watch.count(Event.ERROR) == 0


# --- gaps


async def test_a_delivery_that_is_lost_is_a_gap_in_the_error_callback(
    through: JetStream, proxy: TCPProxy, js: JetStream, watch: Watch
) -> None:
    stream = await make_stream(js)
    subscription = await through.subscribe("orders.>")
    proxy.server_to_client = Lossy(DELIVERY, lose=2)
    await fill(js, stream, 4)
    assert sequences([await subscription.next(LONG) for _ in range(2)]) == [3, 4]
    error = await watch.until(Event.ERROR)
    assert isinstance(error, MessageGap)
    assert (error.expected, error.received, error.stream_sequence) == (1, 3, 3)


async def test_a_heartbeat_reveals_a_lost_last_delivery(
    through: JetStream, proxy: TCPProxy, js: JetStream, watch: Watch
) -> None:
    stream = await make_stream(js)
    subscription = await through.subscribe("orders.>", idle_heartbeat=0.1, alarm_after=60)
    await fill(js, stream, 1)
    await subscription.next(LONG)
    proxy.server_to_client = lossy = Lossy(DELIVERY, lose=1)
    await fill(js, stream, 1)
    error = await watch.until(Event.ERROR)
    assert isinstance(error, MessageGap)
    assert (error.expected, error.received, error.stream_sequence) == (2, 3, 2)
    proxy.server_to_client = Lossy(HEARTBEAT)
    await asyncio.wait_for(proxy.server_to_client.happened.wait(), LONG)
    assert len(lossy.lost) == 1
    assert watch.count(Event.ERROR) == 1


async def test_a_queue_does_not_check_for_gaps(
    through: JetStream, proxy: TCPProxy, js: JetStream, watch: Watch
) -> None:
    stream = await make_stream(js)
    subscription = await through.subscribe("orders.>", "workers", config=ConsumerConfig(ack_wait=6))
    proxy.server_to_client = Lossy(DELIVERY, lose=2)
    await fill(js, stream, 4)
    got = []
    for _ in range(4):
        message = await subscription.next(LONG)
        message.ack()
        got += sequences([message])
    assert got == [3, 4, 1, 2]
    assert watch.count(Event.ERROR) == 0


async def test_redeliveries_are_not_gaps(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        await make_stream(js, 3)
        subscription = await js.subscribe("orders.>", config=ConsumerConfig(ack_wait=0.2, max_deliver=3))
        got = [await subscription.next(LONG) for _ in range(9)]
    assert sorted(sequences(got)) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert watch.count(Event.ERROR) == 0


# --- flow control


async def large(js: JetStream, count: int) -> None:
    async with js.publisher() as publisher:
        for _ in range(count):
            publisher.publish("orders.big", b"x" * 1000)


async def test_flow_control_is_answered_at_its_position_and_not_on_arrival(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    """With 3000 messages of 1000 bytes the server asks more than once, and waits for the answers."""
    await make_stream(js)
    await large(js, 3000)
    asked, answered = Lossy(FLOW_CONTROL), Lossy(ANSWER)
    proxy.server_to_client, proxy.client_to_server = asked, answered
    subscription = await through.subscribe(
        "orders.>", idle_heartbeat=0.2, flow_control=True, config=ConsumerConfig(ack_policy="none")
    )
    await asyncio.wait_for(asked.happened.wait(), LONG)
    heartbeats = Lossy(re.compile(rb"(Nats-Consumer-Stalled)"))
    proxy.server_to_client = heartbeats
    while len(heartbeats.payloads) < 3:  # It stalls, and says so, and is not answered.
        heartbeats.happened.clear()
        await asyncio.wait_for(heartbeats.happened.wait(), LONG)
    assert answered.payloads == []
    waiting = subscription.pending_msgs
    assert 0 < waiting < 3000
    proxy.server_to_client = asked
    got = [await subscription.next(LONG) for _ in range(3000)]
    assert sequences(got) == list(range(1, 3001))
    await through.connection.flush()
    assert answered.payloads[0] == asked.payloads[0]
    assert len(answered.payloads) == len(set(answered.payloads)) > 1


@pytest.mark.parametrize("how", ["next", "iterate", "callback"])
async def test_everything_arrives_with_flow_control(js: JetStream, how: str) -> None:
    await make_stream(js)
    await large(js, 5000)
    got: list[JetStreamMsg] = []
    options: dict[str, Any] = {"flow_control": True, "config": ConsumerConfig(ack_policy="none")}
    if how == "callback":
        await js.subscribe("orders.>", callback=got.append, **options)
        await eventually(lambda: len(got) == 5000, "all to arrive")
    else:
        subscription = await js.subscribe("orders.>", **options)
        if how == "next":
            got = [await subscription.next(LONG) for _ in range(5000)]
        else:
            async for message in subscription:
                got.append(message)
                if len(got) == 5000:
                    break
    assert sequences(got) == list(range(1, 5001))


async def test_a_lost_flow_control_request_is_answered_through_heartbeats(
    through: JetStream, proxy: TCPProxy, js: JetStream
) -> None:
    await make_stream(js)
    await large(js, 3000)
    lost = Lossy(FLOW_CONTROL, lose=1)
    proxy.server_to_client = lost
    subscription = await through.subscribe(
        "orders.>", idle_heartbeat=0.2, flow_control=True, config=ConsumerConfig(ack_policy="none")
    )
    got = [await subscription.next(LONG) for _ in range(3000)]
    assert len(lost.lost) == 1
    assert sequences(got) == list(range(1, 3001))


# --- limits


async def test_messages_that_do_not_fit_are_reported_and_redelivered(server: Server, watch: Watch) -> None:
    async with connect(server.url, **watch.listeners) as nc:
        js = nc.jetstream()
        await make_stream(js, 50)
        subscription = await js.subscribe(
            "orders.>", pending_msgs_limit=10, config=ConsumerConfig(ack_wait=0.5), durable="D"
        )
        error = await watch.until(Event.SLOW_CONSUMER)
        assert isinstance(error, SlowConsumer)
        assert subscription.pending_msgs <= 10
        got: set[int] = set()
        async with asyncio.timeout(LONG):
            while len(got) < 50:
                message = await subscription.next(LONG)
                await message.ack_sync()
                got.update(sequences([message]))
