"""Requests stay within the limits of the consumer, and shrink when the server refuses them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark import ExceededLimit
from jetspark.jetstream.consumer import Consumer
from tests.jetstream.pull.scripted.support import HOUR, Reader, counted, scripted
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream, soon

LIMITED = {"max_batch": 100, "max_expires": 2_000_000_000, "max_bytes": 5000}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {"batch": 100}),
        ({"max_messages": 500}, {"batch": 100}),
        ({"max_messages": 7}, {"batch": 7}),
        ({"max_bytes": 1 << 20}, {"batch": 100, "max_bytes": 5000}),
        ({"max_bytes": 3000}, {"batch": 100, "max_bytes": 3000}),
    ],
)
async def test_a_consume_asks_for_no_more_than_the_consumer_allows(
    options: dict[str, Any], asked: dict[str, int]
) -> None:
    async with scripted(**LIMITED) as (server, consumer), consumer.messages(**options):
        request = (await server.pull()).request
        assert request == asked | {"expires": 2_000_000_000, "idle_heartbeat": 1_000_000_000}


async def test_a_consume_within_the_limits_goes_on_when_a_request_is_complete(errors: Errors) -> None:
    async with (
        scripted(**LIMITED) as (server, consumer),
        consumer.messages(max_bytes=4000, on_error=errors) as messages,
    ):
        pull = await server.pull()
        first = pull.message()
        left = 4000 - counted(first)
        pull.send(first, pull.status("409 Batch Completed", bytes=left))
        assert (await server.pull()).request["max_bytes"] == left
        assert await messages.next()
    assert errors.empty()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"max_messages": 500}, {"batch": 100}),
        ({"max_bytes": 1 << 20}, {"batch": 100, "max_bytes": 5000}),
        ({"max_messages": 7, "max_bytes": 300}, {"batch": 7, "max_bytes": 300}),
    ],
)
async def test_a_fetch_asks_for_no_more_than_the_consumer_allows(
    options: dict[str, Any], asked: dict[str, int]
) -> None:
    async with scripted(**LIMITED) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(**options))
        pull = await server.pull()
        assert pull.request == asked | {"expires": 2_000_000_000}
        pull.send(pull.message(), pull.status("409 Batch Completed"))
        assert len(await fetching) == 1


async def test_a_fetch_that_may_wait_longer_than_a_request_asks_again() -> None:
    async with scripted(max_expires=2_000_000_000) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(3, expires=HOUR))
        pull = await server.pull()
        for left in (3, 2):
            assert (pull.batch, pull.request["expires"]) == (left, 2_000_000_000)
            pull.send(pull.message(), pull.status("408 Request Timeout", messages=left - 1))
            pull = await server.pull()
        pull.send(pull.message())
        assert len(await fetching) == 3


async def test_a_fetch_whose_time_is_over_does_not_ask_again() -> None:
    async with scripted(max_expires=100_000_000) as (server, consumer):
        fetching = asyncio.create_task(consumer.fetch(3, expires=0.1))
        pull = await server.pull()
        await asyncio.sleep(0.1)
        pull.send(pull.status("408 Request Timeout", messages=3))
        assert await fetching == []
        assert server.idle


@pytest.mark.usefixtures("short_back_off")
@pytest.mark.parametrize(
    "case",
    [
        ("409 Exceeded MaxRequestBatch of 4", {"max_messages": 10}, {"batch": 4}),
        ("409 Exceeded MaxRequestBatch", {"max_messages": 10}, {"batch": 5}),
        ("409 Exceeded MaxRequestBatch of 4", {"max_bytes": 9000}, {"batch": 4, "max_bytes": 9000}),
        ("409 Exceeded MaxRequestMaxBytes of 800", {"max_bytes": 9000}, {"max_bytes": 800}),
        ("409 Exceeded MaxRequestExpires of 1m0s", {"max_messages": 10}, {"expires": 60_000_000_000}),
    ],
)
async def test_a_consume_that_is_refused_asks_for_less(
    server: ScriptedJetStream,
    reader: Reader,
    errors: Errors,
    case: tuple[str, dict[str, int], dict[str, int]],
) -> None:
    line, options, then = case
    await reader.start(**options)
    pull = await server.pull()
    pull.send(pull.status(line))
    assert isinstance(await soon(errors), ExceededLimit)
    pull = await server.pull()
    assert then.items() <= pull.request.items()
    pull.send(pull.message())
    await reader.take(1)
    assert errors.empty()


async def test_a_fetch_after_one_that_was_refused_asks_for_less(
    server: ScriptedJetStream, consumer: Consumer
) -> None:
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.status("409 Exceeded MaxRequestBatch of 4"))
    with pytest.raises(ExceededLimit):
        await fetching
    fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
    pull = await server.pull()
    assert pull.batch == 4
    pull.send(pull.messages(4))
    assert len(await fetching) == 4


async def test_nothing_is_dropped_when_the_limits_are_raised_under_a_consume(errors: Errors) -> None:
    async with (
        scripted(max_batch=2) as (server, consumer),
        consumer.messages(max_messages=10, expires=HOUR, on_error=errors) as messages,
    ):
        pull = await server.pull()
        assert pull.batch == 2
        del server.config["max_batch"]
        await consumer.info()
        pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=2, bytes=1))
        pull = await server.pull()
        assert pull.batch == 10
        pull.send(pull.messages(10))
        async with asyncio.timeout(20):
            received = [await anext(messages) for _ in range(10)]
        assert [message.metadata.sequence.stream for message in received] == list(range(1, 11))
    assert errors.empty()


async def test_the_limits_are_read_again_with_the_info(server: ScriptedJetStream, consumer: Consumer) -> None:
    for limit in (3, 5):
        server.config["max_batch"] = limit
        await consumer.info()
        fetching = asyncio.create_task(consumer.fetch(10, expires=HOUR))
        pull = await server.pull()
        assert pull.batch == limit
        pull.send(pull.messages(limit))
        await fetching
