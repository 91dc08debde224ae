"""messages and consume, and every status line. Most tests run with both."""

from __future__ import annotations

import pytest

from jetspark import Error, NoResponders
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from tests.jetstream.pull.scripted.support import (
    ENDS,
    HOUR,
    REFUSALS,
    RESTARTS,
    SILENT,
    SILENT_WITH_NUMBERS,
    Reader,
    pending,
)
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream, soon
from tests.support.timing import set_timing
from tests.support.watch import eventually


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize("line", SILENT)
async def test_a_request_that_ends_is_replaced_without_a_word(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    assert pull.batch == 10
    pull.send(pull.messages(4))
    await reader.take(4)
    pull.send(pull.status(line, **pending(line)))
    again = await server.pull()
    assert (again.batch, again.request["expires"]) == (10, pull.request["expires"])
    assert again.reply != pull.reply
    again.send(again.messages(10))
    assert len(await reader.take(10)) == 10
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize("line", SILENT_WITH_NUMBERS)
async def test_what_is_buffered_is_not_asked_for_again(
    server: ScriptedJetStream, consumer: Consumer, line: str
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(4), pull.status(line, messages=6))
        if line == "409 Message Size Exceeds MaxBytes":
            for _ in range(4):
                assert await messages.next()
            assert (await server.pull()).batch == 10
        else:
            assert (await server.pull()).batch == 6


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize(("line", "error"), RESTARTS)
async def test_a_new_leader_is_notified_and_pulled_from_at_once(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(5))
    await reader.take(5)
    second = await server.pull()
    assert second.batch == 5
    # Every open request gets one.
    pull.send(pull.status(line), second.status(line))
    again = await server.pull()
    assert again.batch == 10
    assert type(await soon(errors)) is error
    again.send(again.messages(10))
    await reader.take(10)
    assert errors.empty()


@pytest.mark.usefixtures("short_back_off")
@pytest.mark.parametrize(("line", "error"), REFUSALS)
async def test_a_refusal_is_notified_and_pulled_again_after_a_while(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    for _ in range(3):
        pull.send(pull.status(line))
        assert type(await soon(errors)) is error
        pull = await server.pull()
        assert pull.batch == 10
    pull.send(pull.messages(10))
    await reader.take(10)
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
@pytest.mark.parametrize(("line", "error"), [row for row in REFUSALS if row[1] is not NoResponders])
async def test_after_a_refusal_nothing_is_asked_for_until_the_back_off_is_over(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(5))
    await reader.take(5)
    refused = await server.pull()
    refused.send(refused.status(line))
    await soon(errors)
    # The first request is open, and what it brings is taken; no other is made.
    pull.send(pull.messages(5))
    await reader.take(5)
    assert server.idle


@pytest.mark.usefixtures("short_back_off")
async def test_a_refused_request_leaves_the_others_in_the_counters(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_messages=10, threshold_messages=8)
    pull = await server.pull()
    pull.send(pull.messages(2))
    await reader.take(2)
    refused = await server.pull()
    assert refused.batch == 2
    refused.send(refused.status("409 Exceeded MaxWaiting"))
    assert (await server.pull()).batch == 2


@pytest.mark.usefixtures("short_back_off")
async def test_each_refusal_is_waited_for_twice_as_long_until_a_message_arrives(
    server: ScriptedJetStream, js: JetStream, consumer: Consumer, errors: Errors
) -> None:
    set_timing(js, refused_back_off_limit=0.05)
    async with consumer.messages(max_messages=10, expires=HOUR, on_error=errors) as messages:
        for wait in (0.01, 0.02, 0.04, 0.05, 0.05):
            pull = await server.pull()
            assert messages._buffer._pacing._refusals._wait == wait
            pull.send(pull.status("409 Exceeded MaxWaiting"))
            await soon(errors)
        pull = await server.pull()
        pull.send(pull.messages(1))
        assert await messages.next()
        assert messages._buffer._pacing._refusals._wait == 0.01


@pytest.mark.parametrize(("line", "error"), ENDS)
async def test_what_can_never_work_ends_it_with_that_error(
    server: ScriptedJetStream, reader: Reader, errors: Errors, line: str, error: type[Error]
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.messages(8))
    await reader.take(8)
    second = await server.pull()
    pull.send(pull.messages(2), pull.status(line), second.status(line))
    with pytest.raises(error) as caught:
        await reader.ended()
    assert type(caught.value) is error
    # What arrived before is handed out all the same, and nothing is asked for any more.
    assert len(await reader.take(2)) == 2
    await eventually(lambda: pull.sid not in pull.peer.subscriptions, "UNSUB")
    assert server.idle
    # Perhaps nobody waits for the end of a consume.
    assert errors.qsize() == (1 if reader.kind == "consume" else 0)


@pytest.mark.parametrize(("line", "error"), ENDS)
async def test_after_the_end_next_raises_the_error_again_and_again(
    server: ScriptedJetStream, consumer: Consumer, line: str, error: type[Error]
) -> None:
    async with consumer.messages(max_messages=10, expires=HOUR) as messages:
        pull = await server.pull()
        pull.send(pull.messages(2), pull.status(line))
        assert await messages.next()
        assert await messages.next()
        for _ in range(2):
            with pytest.raises(error):
                await messages.next()
    assert server.idle


async def test_a_status_of_a_request_that_was_forgotten_changes_nothing(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_messages=10)
    pull = await server.pull()
    pull.send(pull.status("409 Leadership Change"))
    await soon(errors)
    again = await server.pull()
    pull.send(
        pull.status("408 Request Timeout", messages=10),
        pull.status("409 Leadership Change"),
        pull.status("409 Exceeded MaxWaiting"),
        again.messages(10),
    )
    await reader.take(10)
    assert errors.empty()
    assert (await server.pull()).batch == 5


async def test_requests_that_are_served_by_turns_are_counted_exactly(
    server: ScriptedJetStream, reader: Reader
) -> None:
    await reader.start(max_messages=12, threshold_messages=6)
    first = await server.pull()
    first.send(first.messages(6))
    await reader.take(6)
    second = await server.pull()
    assert (first.batch, second.batch) == (12, 6)
    # Five more, three for the first and two for the second, which ends before the first does.
    first.send(first.messages(5))
    await reader.take(5)
    second.send(second.status("408 Request Timeout", messages=4))
    third = await server.pull()
    assert third.batch == 12 - 3
    first.send(first.status("408 Request Timeout", messages=3), third.messages(3))
    await reader.take(3)
    assert (await server.pull()).batch == 12 - 6


async def test_it_works_with_a_buffer_of_one(server: ScriptedJetStream, reader: Reader) -> None:
    await reader.start(max_messages=1)
    for _ in range(3):
        pull = await server.pull()
        assert pull.batch == 1
        pull.send(pull.message())
        await reader.take(1)
    pull = await server.pull()
    pull.send(pull.status("408 Request Timeout", messages=1))
    assert (await server.pull()).batch == 1
