"""What several tests of JetStream need."""

from __future__ import annotations

import asyncio
from typing import Any

from jetspark.core.connection import Connection
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.stream import Stream
from jetspark.wire import encode
from tests.support.proxy import TCPProxy
from tests.support.timing import set_timing

__all__ = ["Errors", "cut_at", "cut_at_answer", "memory", "patient", "scripted_stream", "store_block"]


class Errors(asyncio.Queue[Exception]):
    """An `on_error` that keeps the errors it gets."""

    def __call__(self, error: Exception) -> None:
        self.put_nowait(error)


def patient(nc: Connection) -> JetStream:
    """A context that repeats a lost request soon if that is safe, and otherwise waits for an hour."""
    js = JetStream(nc, timeout=3600.0)
    set_timing(js, silence=0.1)
    return js


def memory(name: str, *subjects: str, **options: Any) -> StreamConfig:
    """A stream in memory."""
    return StreamConfig(name=name, subjects=list(subjects), storage="memory", **options)


async def store_block(nc: Connection, subject: str, block: bytes) -> None:
    """Publish a message with exactly these header bytes and no payload, and wait until a stream stored it."""
    inbox = nc.new_inbox()
    async with await nc.subscribe(inbox) as acks:
        await nc.session.outbox.write(encode.hpub(subject.encode(), inbox.encode(), block, b""))
        await acks.next(timeout=5)


def cut_at(proxy: TCPProxy, text: bytes) -> None:
    """Cut the connection, once, instead of forwarding what a client sends with `text` in it."""
    _cut(proxy, "client_to_server", text)


def cut_at_answer(proxy: TCPProxy, text: bytes) -> None:
    """Cut the connection, once, instead of forwarding what the server sends with `text` in it."""
    _cut(proxy, "server_to_client", text)


def _cut(proxy: TCPProxy, direction: str, text: bytes) -> None:
    def change(data: bytes) -> bytes | None:
        if text not in data:
            return data
        setattr(proxy, direction, None)
        proxy.cut()
        return None

    setattr(proxy, direction, change)


def scripted_stream(nc: Connection, timeout: float = 5.0) -> Stream:
    """A stream A that allows direct gets, on a scripted server that was not asked."""
    wire = {"config": {"name": "A", "allow_direct": True}, "created": "2026-01-01T00:00:00Z", "state": {}}
    return Stream(JetStream(nc, timeout=timeout).api, StreamInfo.from_wire(wire))
