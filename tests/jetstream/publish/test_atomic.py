"""Atomic batches: all of it is stored, or nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import jetspark
from jetspark import (
    APIError,
    BatchPublishError,
    ConnectionLost,
    JetStreamNotEnabled,
    MaxPayloadError,
    NoResponders,
    NoStreamForSubject,
    Timeout,
    UsageError,
    WrongLastSequence,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from jetspark.wire import PubFrame
from jetspark.wire.headers import Headers
from tests.support.cases import for_each
from tests.support.proxy import TCPProxy
from tests.support.publishing import lose_acknowledgements, make_stream, stored
from tests.support.scripted import Peer, ScriptedServer
from tests.support.untyped import untyped


def batch_headers(frame: PubFrame) -> dict[str, str]:
    return {
        name: value for name, value in Headers.parse(frame.header).items() if name.startswith("Nats-Batch-")
    }


# --- what is stored


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
async def test_a_batch_is_stored_as_a_whole_and_in_order(js: JetStream, count: int) -> None:
    stream = await make_stream(js, allow_atomic=True)
    await js.publish("orders.before")
    batch = js.atomic_batch()
    for number in range(count):
        batch.add(f"orders.{number % 3}", b"%d" % number, headers={"n": str(number)})
    assert len(batch) == count
    ack = await batch.commit()
    assert (ack.stream, ack.sequence, ack.batch_size) == ("ORDERS", count + 1, count)
    assert ack.batch_id
    assert batch.ack == ack
    assert (await stream.info()).state.messages == count + 1
    last = await stream.get_message(count + 1)
    assert (last.data, last.headers["n"]) == (b"%d" % (count - 1), str(count - 1))


async def test_leaving_the_context_commits(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)
    async with js.atomic_batch() as batch:
        batch.add("orders.a", b"1")
        batch.add("orders.b", untyped(bytearray(b"2")))
        assert await stored(stream) == []
    assert batch.ack is not None
    assert batch.ack.batch_size == 2
    assert await stored(stream) == [b"1", b"2"]


async def test_a_commit_in_the_context_is_the_only_one(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)
    async with js.atomic_batch() as batch:
        batch.add("orders.a", b"1")
        await batch.commit()
        with pytest.raises(UsageError, match="already committed"):
            batch.add("orders.a")
        with pytest.raises(UsageError, match="already committed"):
            await batch.commit()
    assert await stored(stream) == [b"1"]


async def test_when_the_body_raises_nothing_is_sent(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)

    async def body() -> None:
        async with js.atomic_batch() as batch:
            batch.add("orders.a", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    assert await stored(stream) == []


async def test_a_failed_commit_in_the_context_is_not_repeated_by_leaving_it(js: JetStream) -> None:
    await make_stream(js)
    async with js.atomic_batch() as batch:
        batch.add("orders.a", b"1")
        with pytest.raises(BatchPublishError):
            await batch.commit()
    assert batch.ack is None


async def test_leaving_the_context_of_an_empty_batch_does_nothing(js: JetStream) -> None:
    async with js.atomic_batch() as batch:
        pass
    assert batch.ack is None


async def test_two_batches_at_once_do_not_mix(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)
    batches = [js.atomic_batch() for _ in range(4)]
    for number, batch in enumerate(batches):
        for _ in range(50):
            batch.add("orders.a", b"%d" % number)
    await asyncio.gather(*(batch.commit() for batch in batches))
    found = await stored(stream)
    runs = [found[start : start + 50] for start in range(0, 200, 50)]
    assert all(len(set(run)) == 1 for run in runs)
    assert {run[0] for run in runs} == {b"0", b"1", b"2", b"3"}


async def test_expectations_that_hold_and_ttl_go_with_a_message(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True, allow_msg_ttl=True)
    await js.publish("orders.a", b"0")
    async with js.atomic_batch() as batch:
        batch.add("orders.a", b"1", expected_last_sequence=1, expected_stream="ORDERS", msg_id="a1")
        batch.add("orders.b", b"2", expected_last_subject_sequence=0, ttl=60)
    assert await stored(stream) == [b"0", b"1", b"2"]
    assert (await stream.get_message(3)).headers["Nats-TTL"] == "60"


# --- what is refused


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ({"expected_last_sequence": 7}, WrongLastSequence),
        ({"expected_last_subject_sequence": 7}, WrongLastSequence),
        ({"expected_stream": "OTHER"}, APIError),
        ({"expected_last_msg_id": "a"}, BatchPublishError),
        ({"ttl": 5}, APIError),
    ],
    ids=str,
)
@pytest.mark.parametrize("where", [0, 1, 2])
async def test_one_message_that_is_refused_refuses_the_batch(
    js: JetStream, expected: dict[str, Any], error: type[APIError], where: int
) -> None:
    stream = await make_stream(js, allow_atomic=True)
    batch = js.atomic_batch()
    for number in range(3):
        batch.add("orders.a", b"1", **(expected if number == where else {}))
    with pytest.raises(error):
        await batch.commit()
    assert await stored(stream) == []


async def test_a_stream_that_takes_no_batches_says_so_with_a_hint(js: JetStream) -> None:
    stream = await make_stream(js)
    batch = js.atomic_batch()
    batch.add("orders.a")
    batch.add("orders.b")
    with pytest.raises(BatchPublishError, match="allow_atomic=True") as raised:
        await batch.commit()
    assert raised.value.err_code == 10174
    assert await stored(stream) == []


@pytest.mark.parametrize("count", [1, 3])
async def test_a_batch_for_a_subject_without_a_stream_fails_soon(js: JetStream, count: int) -> None:
    batch = js.atomic_batch()
    for _ in range(count):
        batch.add("order.new")
    async with asyncio.timeout(30):
        with pytest.raises(NoStreamForSubject):
            await batch.commit()


async def test_a_batch_over_two_streams_is_refused(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)
    other = await make_stream(js, name="OTHER", subjects=["other.>"], allow_atomic=True)
    batch = js.atomic_batch(retry_for=0.3)
    for subject in ("orders.a", "other.a", "other.a"):
        batch.add(subject, b"1")
    with pytest.raises(BatchPublishError, match="incomplete"):
        await batch.commit()
    assert await stored(stream) == []
    assert await stored(other) == []


async def test_without_jetstream_it_is_an_error_that_says_so() -> None:
    async with Server(jetstream=False) as server, await jetspark.connect(server.url) as nc:
        batch = JetStream(nc).atomic_batch()
        batch.add("orders.a")
        with pytest.raises(JetStreamNotEnabled):
            await batch.commit()


async def test_a_batch_without_messages_is_refused(js: JetStream) -> None:
    with pytest.raises(UsageError, match="no messages"):
        await js.atomic_batch().commit()


async def test_the_1001st_message_is_refused_and_the_others_stay(js: JetStream) -> None:
    await make_stream(js, allow_atomic=True)
    batch = js.atomic_batch()
    for _ in range(1000):
        batch.add("orders.a")
    with pytest.raises(UsageError, match="1000"):
        batch.add("orders.a")
    assert (await batch.commit()).batch_size == 1000


@for_each(
    ("subject", "arguments"),
    [
        ("orders.*", {}),
        ("orders.a", {"data": "text"}),
        ("orders.a", {"headers": {"Nats-Batch-Id": "x"}}),
        ("orders.a", {"headers": {"nats-batch-commit": "1"}}),
        ("orders.a", {"headers": {"k": "a\r\nb"}}),
        ("orders.a", {"msg_id": ""}),
        ("orders.a", {"expected_last_sequence": "1"}),
    ],
    ids=str,
)
async def test_a_bad_argument_is_refused_when_it_is_added(
    js: JetStream, subject: str, arguments: dict[str, Any]
) -> None:
    batch = js.atomic_batch()
    with pytest.raises(UsageError):
        batch.add(subject, **arguments)
    assert len(batch) == 0


async def test_a_message_over_max_payload_is_refused_when_it_is_added(js: JetStream) -> None:
    batch = js.atomic_batch()
    with pytest.raises(MaxPayloadError):
        batch.add("orders.a", bytes(js.connection.max_payload))
    assert len(batch) == 0


@for_each(("option", "value"), [("timeout", 0), ("retry_for", -1)])
async def test_a_bad_option_is_named(js: JetStream, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        js.atomic_batch(**{option: value})


@pytest.mark.parametrize("level", [{}, {"api_lvl": 1}, {"api_lvl": 1, "version": "2.15.1"}])
async def test_to_an_older_server_nothing_is_sent(level: dict[str, Any]) -> None:
    async with ScriptedServer(info={"jetstream": True, **level}) as server:
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch()
            batch.add("orders.a")
            with pytest.raises(BatchPublishError, match=r"2\.12"):
                await batch.commit()
        assert (await server.peer()).all(PubFrame) == []


@pytest.mark.parametrize("count", [1, 2])
async def test_a_stream_on_an_older_server_is_found_out(count: int) -> None:
    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", lambda peer, request: peer.answer(request, b'{"stream":"S","seq":7}'))
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch()
            for _ in range(count):
                batch.add("orders.a")
            with pytest.raises(BatchPublishError, match=r"separately, as sequence 7.*2\.12"):
                await batch.commit()


# --- ids


async def test_a_batch_with_an_id_that_the_stream_has_is_refused_as_a_whole(js: JetStream) -> None:
    stream = await make_stream(js, allow_atomic=True)

    def make() -> Any:
        batch = js.atomic_batch()
        for number in range(3):
            batch.add("orders.a", b"%d" % number, msg_id=f"a{number}")
        return batch

    await make().commit()
    with pytest.raises(BatchPublishError, match="duplicate message id") as raised:
        await make().commit()
    assert raised.value.err_code == 10201
    assert await stored(stream) == [b"0", b"1", b"2"]


# --- when nobody answers and when the connection breaks


async def test_the_headers_number_the_messages_and_only_the_ends_ask_for_an_answer() -> None:
    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", acknowledge)
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch()
            for _ in range(4):
                batch.add("orders.a", headers={"k": "v"})
            ack = await batch.commit()
        frames = (await server.peer()).all(PubFrame)
    batch_id = ack.batch_id
    assert batch_id is not None
    assert len(batch_id) <= 64
    assert [batch_headers(frame) for frame in frames] == [
        {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": "1"},
        {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": "2"},
        {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": "3"},
        {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": "4", "Nats-Batch-Commit": "1"},
    ]
    assert [bool(frame.reply) for frame in frames] == [True, False, False, True]


def acknowledge(peer: Peer, request: PubFrame) -> None:
    """What a stream answers: nothing much to the first message, the acknowledgement to the last."""
    said = batch_headers(request)
    if "Nats-Batch-Commit" in said:
        count = int(said["Nats-Batch-Sequence"])
        ack = {"stream": "S", "seq": count, "batch": said["Nats-Batch-Id"], "count": count}
        peer.answer(request, json.dumps(ack).encode())
    elif request.reply:
        peer.answer(request)


@pytest.mark.parametrize("at", ["first", "last"])
@pytest.mark.parametrize("how", ["503", "10008", "10158", "10176"])
async def test_while_nobody_can_take_it_the_whole_batch_is_tried_again_under_another_id(
    at: str, how: str
) -> None:
    failures = 2

    def answer(peer: Peer, request: PubFrame) -> None:
        nonlocal failures
        is_last = "Nats-Batch-Commit" in batch_headers(request)
        if request.reply and is_last == (at == "last") and failures:
            failures -= 1
            if how == "503":
                peer.answer(request, status="503")
            else:
                error = {"code": 400, "err_code": int(how), "description": "no"}
                peer.answer(request, json.dumps({"error": error, "stream": "S"}).encode())
        else:
            acknowledge(peer, request)

    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", answer)
        server.on("$JS.API.STREAM.NAMES", lambda peer, ask: peer.answer(ask, b'{"streams":["S"]}'))
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch()
            for _ in range(3):
                batch.add("orders.a")
            ack = await batch.commit()
        frames = [
            frame for frame in (await server.peer()).all(PubFrame) if frame.subject.startswith(b"orders")
        ]
    ids = {batch_headers(frame)["Nats-Batch-Id"] for frame in frames}
    assert len(ids) == 3
    assert ack.batch_id in ids


async def test_after_retry_for_the_last_error_is_raised() -> None:
    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", lambda peer, request: peer.answer(request, status="503"))
        server.on("$JS.API.STREAM.NAMES", lambda peer, ask: peer.answer(ask, b'{"streams":["S"]}'))
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch(retry_for=0.3)
            batch.add("orders.a")
            with pytest.raises(NoResponders):
                await batch.commit()


@pytest.mark.parametrize(("answered", "said"), [(False, "Nothing of the batch"), (True, "unknown")])
async def test_without_an_answer_it_times_out_and_the_hint_says_what_is_stored(
    answered: bool, said: str
) -> None:
    def answer(peer: Peer, request: PubFrame) -> None:
        if answered and request.reply and "Nats-Batch-Commit" not in batch_headers(request):
            peer.answer(request)

    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", answer)
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch(timeout=2.0 if answered else 0.1)
            batch.add("orders.a")
            batch.add("orders.a")
            with pytest.raises(Timeout, match=said):
                await batch.commit()


async def test_a_connection_that_breaks_before_the_last_message_is_no_harm(
    server: Server, proxy: TCPProxy
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, allow_atomic=True)

        def cut(data: bytes) -> bytes | None:
            if b"Nats-Batch-Sequence: 1\r\n" not in data:
                return data
            proxy.client_to_server = None
            proxy.cut()
            return None

        proxy.client_to_server = cut
        batch = js.atomic_batch()
        for number in range(3):
            batch.add("orders.a", b"%d" % number)
        assert (await batch.commit()).batch_size == 3
        assert nc.statistics.reconnects == 1
        assert await stored(stream) == [b"0", b"1", b"2"]


async def test_after_a_break_in_the_commit_the_outcome_is_unknown_and_ids_make_repeating_safe(
    server: Server, proxy: TCPProxy
) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        js = JetStream(nc)
        stream = await make_stream(js, allow_atomic=True)

        def lost(_: bytes) -> bool:
            proxy.server_to_client = None
            proxy.cut()
            return True

        lose_acknowledgements(proxy, lost)
        batch = js.atomic_batch()
        for number in range(3):
            batch.add("orders.a", b"%d" % number, msg_id=f"a{number}")
        with pytest.raises(ConnectionLost, match=r"unknown.*only if its messages have ids"):
            await batch.commit()
        with pytest.raises(BatchPublishError, match="duplicate message id"):
            await batch.commit()
        assert await stored(stream) == [b"0", b"1", b"2"]
