"""Consuming a stream: fetch, messages and consume, with and without acknowledgements.

Every measurement reads the same messages through a fresh consumer. All clients request 5,000 at a time.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import nats
import natsrpy

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import Contender, Stopwatch, compete
from jetspark import AckPolicy, ConsumerConfig, StorageType, StreamConfig

BATCH = 5_000
SUBJECT = "bench.jetstream"


async def run(arguments: Namespace) -> None:
    """Both acknowledgement policies against one stream on disk."""
    count = max(arguments.messages // BATCH, 1) * BATCH
    with jetspark.server.run() as server:
        port = urlsplit(server.url).port
        assert port is not None
        async with jetspark.connect(server.url) as nc:
            js = nc.jetstream(timeout=30)
            await js.create_stream(StreamConfig(name="BENCH", subjects=[SUBJECT], storage=StorageType.FILE))
            raw.publish_acknowledged(port, SUBJECT, b"x" * arguments.size, count, 4096)
            suite = JetStreamSuite(server.url, port, js, count)
            for policy in (AckPolicy.NONE, AckPolicy.EXPLICIT):
                await compete(
                    f"consume {count} of {arguments.size} bytes, ack {policy}",
                    [
                        Contender(name, suite.measure(policy, read))
                        for name, read in (
                            ("jetspark fetch(5000)", suite.fetch),
                            ("jetspark messages()", suite.messages),
                            ("jetspark consume()", suite.consume),
                            ("jetspark blocking fetch(5000)", suite.blocking_fetch),
                            ("natsrpy fetch(5000)", suite.fetch_natsrpy),
                            ("nats-py", suite.fetch_nats_py),
                            ("raw socket", suite.read_raw),
                        )
                    ],
                    rounds=arguments.rounds,
                    peer="nats-py",
                    ceiling="raw socket",
                )


class JetStreamSuite:
    """The ways to read the stream. Each takes the name of a consumer and whether to acknowledge."""

    def __init__(self, url: str, port: int, js: jetspark.JetStream, count: int) -> None:
        self.url = url
        self.port = port
        self.js = js
        self.count = count
        self._numbers = itertools.count(1)

    def measure(
        self, policy: AckPolicy, read: Callable[[str, bool], Awaitable[float]]
    ) -> Callable[[], Awaitable[float]]:
        """A measurement with its own consumer."""

        async def measured() -> float:
            acked = policy is AckPolicy.EXPLICIT
            config = ConsumerConfig(
                durable_name=f"c{next(self._numbers)}",
                ack_policy=policy,
                mem_storage=True,
                max_ack_pending=-1 if acked else None,
            )
            consumer = await self.js.create_consumer("BENCH", config)
            try:
                return await read(consumer.name, acked)
            finally:
                await consumer.delete()

        return measured

    async def fetch(self, name: str, acked: bool) -> float:
        async with jetspark.connect(self.url) as nc:
            consumer = await nc.jetstream().get_consumer("BENCH", name)
            with Stopwatch() as watch:
                for _ in range(self.count // BATCH):
                    batch = await consumer.fetch(BATCH)
                    if acked:
                        for message in batch:
                            message.ack()
                await nc.flush(60)
        return watch.rate(self.count)

    async def messages(self, name: str, acked: bool) -> float:
        received = 0
        async with jetspark.connect(self.url) as nc:
            consumer = await nc.jetstream().get_consumer("BENCH", name)
            with Stopwatch() as watch:
                async with consumer.messages(max_messages=BATCH) as messages:
                    async for message in messages:
                        if acked:
                            message.ack()
                        received += 1
                        if received == self.count:
                            break
                await nc.flush(60)
        return watch.rate(self.count)

    async def consume(self, name: str, acked: bool) -> float:
        received = 0

        def handle(message: jetspark.JetStreamMsg) -> None:
            nonlocal received
            if acked:
                message.ack()
            received += 1
            if received == self.count:
                running.stop()

        async with jetspark.connect(self.url) as nc:
            consumer = await nc.jetstream().get_consumer("BENCH", name)
            with Stopwatch() as watch:
                running = await consumer.consume(handle, max_messages=BATCH)
                await running.wait_closed()
                await nc.flush(60)
        return watch.rate(self.count)

    async def blocking_fetch(self, name: str, acked: bool) -> float:
        with jetspark.blocking.connect(self.url) as nc:
            consumer = nc.jetstream().get_consumer("BENCH", name)
            with Stopwatch() as watch:
                for _ in range(self.count // BATCH):
                    batch = consumer.fetch(BATCH)
                    if acked:
                        for message in batch:
                            message.ack()
                nc.flush(60)
        return watch.rate(self.count)

    async def fetch_natsrpy(self, name: str, acked: bool) -> float:
        nc = natsrpy.Nats([self.url])
        await nc.startup()
        js = await nc.jetstream()
        consumer = await (await js.streams.get("BENCH")).consumers.get_pull(name)
        received = 0
        with Stopwatch() as watch:
            while received < self.count:
                batch = await consumer.fetch(max_messages=BATCH)
                if acked:
                    for message in batch:
                        await message.ack()
                received += len(batch)
        await nc.shutdown()
        return watch.rate(self.count)

    async def fetch_nats_py(self, name: str, acked: bool) -> float:
        nc = await nats.connect(self.url)
        subscription = await nc.jetstream().pull_subscribe_bind(durable=name, stream="BENCH")
        received = 0
        with Stopwatch() as watch:
            while received < self.count:
                batch = await subscription.fetch(BATCH, timeout=10)
                if acked:
                    for message in batch:
                        await message.ack()
                received += len(batch)
            await nc.flush(60)
        await nc.close()
        return watch.rate(self.count)

    async def read_raw(self, name: str, acked: bool) -> float:
        with Stopwatch() as watch:
            raw.pull(self.port, "BENCH", name, subject=SUBJECT, count=self.count, batch=BATCH, acked=acked)
        return watch.rate(self.count)
