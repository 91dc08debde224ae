"""Consumers that are used without a look at them: `get_consumer(..., look_up=False)`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark import ConsumerConfig, NoResponders, UsageError, connect
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from jetspark.server.options import User
from jetspark.wire import PubFrame
from tests.support.consuming import make_stream, sequences, until
from tests.support.scripted_jetstream import ScriptedJetStream

HOUR = 3600.0


async def test_an_account_that_may_only_pull_can_use_all_ways_to_read() -> None:
    users = [
        User(user="admin", password="a"),
        User(user="worker", password="w", publish_allow=["$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>"]),
    ]
    reported: list[Any] = []
    with Server(users=users) as server:
        async with (
            connect(server.url, user="admin", password="a") as admin,
            connect(server.url, user="worker", password="w", on_error=reported.append) as worker,
        ):
            await make_stream(admin.jetstream(), 7)
            await admin.jetstream().create_consumer("ORDERS", ConsumerConfig(durable_name="D"))
            consumer = await worker.jetstream().get_consumer("ORDERS", "D", look_up=False)
            read = [*await consumer.fetch(2), *await consumer.fetch_no_wait(2)]
            message = await consumer.next()
            assert message is not None
            async with consumer.messages(max_messages=2) as messages:
                read += [message, *[await anext(messages) for _ in range(2)]]
            assert sequences(read) == [1, 2, 3, 4, 5, 6, 7]
            for message in read:
                message.ack()

            async def acknowledged() -> bool:
                return (await admin.jetstream().consumer_info("ORDERS", "D")).num_ack_pending == 0

            await until(acknowledged, "all to be acknowledged")
    assert not reported


async def test_it_never_asks_about_the_consumer() -> None:
    async with ScriptedJetStream() as server, connect(server.url) as nc:
        consumer = await JetStream(nc).get_consumer("S", "C", look_up=False)
        assert (consumer.stream_name, consumer.name, consumer.config) == ("S", "C", ConsumerConfig(name="C"))
        with pytest.raises(UsageError, match="not looked up"):
            _ = consumer.cached_info
        fetching = asyncio.create_task(consumer.fetch(1, expires=HOUR))
        pull = await server.pull()
        pull.send(pull.status("503"))
        with pytest.raises(NoResponders):
            await fetching
        await nc.flush()
        subjects = [frame.subject for frame in pull.peer.all(PubFrame)]
        assert subjects == [b"$JS.API.CONSUMER.MSG.NEXT.S.C"]


async def test_once_it_was_looked_up_its_limits_are_known() -> None:
    async with ScriptedJetStream(config={"max_batch": 3}) as server, connect(server.url) as nc:
        consumer = await JetStream(nc).get_consumer("S", "C", look_up=False)
        assert await consumer.info() == consumer.cached_info
        fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
        pull = await server.pull()
        assert pull.batch == 3
        pull.send(pull.messages(3))
        await fetching


@pytest.mark.parametrize(("stream", "name"), [("S.x", "C"), ("S", "C.x"), ("S", ""), ("", "C"), ("S", "C *")])
async def test_names_are_checked_all_the_same(stream: str, name: str) -> None:
    async with ScriptedJetStream() as server, connect(server.url) as nc:
        with pytest.raises(UsageError):
            await JetStream(nc).get_consumer(stream, name, look_up=False)
