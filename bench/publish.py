"""Publishing to a stream on disk with acknowledgements, many messages in flight.

jetspark gives every message an id, so that a retry is safe. The server does more work for ids (compare the
two raw sockets). The peers and the ceiling use no ids. Every measurement has a fresh stream.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Awaitable, Callable

import nats
import natsrpy

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import Contender, Stopwatch, compete
from jetspark import StorageType, StreamConfig
from jetspark.server import Server

STREAM = StreamConfig(name="BENCH", subjects=["bench.publish"], storage=StorageType.FILE)
SUBJECT = STREAM.subjects[0]
#: The peers are slower and publish this many times fewer messages.
FEWER = 5


async def run(arguments: Namespace) -> None:
    """Two window sizes against one server."""
    payload = b"x" * arguments.size
    with jetspark.server.run() as server:
        async with jetspark.connect(server.url) as nc:
            for window in (4096, 10_000):
                suite = PublishSuite(server, nc.jetstream(), payload, arguments.messages, window)
                await compete(
                    f"publish with acknowledgements, {arguments.size} bytes, {window} under way",
                    [
                        Contender(name, suite.measure(publish))
                        for name, publish in (
                            ("jetspark, await send()", suite.send),
                            ("jetspark, publish()", suite.publish),
                            ("jetspark blocking, send()", suite.blocking_send),
                            ("natsrpy", suite.publish_natsrpy),
                            ("nats-py", suite.publish_nats_py),
                            ("raw socket, message ids", suite.publish_raw_ids),
                            ("raw socket", suite.publish_raw),
                        )
                    ],
                    rounds=arguments.rounds,
                    peer="nats-py",
                    ceiling="raw socket",
                )


class PublishSuite:
    def __init__(
        self, server: Server, js: jetspark.JetStream, payload: bytes, count: int, window: int
    ) -> None:
        self.url = server.url
        self.port = server.port
        self.js = js
        self.payload = payload
        self.count = count
        self.window = window

    def measure(self, publish: Callable[[], Awaitable[float]]) -> Callable[[], Awaitable[float]]:
        """A measurement with its own stream."""

        async def measured() -> float:
            stream = await self.js.create_stream(STREAM)
            try:
                rate = await publish()
                stored = (await stream.info()).state.messages
                if stored not in (self.count, self.count // FEWER):
                    raise RuntimeError(f"{stored} messages are stored, not {self.count}")
                return rate
            finally:
                await self.js.delete_stream(stream.name)

        return measured

    async def send(self) -> float:
        async with jetspark.connect(self.url) as nc:
            with Stopwatch() as watch:
                async with nc.jetstream().publisher(self.window) as publisher:
                    for _ in range(self.count):
                        await publisher.send(SUBJECT, self.payload)
        return watch.rate(self.count)

    async def publish(self) -> float:
        async with jetspark.connect(self.url) as nc:
            with Stopwatch() as watch:
                async with nc.jetstream().publisher(self.window, max_buffered_bytes=1 << 30) as publisher:
                    for _ in range(self.count):
                        publisher.publish(SUBJECT, self.payload)
        return watch.rate(self.count)

    async def blocking_send(self) -> float:
        return await asyncio.to_thread(self._blocking_send)

    def _blocking_send(self) -> float:
        with jetspark.blocking.connect(self.url) as nc:
            watch = Stopwatch()
            with watch, nc.jetstream().publisher(self.window) as publisher:
                for _ in range(self.count):
                    publisher.send(SUBJECT, self.payload)
        return watch.rate(self.count)

    async def publish_nats_py(self) -> float:
        count = self.count // FEWER
        nc = await nats.connect(self.url)
        js = nc.jetstream(publish_async_max_pending=self.window)
        with Stopwatch() as watch:
            for _ in range(count):
                await js.publish_async(SUBJECT, self.payload)
            await js.publish_async_completed()
        await nc.close()
        return watch.rate(count)

    async def publish_natsrpy(self) -> float:
        """natsrpy has no window: fill one, await it, and fill the next."""
        count = self.count // FEWER
        nc = natsrpy.Nats([self.url])
        await nc.startup()
        js = await nc.jetstream()
        with Stopwatch() as watch:
            for start in range(0, count, self.window):
                size = min(self.window, count - start)
                await asyncio.gather(*(js.publish(SUBJECT, self.payload, wait=True) for _ in range(size)))
        await nc.shutdown()
        return watch.rate(count)

    async def publish_raw(self) -> float:
        with Stopwatch() as watch:
            raw.publish_acknowledged(self.port, SUBJECT, self.payload, self.count, self.window)
        return watch.rate(self.count)

    async def publish_raw_ids(self) -> float:
        with Stopwatch() as watch:
            raw.publish_acknowledged(
                self.port, SUBJECT, self.payload, self.count, self.window, message_ids=True
            )
        return watch.rate(self.count)
