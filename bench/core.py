"""Core NATS: publishing without subscribers, and receiving messages of a raw socket in another process."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from urllib.parse import urlsplit

import nats

import jetspark
import jetspark.server
from bench import raw
from bench.harness import Contender, Stopwatch, compete


async def run(arguments: Namespace) -> None:
    """Both comparisons against a fresh server."""
    payload = b"x" * arguments.size
    with jetspark.server.run() as server:
        port = urlsplit(server.url).port
        assert port is not None
        # Core NATS is faster than JetStream: more messages make runs of about the same length.
        suite = CoreSuite(server.url, port, payload, 4 * arguments.messages)
        await compete(
            f"core publish, {arguments.size} bytes",
            [
                Contender("jetspark, await publish()", suite.publish_jetspark),
                Contender("jetspark, publish()", suite.publish_jetspark_unawaited),
                Contender("nats-py", suite.publish_nats_py),
                Contender("raw socket", suite.publish_raw),
            ],
            rounds=arguments.rounds,
            peer="nats-py",
            ceiling="raw socket",
        )
        await compete(
            f"core subscribe, {arguments.size} bytes",
            [
                Contender("jetspark, async for", suite.subscribe_jetspark),
                Contender("jetspark, callback", suite.subscribe_jetspark_callback),
                Contender("nats-py", suite.subscribe_nats_py),
                Contender("raw socket", suite.subscribe_raw),
            ],
            rounds=arguments.rounds,
            peer="nats-py",
            ceiling="raw socket",
        )


class CoreSuite:
    def __init__(self, url: str, port: int, payload: bytes, count: int) -> None:
        self.url = url
        self.port = port
        self.payload = payload
        self.count = count

    async def publish_jetspark(self) -> float:
        async with jetspark.connect(self.url) as nc:
            with Stopwatch() as watch:
                for _ in range(self.count):
                    await nc.publish("bench.publish", self.payload)
                await nc.flush(60)
        return watch.rate(self.count)

    async def publish_jetspark_unawaited(self) -> float:
        async with jetspark.connect(self.url, pending_size=1 << 30) as nc:
            with Stopwatch() as watch:
                for _ in range(self.count):
                    nc.publish("bench.publish", self.payload)
                await nc.flush(60)
        return watch.rate(self.count)

    async def publish_nats_py(self) -> float:
        nc = await nats.connect(self.url)
        with Stopwatch() as watch:
            for _ in range(self.count):
                await nc.publish("bench.publish", self.payload)
            await nc.flush(60)
        await nc.close()
        return watch.rate(self.count)

    async def publish_raw(self) -> float:
        with Stopwatch() as watch:
            raw.publish(self.port, "bench.publish", self.payload, self.count)
        return watch.rate(self.count)

    async def subscribe_jetspark(self) -> float:
        async with jetspark.connect(self.url) as nc:
            subscription = await nc.subscribe("bench.subscribe", pending_msgs_limit=self.count)
            await nc.flush()
            blaster = raw.Blaster(self.port, "bench.subscribe", len(self.payload), self.count)
            received = 0
            with Stopwatch() as watch:
                blaster.go()
                async for _ in subscription:
                    received += 1
                    if received == self.count:
                        break
            blaster.wait()
        return watch.rate(self.count)

    async def subscribe_jetspark_callback(self) -> float:
        done = asyncio.Event()
        received = 0

        def handle(_: jetspark.Msg) -> None:
            nonlocal received
            received += 1
            if received == self.count:
                done.set()

        async with jetspark.connect(self.url) as nc:
            await nc.subscribe("bench.subscribe", callback=handle, pending_msgs_limit=self.count)
            await nc.flush()
            blaster = raw.Blaster(self.port, "bench.subscribe", len(self.payload), self.count)
            with Stopwatch() as watch:
                blaster.go()
                await asyncio.wait_for(done.wait(), 60)
            blaster.wait()
        return watch.rate(self.count)

    async def subscribe_nats_py(self) -> float:
        done = asyncio.Event()
        received = 0

        async def handle(_: object) -> None:
            nonlocal received
            received += 1
            if received == self.count:
                done.set()

        nc = await nats.connect(self.url)
        await nc.subscribe(
            "bench.subscribe", cb=handle, pending_msgs_limit=self.count, pending_bytes_limit=1 << 30
        )
        await nc.flush()
        blaster = raw.Blaster(self.port, "bench.subscribe", len(self.payload), self.count)
        with Stopwatch() as watch:
            blaster.go()
            await asyncio.wait_for(done.wait(), 60)
        blaster.wait()
        await nc.close()
        return watch.rate(self.count)

    async def subscribe_raw(self) -> float:
        reader = raw.RawSocket(self.port)
        reader.send(b"SUB bench.subscribe 1\r\n")
        reader.flush()
        blaster = raw.Blaster(self.port, "bench.subscribe", len(self.payload), self.count)
        with Stopwatch() as watch:
            blaster.go()
            reader.count(b"MSG bench.subscribe ", self.count)
        blaster.wait()
        reader.close()
        return watch.rate(self.count)
