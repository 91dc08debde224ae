"""Single messages of a stream: read through the leader and by direct get, deleted."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jetspark
from jetspark import (
    APIError,
    Connection,
    MessageNotFound,
    PermissionsViolation,
    StatusError,
    StreamNotFound,
    Timeout,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.stream import StreamConfig, StreamSource
from jetspark.jetstream.read import direct
from jetspark.jetstream.retry import Backoff
from jetspark.jetstream.stream import Stream
from jetspark.server import User, run
from jetspark.wire import PubFrame
from tests.jetstream.support import cut_at, memory, patient, scripted_stream, store_block
from tests.support.consuming import Lossy
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer

DIRECT_GET = re.compile(rb"PUB \$JS\.API\.DIRECT\.GET\.A \S+ \d+\r\n(.*)\r\n")


@pytest.fixture(params=[False, True], ids=["leader", "direct"])
async def stream(js: JetStream, request: pytest.FixtureRequest) -> Stream:
    """a.1, a.2, a.1, a.2 with payloads 1 to 4, headers on the first."""
    stream = await js.create_stream(memory("A", "a.*", allow_direct=request.param))
    await js.publish("a.1", b"1", headers={"Colour": ["red", "blue"], "Nats-Subject": "mine"})
    for number in (2, 3, 4):
        await js.publish(f"a.{2 - number % 2}", b"%d" % number)
    return stream


def told(message: StoredMessage) -> tuple[str, int, str, bytes]:
    return message.stream, message.sequence, message.subject, message.data


async def test_a_message_is_found_by_its_sequence(stream: Stream) -> None:
    message = await stream.get_message(1)
    assert told(message) == ("A", 1, "a.1", b"1")
    assert message.headers.get_all("colour") == ["red", "blue"]
    assert message.headers == {"Colour": ["red", "blue"], "Nats-Subject": "mine"}
    assert message.timestamp.tzinfo is not None
    assert abs(datetime.now(UTC) - message.timestamp) < timedelta(minutes=1)
    assert repr(message) == "StoredMessage(stream='A', sequence=1, subject='a.1', 1 bytes)"
    assert (await stream.get_message(2)).headers == {}


async def test_both_ways_give_the_same_message(js: JetStream, stream: Stream) -> None:
    one = await stream.get_message(1)
    await stream.update(stream.config.replace(allow_direct=not stream.config.allow_direct))
    other = await stream.get_message(1)
    assert told(one) == told(other)
    assert one.headers == other.headers
    assert one.timestamp == other.timestamp


async def test_the_last_message_is_found_by_subject_and_by_wildcard(stream: Stream) -> None:
    assert told(await stream.get_last_message("a.1")) == ("A", 3, "a.1", b"3")
    assert told(await stream.get_last_message("a.*")) == ("A", 4, "a.2", b"4")


async def test_the_next_message_is_found_from_a_sequence_on(stream: Stream) -> None:
    assert (await stream.get_next_message("a.2")).sequence == 2
    assert (await stream.get_next_message("a.1", sequence=2)).sequence == 3
    assert (await stream.get_next_message("a.*", sequence=4)).sequence == 4
    with pytest.raises(MessageNotFound):
        await stream.get_next_message("a.1", sequence=4)


@pytest.mark.parametrize("sequence", [0, -1])
async def test_sequences_begin_at_1(stream: Stream, sequence: int) -> None:
    for refused in (stream.get_message(sequence), stream.get_next_message("a.1", sequence=sequence)):
        with pytest.raises(UsageError, match="sequence"):
            await refused


async def test_a_message_that_is_not_found_says_the_same_both_ways(stream: Stream) -> None:
    with pytest.raises(MessageNotFound, match=r"stream A: no message found \(10037\)") as caught:
        await stream.get_message(99)
    assert (caught.value.code, caught.value.err_code, caught.value.stream) == (404, 10037, "A")
    with pytest.raises(MessageNotFound):
        await stream.get_last_message("b")


async def test_a_deleted_message_is_gone(stream: Stream) -> None:
    await stream.delete_message(2)
    await stream.secure_delete_message(3)
    for sequence in (2, 3):
        with pytest.raises(MessageNotFound):
            await stream.get_message(sequence)
    for again in (stream.delete_message(2), stream.secure_delete_message(3), stream.delete_message(99)):
        with pytest.raises(MessageNotFound):
            await again
    assert (await stream.info(deleted_details=True)).state.deleted == [2, 3]


async def test_a_stream_may_refuse_that_messages_are_deleted(js: JetStream) -> None:
    stream = await js.create_stream(memory("B", "b", deny_delete=True))
    await js.publish("b")
    with pytest.raises(APIError, match="not permitted"):
        await stream.delete_message(1)


async def test_a_stream_that_was_deleted_is_said_to_be_so(stream: Stream) -> None:
    await stream.delete()
    with pytest.raises(StreamNotFound):
        await stream.get_message(1)


async def test_a_stream_that_no_longer_allows_direct_gets_is_read_through_its_leader(js: JetStream) -> None:
    stream = await js.create_stream(memory("B", "b", allow_direct=True))
    await js.publish("b", b"x")
    await js.update_stream(memory("B", "b"))
    assert stream.config.allow_direct
    assert (await stream.get_message(1)).data == b"x"


async def test_an_empty_message_is_a_message_even_if_it_was_published_with_a_status(
    nc: Connection, stream: Stream
) -> None:
    await store_block(nc, "a.1", b"NATS/1.0 404 Mine\r\nk: v\r\n\r\n")
    message = await stream.get_message(5)
    assert (message.headers["k"], message.data) == ("v", b"")


async def test_a_mirror_is_read_like_any_other_stream(js: JetStream) -> None:
    await js.create_stream(memory("B", "b", allow_direct=True))
    await js.publish("b", b"x")
    mirror = await js.create_stream(StreamConfig(name="M", mirror=StreamSource(name="B"), mirror_direct=True))
    consumer = await mirror.ordered_consumer()
    assert await consumer.next() is not None
    message = await mirror.get_message(1)
    assert told(message) == ("M", 1, "b", b"x")


async def test_a_mirror_that_answers_for_its_origin_only_is_not_asked_in_vain(
    js: JetStream, proxy: TCPProxy
) -> None:
    await js.create_stream(memory("B", "b", allow_direct=True))
    await js.publish("b", b"x")
    await js.create_stream(StreamConfig(name="M", mirror=StreamSource(name="B"), mirror_direct=True))
    sent = bytearray()

    def record(data: bytes) -> bytes:
        sent.extend(data)
        return data

    proxy.client_to_server = record
    async with jetspark.connect(proxy.url) as nc:
        mirror = await nc.jetstream().get_stream("M")
        await (await mirror.ordered_consumer()).next()
        assert told(await mirror.get_message(1)) == ("M", 1, "b", b"x")
        assert told(await mirror.get_last_message("b")) == ("M", 1, "b", b"x")
    assert b"$JS.API.STREAM.MSG.GET.M" in sent
    assert b"$JS.API.DIRECT.GET" not in sent


@pytest.mark.parametrize("allow_direct", [True, False])
async def test_headers_can_be_left_out(js: JetStream, allow_direct: bool) -> None:
    stream = await js.create_stream(memory("H", "h.*", allow_direct=allow_direct))
    await js.publish("h.1", b"x", headers={"a": "b"})
    for message in (
        await stream.get_message(1, headers=False),
        await stream.get_last_message("h.1", headers=False),
        await stream.get_next_message("h.*", headers=False),
    ):
        assert told(message) == ("H", 1, "h.1", b"x")
        assert not message.headers
    assert (await stream.get_message(1)).headers == {"a": "b"}


async def test_a_direct_get_goes_on_when_the_connection_breaks(js: JetStream, proxy: TCPProxy) -> None:
    await js.create_stream(memory("B", "b", allow_direct=True))
    await js.publish("b", b"x")
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        stream = await JetStream(nc).get_stream("B")
        cut_at(proxy, b"DIRECT.GET")
        assert (await stream.get_message(1)).data == b"x"
        assert proxy.accepted == 2


async def test_a_direct_get_that_is_not_answered_is_repeated(proxy: TCPProxy) -> None:
    requests = proxy.client_to_server = Lossy(DIRECT_GET)
    async with asyncio.timeout(30), await jetspark.connect(proxy.url) as nc:
        js = patient(nc)
        stream = await js.create_stream(memory("A", "a", allow_direct=True))
        await js.publish("a", b"x")
        requests.lose = 1
        assert (await stream.get_message(1)).data == b"x"
        requests.lose = 2
        assert [message.data async for message in stream.get_messages()] == [b"x"]
    assert len(requests.lost) == 2


async def test_a_direct_get_has_a_deadline(proxy: TCPProxy) -> None:
    async with await jetspark.connect(proxy.url) as nc:
        await JetStream(nc).create_stream(memory("A", "a", allow_direct=True))
        stream = scripted_stream(nc, timeout=0.3)
        proxy.stall()
        with pytest.raises(Timeout):
            await stream.get_message(1)
        proxy.unstall()


async def test_direct_gets_may_be_permitted_by_subject() -> None:
    reader = User(
        user="reader",
        password="secret",
        publish_allow=["$JS.API.DIRECT.GET.B.b.1", "$JS.API.STREAM.>", "b.*"],
    )
    with run(users=[reader]) as server:
        async with await jetspark.connect(server.url, user="reader", password="secret") as nc:
            js = JetStream(nc)
            stream = await js.create_stream(memory("B", "b.*", allow_direct=True))
            await js.publish("b.1", b"x")
            assert (await stream.get_last_message("b.1")).data == b"x"
            for refused in (stream.get_last_message("b.2"), stream.get_message(1)):
                with pytest.raises(PermissionsViolation, match=r"DIRECT\.GET"):
                    await refused


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("408 Empty Request", StatusError),
        ("413 Too Many Results", StatusError),
        ("499 Who Knows", StatusError),
        ("404 Message Not Found", MessageNotFound),
    ],
)
async def test_every_status_of_a_direct_get_ends_it(status: str, kind: type[Exception]) -> None:
    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", lambda peer, pub: peer.answer(pub, status=status))
        async with await jetspark.connect(server.url) as nc:
            with pytest.raises(kind) as caught:
                await scripted_stream(nc).get_message(1)
    if isinstance(caught.value, StatusError):
        assert f"{caught.value.status} {caught.value.description}" == status


async def test_the_leader_has_the_time_that_a_direct_get_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "Backoff", lambda _: Backoff(0.2))
    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", lambda peer, pub: peer.answer(pub, status="503"))
        async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
            with pytest.raises(jetspark.Timeout):
                await scripted_stream(nc, timeout=300).get_message(1)


async def test_an_answer_that_is_no_message_is_a_protocol_error() -> None:
    def answer(peer: Any, pub: PubFrame) -> None:
        peer.answer(pub, b"x", headers={"Nats-Sequence": "1"})

    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.DIRECT.GET.A", answer)
        async with await jetspark.connect(server.url) as nc:
            with pytest.raises(jetspark.RemoteProtocolError, match="direct get"):
                await scripted_stream(nc).get_message(1)
