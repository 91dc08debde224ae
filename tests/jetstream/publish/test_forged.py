"""Answers to a publish that no stream sent: any client that subscribes to the subject can send them first."""

from __future__ import annotations

import asyncio
import json

import pytest

import jetspark
from jetspark import Timeout, WrongLastSequence
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.wire import PubFrame
from jetspark.wire.headers import Headers, encode_headers
from tests.support.publishing import ScriptedStream, came
from tests.support.scripted import Peer, ScriptedServer

FORGED = (
    b"",
    b"+OK",
    b"\xff",
    b"{}",
    b"5",
    b'{"error":"x"}',
    b'{"error":{"code":400,"err_code":10071,"description":"no stream is named"}}',
    b'{"stream":"","seq":1}',
    b'{"stream":5,"seq":1}',
    b'{"stream":"ORDERS"}',
    b'{"stream":"ORDERS","seq":0}',
    b'{"stream":"ORDERS","seq":-1}',
    b'{"stream":"ORDERS","error":"x"}',
    b'{"stream":"ORDERS","error":{"code":[]}}',
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b"[" * 100_000,
)


def forge(stream: ScriptedStream) -> None:
    """Answer the messages that the scripted stream has with everything that is not an answer of a stream."""
    for peer, frame in stream.unanswered:
        for data in FORGED:
            peer.answer(frame, data)


async def test_publish_waits_for_the_answer_of_the_stream(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    publishing = asyncio.create_task(js.publish("orders.new"))
    await came(stream, 1)
    forge(stream)
    stream.acknowledge()
    ack = await publishing
    assert (ack.stream, ack.sequence) == ("ORDERS", 1)


async def test_publish_takes_the_refusal_of_the_stream(scripted: tuple[ScriptedStream, JetStream]) -> None:
    stream, js = scripted
    publishing = asyncio.create_task(js.publish("orders.new"))
    await came(stream, 1)
    forge(stream)
    stream.refuse(err_code=10071)
    with pytest.raises(WrongLastSequence):
        await publishing


async def test_a_publish_that_only_others_answer_times_out_and_shows_one_of_the_answers(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    stream.on_message = lambda _: stream.unanswered[-1][0].answer(stream.unanswered[-1][1], b"thanks")
    with pytest.raises(Timeout, match=r"ignored: b'thanks'"):
        await js.publish("orders.new", timeout=0.1)
    async with js.publisher(timeout=0.1) as pub:
        with pytest.raises(Timeout, match=r"ignored: b'thanks'"):
            await pub.publish("orders.new")
        with pytest.raises(jetspark.PublishError):
            await pub.flush()


async def test_a_publisher_waits_for_the_answers_of_the_stream(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    async with js.publisher() as pub:
        futures = [pub.publish("orders.new") for _ in range(3)]
        await came(stream, 3)
        forge(stream)
        stream.acknowledge(1)
        stream.refuse(1, err_code=10071)
        forge(stream)
        stream.acknowledge(1)
        assert (await futures[0]).sequence == 1
        with pytest.raises(WrongLastSequence):
            await futures[1]
        assert (await futures[2]).sequence == 2
        with pytest.raises(jetspark.PublishError):
            await pub.flush()
        assert (pub.acked, pub.failed) == (2, 1)


async def test_publishing_in_bulk_counts_the_answers_of_the_stream_only(
    scripted: tuple[ScriptedStream, JetStream],
) -> None:
    stream, js = scripted
    publisher = BulkPublisher(js.api, 10, max_bytes=1_000_000, timeout=20.0)
    messages = [
        Outgoing("orders.new", str(each), encode_headers({"Nats-Msg-Id": str(each)}), b"")
        for each in range(3)
    ]
    await publisher.send(messages)
    await came(stream, 3)
    forge(stream)
    stream.acknowledge(2)
    finishing = asyncio.create_task(publisher.finish())
    await js.api.connection.flush()
    assert (publisher.acked, publisher.stored) == (2, 2)
    assert not finishing.done()
    stream.acknowledge()
    await finishing
    assert publisher.acked == 3


async def test_an_atomic_batch_waits_for_the_answers_of_the_stream() -> None:
    def answer(peer: Peer, request: PubFrame) -> None:
        if not request.reply:
            return
        for data in FORGED[1:]:  # An empty answer to the first message tells nothing, and does no harm.
            peer.answer(request, data)
        headers = Headers.parse(request.header)
        if "Nats-Batch-Commit" in headers:
            ack = {"stream": "S", "seq": 2, "batch": headers["Nats-Batch-Id"], "count": 2}
            peer.answer(request, json.dumps(ack).encode())
        else:
            peer.answer(request)

    async with ScriptedServer(info={"api_lvl": 2, "jetstream": True}) as server:
        server.on("orders.>", answer)
        async with await jetspark.connect(server.url) as nc:
            batch = JetStream(nc).atomic_batch()
            batch.add("orders.a")
            batch.add("orders.b")
            assert (await batch.commit()).sequence == 2
