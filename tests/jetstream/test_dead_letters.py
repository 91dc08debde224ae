"""Dead letters: what a consumer gave up, read through the advisories about it."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from jetspark import Connection, MessageNotFound, StreamNotFound, UsageError
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.model.advisories import Advisory, MaxDeliveries, MessageTerminated
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.stream import Stream
from jetspark.server import Server
from tests.jetstream.support import memory
from tests.support.consuming import until
from tests.support.watch import eventually

CONFIG = ConsumerConfig(durable_name="c", max_deliver=2, ack_wait=0.1, backoff=[0.1])


async def make_consumer(js: JetStream, **options: object) -> Consumer:
    stream = await js.create_stream(memory("A", "a.*", **options))
    return await stream.create_consumer(CONFIG)


async def give_up(js: JetStream, consumer: Consumer, *payloads: bytes, reason: str = "") -> None:
    """Publish messages and let them become dead letters: terminated with a reason, else not acknowledged."""
    kinds = [MessageTerminated if reason else MaxDeliveries]
    async with js.advisories(kinds, stream="A", consumer="c") as events:
        for payload in payloads:
            await js.publish("a.x", payload)
        heard: list[Advisory] = []
        while len(heard) < len(payloads):
            for message in await consumer.fetch(10, expires=0.05):
                if reason:
                    message.term(reason)
            while (event := await events.next(timeout=0.05)) is not None:
                heard.append(event)
    await captured(js, events.subjects[0], heard[-1])


async def captured(js: JetStream, subject: str, last: Advisory) -> None:
    """Wait until the streams that capture a subject have an advisory: they may get it after us."""
    for stream in [await js.get_stream(name) async for name in js.stream_names(subject)]:

        async def stored(stream: Stream = stream) -> bool:
            try:
                return json.loads((await stream.get_last_message(subject)).data)["id"] == last.id
            except MessageNotFound:
                return False

        await until(stored, f"an advisory in {stream.name}")


async def read(js: JetStream, **options: object) -> list[DeadLetter]:
    letters = js.dead_letters("A", "c", **options)  # type: ignore[arg-type]
    return [letter async for letter in letters]


def told(letter: DeadLetter) -> tuple[int, str, str | None, bytes | None]:
    data = letter.message.data if letter.message is not None else None
    return letter.sequence, letter.kind, letter.reason, data


# --- from a stream that captures advisories


async def test_what_a_consumer_gave_up_is_read_with_the_message(js: JetStream) -> None:
    captured = await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"poison", b"bad")
    await give_up(js, consumer, b"no use", reason="cannot be parsed")
    await js.publish("a.x", b"good")
    for message in await consumer.fetch(1):
        await message.ack_sync()
    letters = await read(js)
    assert [told(letter) for letter in letters] == [
        (1, "max_deliveries", None, b"poison"),
        (2, "max_deliveries", None, b"bad"),
        (3, "terminated", "cannot be parsed", b"no use"),
    ]
    first = letters[0]
    assert (first.stream, first.consumer, first.deliveries) == ("A", "c", 2)
    assert first.timestamp is not None
    assert first.message is not None
    assert first.message.subject == "a.x"
    assert captured.config.subjects == ["$JS.EVENT.ADVISORY.>"]


async def test_a_message_that_is_gone_is_none(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"poison")
    await (await js.get_stream("A")).delete_message(1)
    assert [told(letter) for letter in await read(js)] == [(1, "max_deliveries", None, None)]


async def test_a_message_of_a_stream_that_was_made_anew_is_not_taken_for_the_old_one(js: JetStream) -> None:
    await js.create_advisory_stream()
    await give_up(js, await make_consumer(js), b"poison")
    await js.delete_stream("A")
    await make_consumer(js)
    await js.publish("a.x", b"innocent")
    assert [told(letter) for letter in await read(js)] == [(1, "max_deliveries", None, None)]


async def test_reading_may_begin_at_a_time(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"old")
    since = datetime.now(UTC)
    await give_up(js, consumer, b"new")
    assert [told(letter)[3] for letter in await read(js, since=since)] == [b"new"]


async def test_an_advisory_that_was_published_twice_is_one_letter(nc: Connection, js: JetStream) -> None:
    advisories = await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"poison")
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c"
    await js.publish(subject, (await advisories.get_last_message(subject)).data)
    assert [told(letter)[0] for letter in await read(js)] == [1]


async def test_what_is_no_advisory_hides_no_letter(nc: Connection, js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c", b"not JSON")
    await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c", b'{"type": "something else"}')
    await give_up(js, consumer, b"poison")
    assert [told(letter)[0] for letter in await read(js)] == [1]
    assert "not a JSON object" in str(nc.last_error)


async def test_other_consumers_and_a_consumer_without_letters_give_none(js: JetStream) -> None:
    await js.create_advisory_stream()
    await give_up(js, await make_consumer(js), b"poison")
    assert [letter async for letter in js.dead_letters("A", "d")] == []


async def test_letters_in_two_streams_are_all_read(js: JetStream) -> None:
    await js.create_stream(memory("MAX", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"))
    await js.create_stream(memory("TERM", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.A.*"))
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"one")
    await give_up(js, consumer, b"two", reason="x")
    assert sorted(told(letter)[0] for letter in await read(js)) == [1, 2]


async def test_reading_leaves_nothing_behind_on_the_server(js: JetStream) -> None:
    advisories = await js.create_advisory_stream()
    await give_up(js, await make_consumer(js), b"one", b"two")
    await read(js)
    async with aclosing(js.dead_letters("A", "c")) as letters:  # type: ignore[type-var]
        await anext(letters)
    before = len(js.connection.session.receivers)

    async def none() -> bool:
        return not [name async for name in advisories.consumer_names()]

    await until(none, "the consumers to be gone")
    assert len(js.connection.session.receivers) == before


# --- as they happen


async def test_following_gives_the_past_then_what_happens(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"past")
    async with aclosing(js.dead_letters("A", "c", follow=True)) as letters:  # type: ignore[type-var]
        assert told(await anext(letters))[3] == b"past"
        await give_up(js, consumer, b"future")
        assert told(await anext(letters))[3] == b"future"


async def test_following_without_a_capturing_stream_gives_what_happens(nc: Connection, js: JetStream) -> None:
    consumer = await make_consumer(js)
    before = len(nc.session.receivers)
    async with aclosing(js.dead_letters("A", "c", follow=True)) as letters:  # type: ignore[type-var]
        first = asyncio.ensure_future(anext(letters))
        await eventually(lambda: len(nc.session.receivers) == before + 2, "the subscriptions")
        await give_up(js, consumer, b"no use", reason="x")
        assert told(await first) == (1, "terminated", "x", b"no use")
        await give_up(js, consumer, b"poison")
        assert told(await anext(letters)) == (2, "max_deliveries", None, b"poison")
    assert len(nc.session.receivers) == before


async def test_following_hears_what_no_stream_captures(nc: Connection, js: JetStream) -> None:
    await js.create_stream(memory("MAX", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"))
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"one")
    async with aclosing(js.dead_letters("A", "c", follow=True)) as letters:  # type: ignore[type-var]
        assert told(await anext(letters))[:2] == (1, "max_deliveries")
        await give_up(js, consumer, b"two", reason="x")
        assert told(await anext(letters))[:2] == (2, "terminated")


async def test_following_goes_on_after_the_server_was_restarted(server: Server, js: JetStream) -> None:
    await js.create_advisory_stream()
    stream = await js.create_stream(StreamConfig(name="A", subjects=["a.*"]))
    consumer = await stream.create_consumer(CONFIG)
    await give_up(js, consumer, b"before")
    async with aclosing(js.dead_letters("A", "c", follow=True)) as letters:  # type: ignore[type-var]
        assert told(await anext(letters))[3] == b"before"
        server.restart()
        await give_up(js, consumer, b"after")
        async with asyncio.timeout(60):
            assert told(await anext(letters))[3] == b"after"


# --- refusals


async def test_without_a_capturing_stream_the_past_is_not_known_and_the_error_says_what_to_do(
    js: JetStream,
) -> None:
    await make_consumer(js)
    with pytest.raises(UsageError, match=r"create_advisory_stream\(\).*follow=True"):
        await read(js)


async def test_letters_of_a_stream_that_is_not_there_are_refused(js: JetStream) -> None:
    await js.create_advisory_stream()
    with pytest.raises(StreamNotFound):
        await read(js)
