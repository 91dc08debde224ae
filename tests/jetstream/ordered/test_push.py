"""Ordered push subscriptions: every message once and in order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from jetspark import (
    Connection,
    ConsumerConfig,
    ConsumerNotFound,
    Event,
    JetStreamMsg,
    MissedHeartbeat,
    NoMatchingStream,
    NotJetStreamMessage,
    PushSubscription,
    StreamNotFound,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.wire import PubFrame
from tests.support.consuming import LONG, Lossy, fill, make_stream, sequences, until
from tests.support.proxy import TCPProxy
from tests.support.scripted_jetstream import soon
from tests.support.scripted_push import ScriptedPush
from tests.support.timing import set_timing
from tests.support.watch import Watch, eventually

DELIVERY = re.compile(rb"MSG orders\.new \d+ (\$JS\.ACK\S+) \d+\r\n\d+\r\n")


@pytest.fixture
async def through(proxy: TCPProxy, watch: Watch) -> AsyncIterator[JetStream]:
    async with connect(proxy.url, reconnect_wait=0.01, **watch.listeners) as nc:
        yield nc.jetstream()


async def read(subscription: PushSubscription, count: int) -> list[int]:
    return sequences([await subscription.next(LONG) for _ in range(count)])


async def names(js: JetStream) -> list[str]:
    return [name async for name in js.consumer_names("ORDERS")]


# --- against the real server


async def test_it_reads_a_stream_in_order_without_acknowledgements(js: JetStream) -> None:
    stream = await make_stream(js, 50)
    subscription = await js.subscribe("orders.>", ordered=True)
    assert await read(subscription, 50) == list(range(1, 51))
    await fill(js, stream, 5)
    message = await subscription.next(LONG)
    assert message.settled
    config = (await subscription.consumer_info()).config
    assert (config.ack_policy, config.num_replicas, config.mem_storage) == ("none", 1, True)
    assert (config.flow_control, config.idle_heartbeat) == (True, 5.0)
    await subscription.unsubscribe()
    assert await names(js) == []


async def test_it_starts_where_it_is_told(js: JetStream) -> None:
    await make_stream(js, 20)
    config = ConsumerConfig(deliver_policy="by_start_sequence", opt_start_seq=15)
    subscription = await js.subscribe("orders.>", ordered=True, config=config)
    assert await read(subscription, 6) == list(range(15, 21))
    last = await js.subscribe("orders.>", ordered=True, deliver_policy="last")
    assert await read(last, 1) == [20]


async def test_a_callback_gets_them_in_order(js: JetStream) -> None:
    await make_stream(js, 2000)
    got: list[int] = []
    async with await js.subscribe("orders.>", ordered=True, callback=lambda m: got.extend(sequences([m]))):
        await eventually(lambda: len(got) == 2000, "all to arrive")
    assert got == list(range(1, 2001))


@pytest.mark.parametrize("lose", [1, 3])
async def test_deliveries_that_are_lost_are_delivered_again_in_order(
    through: JetStream, proxy: TCPProxy, js: JetStream, watch: Watch, lose: int
) -> None:
    stream = await make_stream(js)
    subscription = await through.subscribe("orders.>", ordered=True, idle_heartbeat=0.2, alarm_after=60)
    await fill(js, stream, 3)
    assert await read(subscription, 3) == [1, 2, 3]
    proxy.server_to_client = lossy = Lossy(DELIVERY, lose=lose)
    await fill(js, stream, 10)
    assert await read(subscription, 10) == list(range(4, 14))
    assert len(lossy.lost) == lose
    assert watch.count(Event.ERROR) == 0

    async def one() -> bool:
        return len(await names(js)) == 1

    await until(one, "the old consumer to be deleted")


async def test_a_consumer_that_is_deleted_is_replaced(js: JetStream) -> None:
    stream = await make_stream(js, 3)
    missed: list[Exception] = []
    subscription = await js.subscribe("orders.>", ordered=True, idle_heartbeat=0.1, on_error=missed.append)
    assert await read(subscription, 3) == [1, 2, 3]
    for _ in range(3):
        for name in await names(js):
            with suppress(ConsumerNotFound):  # It was replaced meanwhile.
                await js.delete_consumer("ORDERS", name)
        await fill(js, stream, 2)
        last = (await stream.info()).state.last_seq
        assert await read(subscription, 2) == [last - 1, last]
    assert missed
    assert {type(error) for error in missed} == {MissedHeartbeat}


async def test_a_reader_that_is_behind_loses_nothing(js: JetStream) -> None:
    """It continues when there is room, without the help of a heartbeat."""
    await make_stream(js, 500)
    subscription = await js.subscribe("orders.>", ordered=True, pending_msgs_limit=20, idle_heartbeat=600)
    await eventually(lambda: subscription.pending_msgs == 20, "the queue to be full")
    assert await read(subscription, 500) == list(range(1, 501))
    assert subscription.dropped == 0


async def test_a_reader_behind_a_limit_in_bytes_loses_nothing(js: JetStream) -> None:
    stream = await make_stream(js)
    for _ in range(20):
        await js.publish("orders.big", b"x" * 1000)
    await fill(js, stream, 5)
    subscription = await js.subscribe("orders.>", ordered=True, pending_bytes_limit=2500, idle_heartbeat=600)
    assert await read(subscription, 25) == list(range(1, 26))
    single = await js.subscribe("orders.>", ordered=True, pending_bytes_limit=10, idle_heartbeat=600)
    assert await read(single, 25) == list(range(1, 26))


async def test_a_stream_that_is_deleted_ends_it(js: JetStream) -> None:
    await make_stream(js, 1)
    subscription = await js.subscribe("orders.>", ordered=True, idle_heartbeat=0.1, on_error=lambda e: None)
    await read(subscription, 1)
    await js.delete_stream("ORDERS")
    with pytest.raises(StreamNotFound):
        await subscription.next(LONG)


@pytest.mark.parametrize("options", [{"queue": "q"}, {"durable": "D"}, {"consumer": "C"}])
async def test_unsupported_options_are_refused(js: JetStream, options: dict[str, Any]) -> None:
    await make_stream(js)
    with pytest.raises(UsageError, match="excludes ordered=True"):
        await js.subscribe("orders.>", ordered=True, **options)


async def test_a_stream_that_is_not_there_is_an_error(js: JetStream) -> None:
    with pytest.raises(NoMatchingStream):
        await js.subscribe("orders.>", ordered=True)
    with pytest.raises(StreamNotFound):
        await js.subscribe("orders.>", stream="NOWHERE", ordered=True)


# --- against a server that says what the test wants


@pytest.fixture
async def scripted_server() -> AsyncIterator[ScriptedPush]:
    async with ScriptedPush() as running:
        yield running


def context(nc: Connection, back_off: float = 0.01) -> JetStream:
    """A context with other waits before the next consumer."""
    js = JetStream(nc)
    set_timing(js, chain_back_off=back_off, chain_back_off_limit=2 * back_off)
    return js


async def second(server: ScriptedPush) -> dict[str, Any]:
    """The configuration of the second consumer of the chain, when it is created."""
    await eventually(lambda: len(server.created) == 2, "the next consumer")
    server.restart_numbers()
    return dict(server.created[1][1]["config"])


async def test_a_gap_is_repaired_by_the_next_consumer_behind_the_last_message(
    scripted_server: ScriptedPush,
) -> None:
    server = scripted_server
    async with connect(server.url) as nc:
        subscription = await context(nc).subscribe("s.>", ordered=True)
        first = server.name
        server.send(server.message(b"1"), server.message(b"2"), server.message(b"4", skip=1))
        config = await second(server)
        assert (config["deliver_policy"], config["opt_start_seq"]) == ("by_start_sequence", 3)
        assert config["deliver_subject"] != server.created[0][1]["config"]["deliver_subject"]
        assert await soon(server.deleted) == first
        await nc.flush()
        server.send(server.message(b"3"))
        assert [(await subscription.next(LONG)).data for _ in range(3)] == [b"1", b"2", b"3"]


async def test_a_heartbeat_that_names_more_than_arrived_is_a_gap(scripted_server: ScriptedPush) -> None:
    server = scripted_server
    async with connect(server.url) as nc:
        await context(nc).subscribe("s.>", ordered=True)
        server.send(server.message(b"1"), server.heartbeat(1))
        await nc.flush()
        assert len(server.created) == 1
        server.send(server.heartbeat(3))
        assert (await second(server))["opt_start_seq"] == 2


async def test_before_the_first_message_the_next_consumer_starts_like_the_first(
    scripted_server: ScriptedPush,
) -> None:
    server = scripted_server
    async with connect(server.url) as nc:
        await context(nc).subscribe("s.>", ordered=True, deliver_policy="new")
        server.send(server.heartbeat(2))
        config = await second(server)
        assert config["deliver_policy"] == "new"
        assert "opt_start_seq" not in config


async def test_messages_that_overtake_the_answer_to_the_creation_are_taken(
    scripted_server: ScriptedPush,
) -> None:
    server = scripted_server
    create = server._create

    def deliver_first(peer: Any, frame: PubFrame) -> None:
        import json

        config = json.loads(frame.data)["config"]
        server.consumers[config["name"]] = config
        server.send(server.message(b"1"), server.message(b"2"))
        create(peer, frame)

    server._handlers.insert(0, ("$JS.API.CONSUMER.CREATE.>", deliver_first))
    async with connect(server.url) as nc:
        subscription = await context(nc).subscribe("s.>", ordered=True)
        assert [(await subscription.next(LONG)).data for _ in range(2)] == [b"1", b"2"]
        assert len(server.created) == 1


@pytest.mark.parametrize("reply", ["", "$JS.ACK.not.enough"])
async def test_a_foreign_message_among_the_others_loses_none_of_them(
    scripted_server: ScriptedPush, reply: str
) -> None:
    server = scripted_server
    reported: list[Exception] = []
    async with connect(server.url) as nc:
        subscription = await context(nc).subscribe("s.>", ordered=True, on_error=reported.append)
        first = [server.message(b"1"), server.message(b"2")]
        server.send(*first, server.message(b"stranger", reply=reply), server.message(b"3", sequence=3))
        assert [(await subscription.next(LONG)).data for _ in range(3)] == [b"1", b"2", b"3"]
        assert len(server.created) == 1
    assert [type(error) for error in reported] == [NotJetStreamMessage]


async def test_refusals_are_reported_and_it_goes_on_trying(scripted_server: ScriptedPush) -> None:
    server = scripted_server
    reported: list[Exception] = []
    refusals = 3

    def refuse(peer: Any, frame: PubFrame) -> None:
        nonlocal refusals
        if len(server.created) == 1 and refusals:
            refusals -= 1
            peer.answer(frame, b'{"error":{"code":503,"err_code":10008,"description":"no leader"}}')
        else:
            server._create(peer, frame)

    server._handlers.insert(0, ("$JS.API.CONSUMER.CREATE.>", refuse))
    got: list[JetStreamMsg] = []
    async with connect(server.url) as nc:
        await context(nc).subscribe("s.>", ordered=True, callback=got.append, on_error=reported.append)
        server.send(server.heartbeat(1))
        await second(server)
        await nc.flush()
        server.send(server.message(b"1"))
        await eventually(lambda: len(got) == 1, "the message")
    assert ["no leader" in str(error) for error in reported] == [True, True, True]


async def test_ending_during_the_back_off_does_not_hang(scripted_server: ScriptedPush) -> None:
    server = scripted_server
    async with connect(server.url) as nc:
        subscription = await context(nc, 3600).subscribe("s.>", ordered=True)
        server.send(server.heartbeat(1))
        await second(server)
        await nc.flush()
        server.send(server.heartbeat(1))  # The second one brought nothing: the third has to wait.
        await nc.flush()
        async with asyncio.timeout(LONG):
            await subscription.unsubscribe()
        assert not subscription.active
