"""Many messages of a stream that does not allow direct gets: the leader answers, with the same result."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import jetspark
from jetspark import JetStreamUnavailable, StreamConfig
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.read import direct
from jetspark.jetstream.stream import Stream
from jetspark.wire import PubFrame
from tests.jetstream.support import memory
from tests.support.scripted import Peer, ScriptedServer

SUBJECTS = ("a.x", "a.y", "b.x", "a.x", "a.z", "b.x", "a.y")


@pytest.fixture
async def streams(js: JetStream) -> tuple[Stream, Stream]:
    """Two streams with the same messages, 3 of them deleted; only the second one allows direct gets."""
    made = []
    for name, allowed in (("LEADER", False), ("DIRECT", True)):
        stream = await js.create_stream(
            memory(
                name, f"{name}.>", allow_direct=allowed, retention="workqueue" if not allowed else "limits"
            )
        )
        for number, subject in enumerate(SUBJECTS):
            await js.publish(f"{name}.{subject}", b"%d" % number, headers={"n": str(number)})
        await stream.delete_message(3)
        made.append(stream)
    return made[0], made[1]


async def read(messages: AsyncIterator[StoredMessage]) -> list[tuple[Any, ...]]:
    return [
        (each.sequence, each.subject.partition(".")[2], each.data, dict(each.headers))
        async for each in messages
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sequence": 2},
        {"sequence": 9},
        {"batch": 2},
        {"sequence": 2, "batch": 3},
        {"max_bytes": 1},
        {"subject": "*.a.*"},
        {"subject": "*.a.y", "sequence": 3},
        {"subject": "*.nothing"},
    ],
    ids=str,
)
async def test_messages_are_those_of_direct_gets(
    streams: tuple[Stream, Stream], options: dict[str, Any]
) -> None:
    by_leader, by_direct = [await read(stream.get_messages(**options)) for stream in streams]
    assert by_leader == by_direct


async def test_messages_of_a_time_are_those_of_direct_gets(streams: tuple[Stream, Stream]) -> None:
    for stream in streams:
        moment = (await stream.get_message(5)).timestamp
        assert [each[0] for each in await read(stream.get_messages(start_time=moment))] == [5, 6, 7]
        earlier = stream.get_last_messages("*.a.*", up_to_time=moment)
        assert [each[0] for each in await read(earlier)] == [2, 4]


@pytest.mark.parametrize(
    ("subjects", "options"),
    [
        (["*.a.*"], {}),
        ([">"], {}),
        (["*.a.x", "*.b.*"], {}),
        (["*.a.*"], {"up_to_sequence": 4}),
        ([">"], {"up_to_sequence": 1}),
        ([">"], {"batch": 2}),
        (["*.nothing"], {}),
    ],
    ids=str,
)
async def test_last_messages_are_those_of_direct_gets(
    streams: tuple[Stream, Stream], subjects: list[str], options: dict[str, Any]
) -> None:
    by_leader, by_direct = [await read(stream.get_last_messages(subjects, **options)) for stream in streams]
    assert by_leader == by_direct


async def test_reading_leaves_no_consumer_behind(streams: tuple[Stream, Stream]) -> None:
    assert await read(streams[0].get_messages())
    assert (await streams[0].info()).state.consumer_count == 0


@pytest.mark.parametrize("elects", [True, False])
async def test_a_read_waits_for_a_leader(elects: bool) -> None:
    no_leader = {"error": {"code": 503, "err_code": 10008, "description": "temporarily unavailable"}}
    stored = {"message": {"subject": "a", "seq": 1, "data": "MQ==", "time": "2026-01-01T00:00:00Z"}}
    asked: list[PubFrame] = []

    def answer(peer: Peer, frame: PubFrame) -> None:
        asked.append(frame)
        peer.answer(frame, json.dumps(stored if elects and len(asked) > 2 else no_leader).encode())

    async with ScriptedServer(info={"jetstream": True}) as server, jetspark.connect(server.url) as nc:
        server.on("$JS.API.STREAM.MSG.GET.S", answer)
        api = nc.jetstream(timeout=10 if elects else 0.5).api
        reading = direct.get(api, StreamConfig(name="S"), MsgGetRequest(seq=1))
        if elects:
            assert (await reading).data == b"1"
            assert len(asked) == 3
        else:
            with pytest.raises(JetStreamUnavailable):
                await reading
            assert len(asked) > 1
