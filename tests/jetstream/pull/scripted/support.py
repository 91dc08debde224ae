"""The status lines, and what the tests of pull requests with a scripted server share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from jetspark import (
    BadRequest,
    ConsumerDeleted,
    ConsumerIsPush,
    Consuming,
    Error,
    ExceededLimit,
    LeadershipChanged,
    Messages,
    NoResponders,
    ServerShutdown,
    StatusError,
    connect,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream, soon

HOUR = 3600.0

#: These carry what the request had left.
SILENT_WITH_NUMBERS = [
    "408 Request Timeout",
    "408 Interest Expired",
    "409 Message Size Exceeds MaxBytes",
    "409 Batch Completed",
]
SILENT_WITHOUT_NUMBERS = ["404 No Messages", "408 Requests Pending", "408 request timeout"]
SILENT = SILENT_WITH_NUMBERS + SILENT_WITHOUT_NUMBERS

ENDS = [
    ("400 Bad Request", BadRequest),
    ("400 Bad Request - Priority Group missing", BadRequest),
    ("409 Consumer Deleted", ConsumerDeleted),
    ("409 Consumer is push based", ConsumerIsPush),
]
RESTARTS = [("409 Leadership Change", LeadershipChanged), ("409 Server Shutdown", ServerShutdown)]
REFUSALS = [
    ("409 Exceeded MaxRequestBatch of 10", ExceededLimit),
    ("409 Exceeded MaxRequestExpires of 1s", ExceededLimit),
    ("409 Exceeded MaxRequestMaxBytes of 1024", ExceededLimit),
    ("409 Exceeded MaxWaiting", ExceededLimit),
    ("409 Something New", StatusError),
    ("412 Required Api Level", StatusError),
    ("499 Something Newer", StatusError),
    ("503", NoResponders),
    ("503 No Responders", NoResponders),
]


@asynccontextmanager
async def connected(server: ScriptedJetStream) -> AsyncIterator[JetStream]:
    async with connect(server.url, reconnect_wait=0.01) as nc:
        yield JetStream(nc)


@asynccontextmanager
async def scripted(**config: Any) -> AsyncIterator[tuple[ScriptedJetStream, Consumer]]:
    """A server whose consumers have this configuration, and one of them."""
    async with ScriptedJetStream(config=config) as server, connected(server) as js:
        yield server, await js.get_consumer("S", "C")


async def round_trip(consumer: Consumer) -> None:
    """Return when the client has read all that the server sent until now."""
    await consumer._api.connection.flush()


def pending(line: str) -> dict[str, Any]:
    return {"messages": 6} if line in SILENT_WITH_NUMBERS else {}


def counted(frame: bytes) -> int:
    """The size of an MSG frame as the server counts it: subject, reply and payload."""
    line, _, rest = frame.partition(b"\r\n")
    _, subject, _, reply, size = line.split(b" ")
    assert len(rest) == int(size) + 2
    return len(subject) + len(reply) + int(size)


class Reader:
    """Either kind of consume; what the user gets is in `got`."""

    def __init__(self, kind: str, consumer: Consumer, errors: Errors) -> None:
        self.kind = kind
        self._consumer = consumer
        self._errors = errors
        self._stack = AsyncExitStack()
        self.got: asyncio.Queue[JetStreamMsg] = asyncio.Queue()
        self.running: Consuming | Messages
        self._end: Callable[[], Awaitable[None]]

    async def start(self, **options: Any) -> None:
        defaults: dict[str, Any] = {"expires": HOUR, "on_error": self._errors}
        options = defaults | options
        if self.kind == "consume":
            consuming = await self._consumer.consume(self.got.put_nowait, **options)
            self._end = consuming.wait_closed
            self.running = consuming
        else:
            messages = self._consumer.messages(**options)
            self.running = await self._stack.enter_async_context(messages)
            reading = asyncio.create_task(self._read(messages))
            self._end = lambda: reading

    async def _read(self, messages: Any) -> None:
        async for message in messages:
            self.got.put_nowait(message)

    async def take(self, count: int) -> list[JetStreamMsg]:
        return [await soon(self.got) for _ in range(count)]

    async def ended(self) -> None:
        """Wait for the end; raises what ended it."""
        async with asyncio.timeout(20):
            await self._end()

    async def stop(self) -> None:
        if hasattr(self, "running"):
            await self.running.stop()
            try:
                await self.ended()
            except Error:
                pass
        await self._stack.aclose()
