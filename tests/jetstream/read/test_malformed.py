"""Stored messages with malformed header blocks: every reader reads them, and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import pytest

from jetspark import AckPolicy, Connection, ConsumerConfig, JetStreamMsg
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.message.stored import StoredMessage, parse_direct_get
from jetspark.jetstream.read.ranges import StreamRange, read_range
from jetspark.wire import MsgFrame
from jetspark.wire.headers import Headers
from tests.jetstream.support import memory

#: Header blocks, and what of them can be read. The server stores them as they are.
BLOCKS: dict[bytes, dict[str, str]] = {
    b"NATS/1.0\r\nA: 1\r\nno colon\r\n\r\n": {"A": "1"},
    b"NATS/1.0\r\n: no name\r\nA: 1\r\n\r\n": {"A": "1"},
    b"NATS/1.0\nA: 1\n\n": {},
    b"NATS/1.0\r\nA: 1234": {"A": "1234"},
    b"NATS/1.0\r\nA: 1\r\n": {"A": "1"},
    b"garbage\r\nA: 1\r\n\r\n": {"A": "1"},
    b"garbage!\r\n\r\n": {},
    b"NATS/1.0\r\n\x00\xff\r\n\r\n": {},
    b"\x00": {},
}
#: Unusual, and readable. The server removes a status line.
READABLE: dict[bytes, dict[str, str]] = {
    b"NATS/1.0 503\r\n\r\n": {},
    b"NATS/1.0 4x4 No\r\nA: 1\r\n\r\n": {"A": "1"},
    b"NATS/1.0 404 No Messages\r\nA: 1\r\n\r\n": {"A": "1"},
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n": {"Nats-Num-Pending": "0"},
    b"NATS/1.0\r\nA B: x\ny\r\n\r\n": {"A B": "x\ny"},
    b"NATS/1.0\r\nA: \x00\xff\r\n\r\n": {"A": "\x00\udcff"},
}
CASES = [
    *((block, {**read, "": block.decode("utf-8", "surrogateescape")}) for block, read in BLOCKS.items()),
    *READABLE.items(),
]


@pytest.fixture
async def filled(nc: Connection, js: JetStream, request: pytest.FixtureRequest) -> JetStream:
    """Stream A, with one message for each case, each after another."""
    await js.create_stream(memory("A", "a.>", allow_direct=request.param))
    for data in (b"", b"data"):
        for block, _ in CASES:
            answer = await nc.request_block("a.x", data, block, timeout=10)
            assert b'"seq"' in answer.data
    return js


def assert_read(messages: Sequence[StoredMessage | JetStreamMsg], *, cut: bool) -> None:
    """All messages, with what can be read of their headers; `cut`: the server writes over a missing end."""
    assert [message.data for message in messages] == [b""] * len(CASES) + [b"data"] * len(CASES)
    for message, (block, expected) in zip(messages, CASES * 2, strict=True):
        is_cut = cut and not block.endswith(b"\r\n\r\n")
        assert dict(message.headers) == (dict(Headers.parse(block[:-2])) if is_cut else expected), block


@pytest.mark.parametrize("filled", [True], indirect=True)
async def test_direct_gets_read_malformed_headers(filled: JetStream) -> None:
    stream = await filled.get_stream("A")
    assert_read([message async for message in stream.get_messages()], cut=True)
    assert_read([await stream.get_message(seq) for seq in range(1, 2 * len(CASES) + 1)], cut=True)


@pytest.mark.parametrize("filled", [False], indirect=True)
async def test_gets_from_the_leader_read_malformed_headers(filled: JetStream) -> None:
    stream = await filled.get_stream("A")
    assert_read([await stream.get_message(seq) for seq in range(1, 2 * len(CASES) + 1)], cut=False)


@pytest.mark.parametrize("filled", [False], indirect=True)
async def test_consumers_read_malformed_headers(filled: JetStream) -> None:
    count = 2 * len(CASES)
    consumer = await filled.create_consumer("A", ConsumerConfig(name="c", ack_policy=AckPolicy.EXPLICIT))
    batch = await consumer.fetch(count, expires=10)
    assert_read(batch, cut=False)
    await batch.ack()
    ordered = await filled.ordered_consumer("A")
    read: list[JetStreamMsg] = []
    async with ordered.messages() as messages:
        while len(read) < count:
            message = await messages.next(10)
            assert message is not None
            read.append(message)
    assert_read(read, cut=False)


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
@pytest.mark.parametrize("more", [0, 200])
async def test_ranges_have_malformed_headers(
    nc: Connection, js: JetStream, retention: str, more: int
) -> None:
    stream = await js.create_stream(memory("A", "a.>", allow_direct=True, retention=retention))
    for _ in range(more):  # So that the range is not read message by message.
        nc.publish("a.x", b"usual")
    for block, _ in CASES:
        await nc.request_block("a.x", b"", block, timeout=10)
    await js.publish("a.x", b"last")
    count = more + len(CASES) + 1
    wanted = StreamRange(stream="A", created=(await stream.info()).created, first_seq=1, next_seq=count + 1)
    frames = []
    async with aclosing(read_range(js.api, wanted)) as chunks:
        async for chunk in chunks:
            frames += chunk
    assert [sequence_of(frame) for frame in frames] == list(range(1, count + 1))
    assert frames[-1].data == b"last"


def sequence_of(frame: MsgFrame) -> int:
    if frame.reply:
        return parse_metadata(frame.reply).sequence.stream
    return int(parse_direct_get(frame.header)[2])
