"""messages and consume with a buffer that is limited in bytes."""

from __future__ import annotations

import pytest

from jetspark import ExceededLimit
from jetspark.jetstream.consumer import Consumer
from tests.jetstream.pull.scripted.support import HOUR, Reader, counted
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream, soon


async def test_in_bytes_it_refills_what_is_missing(server: ScriptedJetStream, reader: Reader) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    assert (pull.batch, pull.request["max_bytes"]) == (1_000_000, 1000)
    messages = [pull.message(b"x" * 100) for _ in range(4)]
    sizes = [counted(message) for message in messages]
    assert sum(sizes[:3]) < 500 < sum(sizes)
    pull.send(*messages[:3])
    await reader.take(3)
    assert server.idle
    pull.send(messages[3])
    await reader.take(1)
    again = await server.pull()
    assert (again.batch, again.request["max_bytes"]) == (1_000_000, sum(sizes))


async def test_in_bytes_the_rest_of_a_request_that_ended_is_counted_out(
    server: ScriptedJetStream, reader: Reader
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    message = pull.message(b"x" * 100)
    pull.send(message)
    await reader.take(1)
    pull.send(pull.status("408 Request Timeout", messages=999_999, bytes=1000 - counted(message)))
    again = await server.pull()
    assert again.request["max_bytes"] == 1000


@pytest.mark.usefixtures("never_back_off")
async def test_a_message_that_does_not_fit_into_the_rest_is_asked_for_when_the_buffer_is_empty(
    server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> None:
    async with consumer.messages(max_bytes=1000, expires=HOUR, on_error=errors) as messages:
        pull = await server.pull()
        two = [pull.message(b"x" * 100), pull.message(b"x" * 100)]
        left = 1000 - sum(map(counted, two))
        pull.send(*two, pull.status("409 Message Size Exceeds MaxBytes", messages=999_998, bytes=left))
        assert await messages.next()
        assert server.idle
        assert await messages.next()
        again = await server.pull()
        assert again.request["max_bytes"] == 1000
        again.send(again.message(b"x" * 800))
        message = await messages.next()
        assert message is not None
        assert len(message.data) == 800
    assert errors.empty()


@pytest.mark.usefixtures("never_back_off")
async def test_a_message_that_does_not_fit_is_not_reported_to_a_reader_who_has_taken_all(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    message = pull.message(b"x" * 100)
    pull.send(message)
    await reader.take(1)
    left = 1000 - counted(message)
    pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=999_999, bytes=left))
    assert (await server.pull()).request["max_bytes"] == 1000
    assert errors.empty()


@pytest.mark.usefixtures("short_back_off")
async def test_a_message_larger_than_the_limit_is_reported(
    server: ScriptedJetStream, reader: Reader, errors: Errors
) -> None:
    await reader.start(max_bytes=1000)
    pull = await server.pull()
    pull.send(pull.status("409 Message Size Exceeds MaxBytes", messages=1_000_000, bytes=1000))
    error = await soon(errors)
    assert isinstance(error, ExceededLimit)
    assert "max_bytes=1000" in str(error)
    again = await server.pull()
    assert again.request["max_bytes"] == 1000
