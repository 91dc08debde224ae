"""A call that failed does not act later: what was not sent is withdrawn, or the error says that it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

import jetspark
from jetspark import (
    Connection,
    ConnectionLost,
    ConsumerConfig,
    StreamConfig,
    Timeout,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.stream import Stream
from jetspark.server import Server
from tests.support.cases import for_each
from tests.support.watch import eventually

#: Requests that change something.
CHANGES: dict[str, Callable[[JetStream, Stream], Awaitable[object]]] = {
    "delete a stream": lambda js, stream: js.delete_stream("S"),
    "purge a stream": lambda js, stream: stream.purge(),
    "create a stream": lambda js, stream: js.create_stream(StreamConfig(name="T", subjects=["t"])),
    "update a stream": lambda js, stream: js.update_stream(
        StreamConfig(name="S", subjects=["s.>"], description="new")
    ),
    "delete a message": lambda js, stream: stream.delete_message(1),
    "create a consumer": lambda js, stream: js.create_consumer("S", ConsumerConfig(name="D")),
    # Its subject has wildcards, so it takes another way.
    "create a filtered consumer": lambda js, stream: js.create_consumer(
        "S", ConsumerConfig(name="D", filter_subject="s.*")
    ),
    "delete a consumer": lambda js, stream: js.delete_consumer("S", "C"),
    "publish": lambda js, stream: js.publish("s.a", b"two", retry_for=0),
    "publish with an id": lambda js, stream: js.publish("s.a", b"two", msg_id="two", retry_for=0),
}


@pytest.fixture
async def nc(server: Server) -> AsyncIterator[Connection]:
    async with await jetspark.connect(server.url, reconnect_wait=0.01) as connected:
        yield connected


@pytest.fixture
async def js(nc: Connection) -> JetStream:
    """The context of a stream with one message and one consumer."""
    js = nc.jetstream()
    await js.create_stream(StreamConfig(name="S", subjects=["s.>"]))
    await js.create_consumer("S", ConsumerConfig(name="C", durable_name="C"))
    await js.publish("s.a", b"one")
    return js


@pytest.fixture
async def stream(js: JetStream) -> Stream:
    return await js.get_stream("S")


async def state(nc: Connection) -> object:
    """What the changes would change."""
    js = nc.jetstream()
    streams = [
        (info.config.name, info.config.description, info.state.messages) async for info in js.streams()
    ]
    consumers = [info.name async for info in js.consumers("S")]
    return streams, consumers


async def test_while_disconnected_nothing_that_failed_acts_at_the_reconnect(
    server: Server, nc: Connection, js: JetStream, stream: Stream
) -> None:
    before = await state(nc)
    js.api.timeout = 0.3
    server.kill()
    await eventually(lambda: not nc.connected, "the end of the connection")
    for name, change in CHANGES.items():
        with pytest.raises(Timeout) as raised:
            await change(js, stream)
        assert "unknown" not in f"{raised.value} {raised.value.hint}", name
        task = asyncio.ensure_future(change(js, stream))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    assert nc.session.outbox.size == 0
    server.start()
    await nc.wait_connected(30)
    await nc.flush(30)
    assert await state(nc) == before


@for_each("name", [name for name in CHANGES if name not in ("delete a message", "publish with an id")])
async def test_after_a_request_was_sent_the_error_says_that_its_outcome_is_unknown(
    server: Server, nc: Connection, js: JetStream, stream: Stream, name: str
) -> None:
    js.api.timeout = 0.3
    server.pause()
    try:
        with pytest.raises((Timeout, ConnectionLost)) as raised:
            await CHANGES[name](js, stream)
        assert "unknown" in f"{raised.value} {raised.value.hint}"
    finally:
        server.resume()
        js.api.timeout = 30
