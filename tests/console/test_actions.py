"""Actions and dead letters on a real server: refused unless the console may write, done, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import jetspark
from jetspark import ConsumerConfig, StreamConfig
from jetspark.console.actions import Action, Actions
from jetspark.console.letters import Letter, LetterCount, count_letters, read_letters
from jetspark.console.messages import PAGE, parse_sequence, read_message, read_page, top_subjects
from jetspark.errors import ConsumerNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.logs.control import switch as control
from jetspark.server import Server


@pytest_asyncio.fixture
async def js(server: Server) -> AsyncIterator[JetStream]:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True))
        await js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
        yield js


async def give_up(js: JetStream, *bodies: bytes) -> None:
    """Dead letters of billing, one for each body."""
    consumer = await js.get_consumer("ORDERS", "billing")
    for number, body in enumerate(bodies):
        await js.publish(f"orders.{number}", body)
        message = await consumer.next()
        assert message is not None
        message.term(f"reason {number}")
    await js.connection.flush()


async def letters_of(js: JetStream, number: int) -> list[Letter]:
    """The dead letters, once all advisories about them are stored."""
    async with asyncio.timeout(60):
        while await count_letters(js) != [LetterCount("ORDERS", "billing", number)]:
            pass
    return (await read_letters(js, "ORDERS", "billing")).letters


async def test_a_console_that_only_reads_refuses_every_action(js: JetStream) -> None:
    actions = Actions(js, write=False, report=lambda action: None)
    await js.create_advisory_stream()
    await give_up(js, b"x")
    letters = await letters_of(js, 1)
    for action in (
        actions.pause_consumer("me", "ORDERS", "billing", 60),
        actions.resume_consumer("me", "ORDERS", "billing"),
        actions.reset_consumer("me", "ORDERS", "billing", None),
        actions.pause_shippers("me", None),
        actions.resume_shippers("me"),
        actions.replay("me", letters),
        actions.discard("me", letters, messages=True),
    ):
        with pytest.raises(UsageError, match="read-only"):
            await action
    assert [done.error for done in actions.done] == ["the console is read-only. Start it with --write"] * 7
    assert not (await js.consumer_info("ORDERS", "billing")).paused
    assert (await (await js.get_stream("ORDERS")).info()).state.messages == 1
    assert [name async for name in js.stream_names()] == ["ADVISORIES", "ORDERS"]


async def test_actions_are_done_and_recorded(js: JetStream) -> None:
    reported: list[Action] = []
    actions = Actions(js, write=True, report=reported.append)
    await actions.pause_consumer("10.0.0.1", "ORDERS", "billing", None)
    assert (await js.consumer_info("ORDERS", "billing")).paused
    assert [each.consumer for each in (await control.read_state(js)).consumers] == ["billing"]
    await actions.resume_consumer("10.0.0.1", "ORDERS", "billing")
    assert not (await js.consumer_info("ORDERS", "billing")).paused
    await actions.pause_shippers("10.0.0.1", 60)
    assert (await control.read_state(js)).switch.paused
    await actions.resume_shippers("10.0.0.1")
    assert not (await control.read_state(js)).switch.paused
    with pytest.raises(ConsumerNotFound):
        await actions.pause_consumer("10.0.0.2", "ORDERS", "nobody", 1)
    assert [action.what for action in reported] == [
        "pause consumer ORDERS > billing until resumed",
        "resume consumer ORDERS > billing",
        "pause shippers for 60 s",
        "resume shippers",
        "pause consumer ORDERS > nobody for 1 s",
    ]
    assert [bool(action.error) for action in reported] == [False, False, False, False, True]
    assert {action.who for action in reported} == {"10.0.0.1", "10.0.0.2"}
    assert list(actions.done) == reported[::-1]


async def test_a_reset_delivers_again(js: JetStream) -> None:
    consumer = await js.get_consumer("ORDERS", "billing")
    for _ in range(3):
        await js.publish("orders.new", b"x")
    for message in await consumer.fetch(3):
        await message.ack_sync()
    await Actions(js, write=True, report=lambda action: None).reset_consumer("me", "ORDERS", "billing", 2)
    assert [message.metadata.sequence.stream for message in await consumer.fetch(2)] == [2, 3]


async def test_dead_letters_are_counted_listed_replayed_and_discarded(js: JetStream) -> None:
    assert await count_letters(js) is None
    await js.create_advisory_stream()
    assert await count_letters(js) == []
    await give_up(js, b"one", b"<script>", b"\xff\x00", b"four")
    letters = await letters_of(js, 4)
    assert await count_letters(js) == [LetterCount("ORDERS", "billing", 4)]
    assert [(letter.sequence, letter.kind, letter.reason) for letter in letters] == [
        (number, "terminated", f"reason {number - 1}") for number in range(1, 5)
    ]
    assert [letter.preview for letter in letters] == ["one", "<script>", "binary: ff 00", "four"]
    await (await js.get_stream("ORDERS")).delete_message(4)
    actions = Actions(js, write=True, report=lambda action: None)
    assert await actions.replay("me", [letters[0], letters[3]]) == (1, 1)
    replayed = await (await js.get_stream("ORDERS")).get_message(5)
    assert (replayed.subject, replayed.data) == ("orders.0", b"one")
    assert await actions.discard("me", letters[:1], messages=True) == 1
    assert await actions.discard("me", letters[3:]) == 1
    assert [letter.sequence for letter in (await read_letters(js, "ORDERS", "billing")).letters] == [2, 3]
    assert [each.sequence for each in await read_page(js, "ORDERS")] == [2, 3, 5]


async def test_many_dead_letters_come_in_pages(js: JetStream) -> None:
    await js.create_advisory_stream()
    await give_up(js, *[b"x"] * 130)
    await letters_of(js, 130)
    first = await read_letters(js, "ORDERS", "billing")
    second = await read_letters(js, "ORDERS", "billing", first.next)
    assert [len(page.letters) for page in (first, second)] == [100, 30]
    assert second.next == {}
    sequences = [letter.sequence for page in (first, second) for letter in page.letters]
    assert sequences == list(range(1, 131))


async def test_forged_advisories_are_left_out(js: JetStream) -> None:
    await js.create_advisory_stream()
    for body in (b"", b"{}", b'{"type":"io.nats.jetstream.advisory.v1.max_deliver","stream":"OTHER"}'):
        await js.publish("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.billing", body)
    assert (await read_letters(js, "ORDERS", "billing")).letters == []


async def test_messages_are_read_in_bounded_pages(js: JetStream) -> None:
    for number in range(30):
        await js.publish(f"orders.{number % 2}", b'{"id": %d}' % number, headers={"Trace": "t\xff"})
    page = await read_page(js, "ORDERS")
    assert [each.sequence for each in page] == list(range(1, PAGE + 1))
    assert (page[0].subject, page[0].text, page[0].headers) == ("orders.0", '{"id": 0}', 1)
    assert [each.sequence for each in await read_page(js, "ORDERS", sequence=29)] == [29, 30]
    assert [each.sequence for each in await read_page(js, "ORDERS", sequence=27, subject="orders.1")] == [
        28,
        30,
    ]
    assert [each.sequence for each in await read_page(js, "ORDERS", time=page[4].time)][:2] == [5, 6]
    assert await read_page(js, "ORDERS", sequence=1000) == []
    info = await (await js.get_stream("ORDERS")).info()
    assert await top_subjects(js, info) == [("orders.0", 15), ("orders.1", 15)]
    message = await read_message(js, "ORDERS", 3)
    assert message.body.text == '{\n  "id": 2\n}'
    assert [name for name, _ in message.headers] == ["Trace"]


def test_a_sequence_is_parsed_as_people_write_it() -> None:
    assert [parse_sequence(text) for text in ("1", " 1,000 ", "18_446_744_073_709_551_615")] == [
        1,
        1000,
        2**64 - 1,
    ]
    for text in ("", "0", "-1", "x", "1.5", "²", "9" * 20, "1" * 10_000):
        with pytest.raises(UsageError, match="not a sequence"):
            parse_sequence(text)


async def test_large_messages_make_a_page_short(js: JetStream) -> None:
    for _ in range(10):
        await js.publish("orders.large", b"x" * 900_000)
    page = await read_page(js, "ORDERS")
    assert 1 <= len(page) < 10
    assert len(page[0].text) <= 160
    await js.create_stream(StreamConfig(name="LEADER", subjects=["leader"]))
    for _ in range(10):
        await js.publish("leader", b"x" * 900_000)
    assert 1 <= len(await read_page(js, "LEADER")) < 10
