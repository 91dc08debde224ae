"""Dead letters: what a consumer gave up, read through the advisories about it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

import jetspark
from jetspark import Connection, ConsumerMismatch, MessageNotFound, StreamNotFound, UsageError
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.model.advisories import Advisory, MaxDeliveries, MessageTerminated
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.stream import Stream
from jetspark.server import Server
from tests.jetstream.support import memory, patient
from tests.support.consuming import Lossy, until
from tests.support.generators import generator
from tests.support.proxy import TCPProxy
from tests.support.watch import eventually

LOOK_UP = re.compile(rb"PUB \$JS\.API\.STREAM\.MSG\.GET\.\S+ \S+ \d+\r\n([^\r\n]*)\r\n")
ACK = re.compile(rb"PUB \$JS\.ACK\.ADVISORIES\.alerts\S+ \S+ \d+\r\n(\+ACK)\r\n")
CONFIG = ConsumerConfig(durable_name="c", max_deliver=2, ack_wait=0.1, backoff=[0.1])


async def make_consumer(js: JetStream, **options: Any) -> Consumer:
    stream = await js.create_stream(memory("A", "a.*", **options))
    return await stream.create_consumer(CONFIG)


async def give_up(
    js: JetStream, consumer: Consumer, *payloads: bytes, reason: str = "", count: int = 1
) -> None:
    """Publish messages and let them become dead letters: terminated with a reason, else not acknowledged.

    Without payloads, wait for those of `count` messages that are there.
    """
    kinds = [MessageTerminated if reason else MaxDeliveries]
    async with js.advisories(kinds, stream="A", consumer="c") as events:
        for payload in payloads:
            await js.publish("a.x", payload)
        heard: list[Advisory] = []
        while len(heard) < (len(payloads) or count):
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
                return bool(json.loads((await stream.get_last_message(subject)).data)["id"] == last.id)
            except MessageNotFound:
                return False

        await until(stored, f"an advisory in {stream.name}")


async def read(js: JetStream, **options: Any) -> list[DeadLetter]:
    letters = js.dead_letters("A", "c", **options)
    return [letter async for letter in letters]


def following(js: JetStream, **options: Any) -> aclosing[AsyncGenerator[DeadLetter]]:
    """A reader that is closed at the end."""
    letters = js.dead_letters("A", "c", **{"follow": True, **options})
    return aclosing(generator(letters))


async def exists(stream: Stream, consumer: str) -> bool:
    return consumer in [name async for name in stream.consumer_names()]


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


async def test_forged_advisories_hide_no_letter_and_make_none(nc: Connection, js: JetStream) -> None:
    """Any client may publish on these subjects."""
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    forged = {"type": "io.nats.jetstream.advisory.v1.max_deliver", "stream": "A", "consumer": "c"}
    wrong: list[dict[str, object]] = [
        {"type": []},
        {"stream_seq": 0},
        {"stream_seq": -1},
        {"stream_seq": 10**30},
        {"stream_seq": 1, "stream": "B"},
        {"stream_seq": 1, "consumer": "d"},
        {"stream_seq": 1, "timestamp": "never"},
    ]
    for changes in wrong:
        body = json.dumps(forged | changes).encode()
        await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c", body)
    await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c", b'{"a":' * 3000)
    await give_up(js, consumer, b"poison")
    assert [told(letter) for letter in await read(js)] == [(1, "max_deliveries", None, b"poison")]


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
    async with aclosing(generator(js.dead_letters("A", "c"))) as letters:
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
    async with aclosing(generator(js.dead_letters("A", "c", follow=True))) as letters:
        assert told(await anext(letters))[3] == b"past"
        await give_up(js, consumer, b"future")
        assert told(await anext(letters))[3] == b"future"


async def test_following_without_a_capturing_stream_gives_what_happens(nc: Connection, js: JetStream) -> None:
    consumer = await make_consumer(js)
    before = len(nc.session.receivers)
    async with aclosing(generator(js.dead_letters("A", "c", follow=True))) as letters:
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
    async with aclosing(generator(js.dead_letters("A", "c", follow=True))) as letters:
        assert told(await anext(letters))[:2] == (1, "max_deliveries")
        await give_up(js, consumer, b"two", reason="x")
        assert told(await anext(letters))[:2] == (2, "terminated")


async def test_following_goes_on_after_the_server_was_restarted(server: Server, js: JetStream) -> None:
    await js.create_advisory_stream()
    stream = await js.create_stream(StreamConfig(name="A", subjects=["a.*"]))
    consumer = await stream.create_consumer(CONFIG)
    await give_up(js, consumer, b"before")
    async with aclosing(generator(js.dead_letters("A", "c", follow=True))) as letters:
        assert told(await anext(letters))[3] == b"before"
        server.restart()
        await give_up(js, consumer, b"after")
        async with asyncio.timeout(60):
            assert told(await anext(letters))[3] == b"after"


@pytest.mark.parametrize("follow", [True, False])
async def test_a_message_whose_look_up_is_not_answered_for_long_is_looked_up_again(
    js: JetStream, proxy: TCPProxy, follow: bool
) -> None:
    await js.create_advisory_stream()
    await give_up(js, await make_consumer(js), b"poison")
    proxy.client_to_server = lossy = Lossy(LOOK_UP, lose=1)
    async with await jetspark.connect(proxy.url) as nc:
        through = JetStream(nc, timeout=0.3)
        async with following(through, follow=follow) as letters:
            assert told(await anext(letters))[3] == b"poison"
    assert len(lossy.lost) == 1


# --- a position that lasts


async def test_a_durable_follower_continues_after_what_was_done(js: JetStream) -> None:
    advisories = await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"one", b"two", b"three")
    async with following(js, durable="alerts") as letters:
        assert [told(await anext(letters))[3] for _ in range(2)] == [b"one", b"two"]
    async with following(js, durable="alerts") as letters:
        # The second was not done: nothing was asked for after it.
        assert [told(await anext(letters))[3] for _ in range(2)] == [b"two", b"three"]
        waiting = asyncio.ensure_future(anext(letters))
        await give_up(js, consumer, b"four")
        assert told(await waiting)[3] == b"four"
    info = await js.consumer_info("ADVISORIES", "alerts")
    assert info.ack_floor.consumer_seq > 0
    assert [name async for name in advisories.consumer_names()] == ["alerts"]


async def test_a_durable_follower_acknowledges_again_when_that_is_lost(
    js: JetStream, proxy: TCPProxy
) -> None:
    await js.create_advisory_stream()
    await give_up(js, await make_consumer(js), b"one", b"two")
    acks = proxy.client_to_server = Lossy(ACK, lose=1)
    async with (
        asyncio.timeout(30),
        jetspark.connect(proxy.url) as nc,
        following(patient(nc), durable="alerts") as letters,
    ):
        assert [told(await anext(letters))[3] for _ in range(2)] == [b"one", b"two"]
    assert len(acks.lost) == 1


async def test_a_durable_follower_passes_over_what_is_no_advisory(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.c", b"not JSON")
    await give_up(js, consumer, b"poison")
    async with following(js, durable="alerts") as letters:
        assert told(await anext(letters))[3] == b"poison"


async def test_the_position_of_a_durable_follower_counts_and_not_the_time(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"old")
    since = datetime.now(UTC)
    await give_up(js, consumer, b"new")
    async with following(js, durable="alerts", since=since) as letters:
        assert told(await anext(letters))[3] == b"new"
    async with following(js, durable="alerts", since=datetime.now(UTC)) as letters:
        assert told(await anext(letters))[3] == b"new"


async def test_a_durable_follower_goes_on_after_the_server_was_restarted(
    server: Server, js: JetStream
) -> None:
    await js.create_advisory_stream()
    stream = await js.create_stream(StreamConfig(name="A", subjects=["a.*"]))
    consumer = await stream.create_consumer(CONFIG)
    await give_up(js, consumer, b"before")
    async with following(js, durable="alerts") as letters:
        assert told(await anext(letters))[3] == b"before"
        waiting = asyncio.ensure_future(anext(letters))
        await asyncio.to_thread(server.restart)
        await give_up(js, consumer, b"after")
        async with asyncio.timeout(60):
            assert told(await waiting)[3] == b"after"


# --- refusals


async def test_a_durable_position_needs_follow_and_a_stream_that_captures_everything(js: JetStream) -> None:
    await make_consumer(js)
    with pytest.raises(UsageError, match="durable='alerts' needs follow=True"):
        await read(js, durable="alerts")
    with pytest.raises(UsageError, match="durable 'a b'"):
        await read(js, durable="a b", follow=True)
    await js.create_stream(memory("MAX", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"))
    with pytest.raises(UsageError, match=r"MSG_TERMINATED.*create_advisory_stream\(\)"):
        await read(js, durable="alerts", follow=True)


async def test_a_durable_name_of_another_consumer_is_refused(js: JetStream) -> None:
    advisories = await js.create_advisory_stream()
    await make_consumer(js)
    await advisories.create_consumer(ConsumerConfig(durable_name="alerts"))
    with pytest.raises(ConsumerMismatch, match=r"it delivers every subject.*another name"):
        await read(js, durable="alerts", follow=True)
    async with following(js, durable="mine") as letters:
        waiting = asyncio.ensure_future(anext(letters))
        await until(lambda: exists(advisories, "mine"), "the position")
        with pytest.raises(ConsumerMismatch, match=r"it delivers .*\.A\.c.*"):
            await anext(js.dead_letters("A", "d", durable="mine", follow=True))
        waiting.cancel()
        await asyncio.wait([waiting])


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


# --- replayed and purged


async def test_a_replay_points_at_its_origin_and_commands_nothing(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js, allow_rollup_hdrs=True, allow_msg_ttl=True)
    headers = {"Mine": "1", "Nats-Rollup": "sub", "Nats-TTL": "1h"}
    await js.publish("a.x", b"poison", headers=headers, msg_id="original")
    await give_up(js, consumer)
    async for letter in js.dead_letters("A", "c"):
        ack = await js.replay_dead_letter(letter, to="a.y")
        assert (await js.replay_dead_letter(letter, to="a.y")).duplicate
    stored = await (await js.get_stream("A")).get_message(ack.sequence)
    assert (ack.sequence, stored.subject, stored.data) == (2, "a.y", b"poison")
    assert dict(stored.headers) == {
        "Mine": "1",
        "Jetspark-Replayed-From": "A#1",
        "Nats-Msg-Id": "replay/A/c/1",
    }


async def test_a_replay_that_fails_again_is_not_replayed_unless_asked_for(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"poison", reason="bad")
    await js.replay_dead_letter((await read(js))[0])
    await give_up(js, consumer, reason="still bad", count=1)
    again = (await read(js))[1]
    assert told(again) == (2, "terminated", "still bad", b"poison")
    with pytest.raises(UsageError, match="A#2 is a replay of 'A#1', and failed again"):
        await js.replay_dead_letter(again)
    ack = await js.replay_dead_letter(again, again=True)
    stored = await (await js.get_stream("A")).get_message(ack.sequence)
    assert stored.headers["Jetspark-Replayed-From"] == "A#2"


async def test_what_is_gone_cannot_be_replayed(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"poison")
    await (await js.get_stream("A")).delete_message(1)
    with pytest.raises(UsageError, match="A#1 is no longer in its stream"):
        await js.replay_dead_letter((await read(js))[0])


async def test_a_purge_forgets_the_letters_of_one_consumer(js: JetStream) -> None:
    await js.create_advisory_stream()
    consumer = await make_consumer(js)
    await give_up(js, consumer, b"one", b"two")
    await give_up(js, consumer, b"three", reason="no use")
    stream = await js.get_stream("A")
    assert await js.purge_dead_letters("A", "other") == 0
    assert len(await read(js)) == 3
    assert await js.purge_dead_letters("A", "c") == 3
    assert (await read(js), (await stream.info()).state.messages) == ([], 3)
    await give_up(js, consumer, b"four")
    assert await js.purge_dead_letters("A", "c", messages=True) == 1
    assert (await read(js), (await stream.info()).state.messages) == ([], 3)


async def test_without_captured_advisories_there_is_nothing_to_purge(js: JetStream) -> None:
    await make_consumer(js)
    with pytest.raises(UsageError, match="no stream captures"):
        await js.purge_dead_letters("A", "c")
