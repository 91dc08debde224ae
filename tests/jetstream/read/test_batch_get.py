"""Many stored messages at once: batches of direct gets, their limits, their gaps and their faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import jetspark
from jetspark import (
    Connection,
    PermissionsViolation,
    RemoteProtocolError,
    StatusError,
    StreamNotFound,
    Timeout,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.read import direct
from jetspark.jetstream.stream import Stream
from jetspark.server import Server, User, run
from jetspark.wire import PubFrame
from tests.jetstream.support import memory, scripted_stream, store_block
from tests.support.cases import for_each
from tests.support.generators import generator
from tests.support.proxy import TCPProxy
from tests.support.scripted import Peer, ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import eventually


async def fill(js: JetStream, count: int, subject: Callable[[int], str] = lambda _: "a.x") -> None:
    """Publish payloads 1 to `count`."""
    for start in range(1, count + 1, 2000):
        last = min(start + 1999, count)
        for number in range(start, last):
            js.connection.publish(subject(number), b"%d" % number)
        await js.publish(subject(last), b"%d" % last)


@pytest.fixture
async def stream(js: JetStream) -> Stream:
    """Empty; a.*; allows direct gets."""
    return await js.create_stream(memory("A", "a.*", allow_direct=True))


async def read(stream: Stream) -> list[StoredMessage]:
    return [message async for message in stream.get_messages()]


def sequences(messages: list[StoredMessage]) -> list[int]:
    return [message.sequence for message in messages]


async def test_all_messages_come_in_order(js: JetStream, stream: Stream) -> None:
    await fill(js, 12_000)
    await stream.delete_message(7)
    messages = [message async for message in stream.get_messages()]
    assert sequences(messages) == [*range(1, 7), *range(8, 12_001)]
    assert all(message.data == b"%d" % message.sequence for message in messages)
    assert {(message.stream, message.subject) for message in messages} == {("A", "a.x")}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"sequence": 4}, [4, 5, 6]),
        ({"sequence": 7}, []),
        ({"batch": 2}, [1, 2]),
        ({"sequence": 5, "batch": 100}, [5, 6]),
        ({"subject": "a.1"}, [1, 3, 5]),
        ({"subject": "a.1", "sequence": 2, "batch": 1}, [3]),
        ({"subject": "a.*", "batch": 5}, [1, 2, 3, 4, 5]),
        ({"subject": "b"}, []),
        ({"max_bytes": 1}, [1]),
    ],
    ids=str,
)
async def test_a_part_can_be_asked_for(
    js: JetStream, stream: Stream, what: dict[str, Any], expected: list[int]
) -> None:
    await fill(js, 6, lambda number: f"a.{2 - number % 2}")
    assert sequences([message async for message in stream.get_messages(**what)]) == expected


async def test_an_empty_stream_gives_nothing(stream: Stream) -> None:
    assert [message async for message in stream.get_messages()] == []
    assert [message async for message in stream.get_last_messages(">")] == []


async def test_messages_can_be_asked_for_by_time(js: JetStream, stream: Stream) -> None:
    await fill(js, 3)
    await fill(js, 3)
    start = (await stream.get_message(4)).timestamp
    messages = [message async for message in stream.get_messages(start_time=start)]
    assert sequences(messages) == [4, 5, 6]
    limited = [message async for message in stream.get_messages(start_time=start, batch=2)]
    assert sequences(limited) == [4, 5]


async def test_large_messages_come_in_several_answers(js: JetStream, stream: Stream) -> None:
    payload = b"x" * 1_000_000
    for _ in range(20):
        await js.publish("a.x", payload)
    messages = [message async for message in stream.get_messages()]
    assert sequences(messages) == list(range(1, 21))
    assert all(message.data == payload for message in messages)
    some = [message async for message in stream.get_messages(max_bytes=3_000_000)]
    assert 1 <= len(some) <= 4


async def test_messages_that_are_stored_meanwhile_leave_no_gap(js: JetStream, stream: Stream) -> None:
    await fill(js, 5_000)
    filling = asyncio.create_task(fill(js, 20_000))
    got: list[int] = []
    while not filling.done() or len(got) < 25_000:
        start = got[-1] + 1 if got else 1
        got += sequences([message async for message in stream.get_messages(start)])
    await filling
    assert got == list(range(1, 25_001))


@for_each(
    "bad",
    [
        {"batch": 0},
        {"max_bytes": 0},
        {"sequence": -1},
        {"sequence": 1, "start_time": "x"},
        {"subject": 5},
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    stream: Stream, bad: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        await anext(aiter(stream.get_messages(**bad)))


# --- the last of each subject


async def test_the_last_message_of_each_subject_comes_in_the_order_of_the_stream(
    js: JetStream, stream: Stream
) -> None:
    await fill(js, 10, lambda number: f"a.{number % 3}")
    last = [message async for message in stream.get_last_messages("a.*")]
    assert [(message.sequence, message.subject) for message in last] == [(8, "a.2"), (9, "a.0"), (10, "a.1")]
    some = [message async for message in stream.get_last_messages(["a.0", "a.1", "b"])]
    assert sequences(some) == [9, 10]


async def test_the_last_messages_can_be_those_of_a_former_time(js: JetStream, stream: Stream) -> None:
    await fill(js, 10, lambda number: f"a.{number % 3}")
    former = [message async for message in stream.get_last_messages("a.*", up_to_sequence=5)]
    assert sequences(former) == [3, 4, 5]
    time = (await stream.get_message(5)).timestamp
    former = [message async for message in stream.get_last_messages("a.*", up_to_time=time)]
    assert sequences(former) == [2, 3, 4]
    limited = [message async for message in stream.get_last_messages("a.*", batch=2)]
    assert sequences(limited) == [8, 9]


async def test_last_messages_that_need_several_answers_are_those_of_one_moment(
    js: JetStream, stream: Stream
) -> None:
    payload = b"x" * 1_000_000
    for number in range(12):
        await js.publish(f"a.{number}", payload)
    async with aclosing(generator(stream.get_last_messages("a.*"))) as messages:
        got = [await anext(messages)]
        await js.publish("a.11", b"new")
        got += [message async for message in messages]
    assert sequences(got) == list(range(1, 13))


async def test_too_many_subjects_are_refused_with_a_hint(js: JetStream, stream: Stream) -> None:
    await fill(js, 1025, lambda number: f"a.{number}")
    with pytest.raises(StatusError, match="1024") as caught:
        await anext(aiter(stream.get_last_messages("a.*")))
    assert caught.value.status == 413
    with pytest.raises(UsageError, match="subjects"):
        await anext(aiter(stream.get_last_messages([])))
    with pytest.raises(UsageError, match="up_to"):
        await anext(aiter(stream.get_last_messages(">", up_to_sequence=1, up_to_time=untyped(1))))


# --- refusals


async def test_a_stream_that_does_not_allow_them_any_more_says_how_to_allow_them(
    js: JetStream, stream: Stream
) -> None:
    await js.update_stream(stream.config.replace(allow_direct=False))
    with pytest.raises(UsageError, match="allow_direct=True"):
        await anext(aiter(stream.get_messages()))


async def test_a_stream_that_was_deleted_is_said_to_be_so(stream: Stream) -> None:
    await stream.delete()
    with pytest.raises(StreamNotFound):
        await anext(aiter(stream.get_messages()))


async def test_a_subject_that_is_not_permitted_is_named() -> None:
    reader = User(user="reader", password="secret", publish_deny=["$JS.API.DIRECT.>"])
    with run(users=[reader]) as server:
        async with await jetspark.connect(server.url, user="reader", password="secret") as nc:
            stream = await JetStream(nc).create_stream(memory("A", "a", allow_direct=True))
            with pytest.raises(PermissionsViolation, match=r"DIRECT\.GET\.A"):
                await anext(aiter(stream.get_messages()))


async def test_a_closed_connection_is_told_at_once(nc: Connection, stream: Stream) -> None:
    await nc.close()
    with pytest.raises(jetspark.ConnectionClosed):
        await anext(aiter(stream.get_messages()))


async def test_a_silent_server_ends_in_a_timeout(proxy: TCPProxy) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        await JetStream(nc).create_stream(memory("A", "a", allow_direct=True))
        stream = scripted_stream(nc, timeout=0.3)
        proxy.stall()
        with pytest.raises(Timeout, match=r"DIRECT\.GET\.A"):
            await anext(aiter(stream.get_messages()))
        proxy.unstall()


# --- leaving


async def test_leaving_early_leaves_no_subscription_behind(
    nc: Connection, js: JetStream, stream: Stream
) -> None:
    await fill(js, 6000)
    before = len(nc.session.receivers)
    async for _ in stream.get_messages():
        break
    await eventually(lambda: len(nc.session.receivers) == before, "the end of the subscription")


async def test_cancelling_leaves_no_subscription_behind(proxy: TCPProxy) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        stream = await JetStream(nc).create_stream(memory("A", "a", allow_direct=True))
        before = len(nc.session.receivers)
        proxy.stall()
        reading = asyncio.create_task(read(stream))
        await eventually(lambda: len(nc.session.receivers) > before, "the subscription")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert len(nc.session.receivers) == before
        proxy.unstall()


# --- faults


async def test_reading_goes_on_where_it_was_when_the_connection_breaks(
    js: JetStream, stream: Stream, proxy: TCPProxy
) -> None:
    await fill(js, 30_000)
    read = 0

    def cut_sometimes(data: bytes) -> bytes | None:
        nonlocal read
        read += len(data)
        if read > 1_000_000 and proxy.accepted < 5:
            read = 0
            proxy.cut()
            return None
        return data

    proxy.server_to_client = cut_sometimes
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        through_proxy = await JetStream(nc).get_stream("A")
        messages = [message async for message in through_proxy.get_messages()]
    assert sequences(messages) == list(range(1, 30_001))
    assert proxy.accepted >= 5


async def test_reading_goes_on_after_the_server_was_killed_and_restarted(server: Server) -> None:
    async with await jetspark.connect(server.url, reconnect_wait=0.05) as nc:
        js = JetStream(nc)
        stream = await js.create_stream(StreamConfig(name="A", subjects=["a.*"], allow_direct=True))
        await fill(js, 12_000)
        got: list[int] = []
        async for message in stream.get_messages():
            got.append(message.sequence)
            if len(got) == 5_500:
                server.kill()
                server.start()
    assert got == list(range(1, 12_001))


def answer_batch(
    peer: Peer, request: PubFrame, numbers: list[int], pending: int, *, end: bool = True
) -> None:
    """Answer as the server does, with these sequences; a number that is left out of the list is lost."""
    previous = 0
    body = json.loads(request.data)
    for sequence in range(body["seq"], numbers[-1] + 1):
        pending -= 1
        if sequence in numbers:
            headers = {
                "Nats-Stream": "A",
                "Nats-Subject": "a",
                "Nats-Sequence": str(sequence),
                "Nats-Time-Stamp": "2026-01-01T00:00:00.123456789Z",
                "Nats-Num-Pending": str(pending),
                "Nats-Last-Sequence": str(previous),
            }
            peer.answer(request, b"x", headers=headers)
        previous = sequence
    if end:
        headers = {"Nats-Num-Pending": str(pending), "Nats-Last-Sequence": str(previous)}
        peer.answer(request, headers=headers, status="204 EOB")


async def read_scripted(answers: list[Callable[[Peer, PubFrame], None]], timeout: float = 5.0) -> list[int]:
    """The sequences that come when the server answers request after request like this."""
    script = iter(answers)

    def answer(peer: Peer, pub: PubFrame) -> None:
        next(script)(peer, pub)

    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", answer)
        async with await jetspark.connect(server.url) as nc:
            stream = scripted_stream(nc, timeout)
            return sequences([message async for message in stream.get_messages()])


@pytest.mark.parametrize("lost", [[1], [3], [5], [2, 3, 4]])
async def test_what_was_lost_on_the_way_is_asked_for_again(lost: list[int]) -> None:
    kept = [number for number in (1, 2, 3, 4, 5, 6) if number not in lost]
    first = min(lost)
    got = await read_scripted(
        [
            lambda peer, pub: answer_batch(peer, pub, kept, 6),
            lambda peer, pub: answer_batch(peer, pub, list(range(first, 7)), 7 - first),
        ]
    )
    assert got == [1, 2, 3, 4, 5, 6]


async def test_an_answer_that_stops_is_asked_for_again() -> None:
    got = await read_scripted(
        [
            lambda peer, pub: answer_batch(peer, pub, [1, 2, 3], 6, end=False),
            lambda peer, pub: answer_batch(peer, pub, [4, 5, 6], 3),
        ],
        timeout=1.5,
    )
    assert got == [1, 2, 3, 4, 5, 6]


async def test_late_answers_to_a_former_request_are_dropped() -> None:
    former: list[PubFrame] = []

    def stop(peer: Peer, pub: PubFrame) -> None:
        former.append(pub)
        answer_batch(peer, pub, [1, 2], 4, end=False)

    def go_on(peer: Peer, pub: PubFrame) -> None:
        answer_batch(peer, former[0], [1, 2, 3, 4], 4)
        answer_batch(peer, pub, [3, 4], 2)

    assert await read_scripted([stop, go_on], timeout=1.5) == [1, 2, 3, 4]


async def test_an_end_without_a_message_is_an_end_whatever_it_counts() -> None:
    def only_end(peer: Peer, pub: PubFrame) -> None:
        peer.answer(pub, headers={"Nats-Num-Pending": "7", "Nats-Last-Sequence": "0"}, status="204 EOB")

    assert await read_scripted([only_end]) == []


async def test_a_server_that_repeats_itself_is_not_asked_for_ever() -> None:
    def repeat(peer: Peer, pub: PubFrame) -> None:
        answer_batch(peer, pub.__class__(pub.subject, pub.reply, b"", b'{"seq":1}'), [1], 7)

    with pytest.raises(RemoteProtocolError, match="repeats sequence 1"):
        await read_scripted([repeat, repeat])


async def test_a_server_that_knows_no_batches_is_told_from_one_that_does() -> None:
    def one_message(peer: Peer, pub: PubFrame) -> None:
        headers = {
            "Nats-Stream": "A",
            "Nats-Subject": "a",
            "Nats-Sequence": "1",
            "Nats-Time-Stamp": "2026-01-01T00:00:00Z",
        }
        peer.answer(pub, b"x", headers=headers)

    with pytest.raises(UsageError, match=r"2\.11"):
        await read_scripted([one_message])


@pytest.mark.parametrize("status", ["408 Bad Request", "413 Too Many Results", "500 Who Knows"])
async def test_every_other_status_is_an_error(status: str) -> None:
    with pytest.raises(StatusError) as caught:
        await read_scripted([lambda peer, pub: peer.answer(pub, status=status)])
    assert f"{caught.value.status} {caught.value.description}" == status


async def test_the_layer_below_hands_over_whole_reads(js: JetStream, stream: Stream) -> None:
    await fill(js, 5000)
    lists = [frames async for frames in direct.batches(js.api, "A", MsgGetRequest(seq=1))]
    assert sum(map(len, lists)) == 5000
    assert len(lists) < 1000


@pytest.mark.parametrize("status", ["503", "404 No Messages", "204 EOB", "4x4"])
async def test_a_status_line_of_a_message_ends_no_batch(status: str) -> None:
    """Servers before 2.15 store it as it was published."""

    def answer(peer: Peer, request: PubFrame) -> None:
        for sequence in (1, 2):
            headers = {
                "Nats-Stream": "A",
                "Nats-Subject": "a",
                "Nats-Sequence": str(sequence),
                "Nats-Time-Stamp": "2026-01-01T00:00:00.123456789Z",
                "Nats-Num-Pending": str(2 - sequence),
                "Nats-Last-Sequence": str(sequence - 1),
            }
            peer.answer(request, headers=headers, status=status)
        peer.answer(request, headers={"Nats-Num-Pending": "0", "Nats-Last-Sequence": "2"}, status="204 EOB")

    assert await read_scripted([answer]) == [1, 2]


async def test_a_message_that_was_stored_with_a_status_line_is_a_message(
    js: JetStream, stream: Stream
) -> None:
    await fill(js, 1)
    await store_block(js.connection, "a.x", b"NATS/1.0 503 Nobody\r\nk: v\r\n\r\n")
    assert sequences(await read(stream)) == [1, 2]
    assert (await stream.get_message(2)).data == b""
