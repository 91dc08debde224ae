"""Messages of users that look like statuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jetspark.jetstream.consumer import Consumer
from tests.jetstream.pull.scripted.support import HOUR, Reader
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream

ODD: list[tuple[str, dict[str, Any]]] = [
    ("headers and no payload", {"data": b"", "headers": {"Nats-Msg-Size": "100"}}),
    ("neither headers nor payload", {"data": b""}),
    ("a header named status", {"data": b"", "headers": {"Status": "409", "Description": "Consumer Deleted"}}),
    ("a status line and a payload", {"data": b"x", "status": "409 Consumer Deleted"}),
    ("a status line and no payload", {"data": b"", "status": "409 Consumer Deleted"}),
    ("a status line that is none", {"data": b"", "status": "bad luck"}),
]


@pytest.mark.parametrize("message", [message for _, message in ODD], ids=[name for name, _ in ODD])
async def test_a_fetch_takes_messages_of_users_for_what_they_are(
    server: ScriptedJetStream, consumer: Consumer, message: dict[str, Any]
) -> None:
    fetching = asyncio.create_task(consumer.fetch(2, expires=HOUR))
    pull = await server.pull()
    pull.send(pull.message(**message), pull.message(b"next"))
    batch = await fetching
    assert [each.data for each in batch] == [message["data"], b"next"]
    assert batch.error is None


@pytest.mark.parametrize("message", [message for _, message in ODD], ids=[name for name, _ in ODD])
async def test_a_consume_takes_messages_of_users_for_what_they_are(
    server: ScriptedJetStream, reader: Reader, errors: Errors, message: dict[str, Any]
) -> None:
    await reader.start(max_messages=2)
    pull = await server.pull()
    pull.send(pull.message(**message), pull.message(b"next"))
    assert [each.data for each in await reader.take(2)] == [message["data"], b"next"]
    assert errors.empty()
