"""Core NATS: publishing without subscribers, and receiving what a raw socket in another process publishes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import jetspark
import jetspark.server
from bench import raw
from bench.harness import SIZES, Contender, Measurement, Sample, Stopwatch, on_both_loops

#: natsrpy makes a future for each call: this many are awaited together.
TOGETHER: Final = 1000
#: Bytes that may wait for a subscriber, in the server (64 MiB by default) and in the clients.
MAX_BYTES: Final = 1 << 30


@dataclasses.dataclass(frozen=True)
class Bed:
    url: str
    port: int
    payload: bytes


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run(config=f"max_pending: {MAX_BYTES}") as server:
        yield Bed(server.url, server.port, b"x" * size)


# --- publish


async def publish_jetspark(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        with Stopwatch() as watch:
            for _ in range(count):
                await nc.publish("bench.publish", bed.payload)
            await nc.flush(60)
    return watch.sample(count)


async def publish_jetspark_unawaited(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url, pending_size=1 << 30) as nc:
        with Stopwatch() as watch:
            for _ in range(count):
                nc.publish("bench.publish", bed.payload)
            await nc.flush(60)
    return watch.sample(count)


async def publish_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    with Stopwatch() as watch:
        for _ in range(count):
            await nc.publish("bench.publish", bed.payload)
        await nc.flush(60)
    await nc.close()
    return watch.sample(count)


async def publish_natsrpy(bed: Bed, count: int) -> Sample:
    import natsrpy

    nc = natsrpy.Nats([bed.url])
    await nc.startup()
    with Stopwatch() as watch:
        for start in range(0, count, TOGETHER):
            size = min(TOGETHER, count - start)
            await asyncio.gather(*[nc.publish("bench.publish", bed.payload) for _ in range(size)])
        await nc.flush()
    await nc.shutdown()
    return watch.sample(count)


def publish_raw(bed: Bed, count: int) -> Sample:
    with Stopwatch() as watch:
        raw.publish(bed.port, "bench.publish", bed.payload, count)
    return watch.sample(count)


# --- subscribe


def blaster(bed: Bed, count: int) -> raw.Blaster:
    return raw.Blaster(bed.port, "bench.subscribe", len(bed.payload), count)


async def subscribe_jetspark(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        subscription = await nc.subscribe(
            "bench.subscribe", pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES
        )
        await nc.flush()
        publisher = blaster(bed, count)
        received = 0
        with Stopwatch() as watch:
            publisher.go()
            async for _ in subscription:
                received += 1
                if received == count:
                    break
        publisher.wait()
    return watch.sample(count)


async def subscribe_jetspark_callback(bed: Bed, count: int) -> Sample:
    done = asyncio.Event()
    received = 0

    def handle(_: jetspark.Msg) -> None:
        nonlocal received
        received += 1
        if received == count:
            done.set()

    async with jetspark.connect(bed.url) as nc:
        await nc.subscribe(
            "bench.subscribe", callback=handle, pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES
        )
        await nc.flush()
        publisher = blaster(bed, count)
        with Stopwatch() as watch:
            publisher.go()
            await asyncio.wait_for(done.wait(), 60)
        publisher.wait()
    return watch.sample(count)


async def subscribe_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    done = asyncio.Event()
    received = 0

    async def handle(_: object) -> None:
        nonlocal received
        received += 1
        if received == count:
            done.set()

    nc = await nats.connect(bed.url)
    await nc.subscribe("bench.subscribe", cb=handle, pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES)
    await nc.flush()
    publisher = blaster(bed, count)
    with Stopwatch() as watch:
        publisher.go()
        await asyncio.wait_for(done.wait(), 60)
    publisher.wait()
    await nc.close()
    return watch.sample(count)


async def subscribe_natsrpy(bed: Bed, count: int) -> Sample:
    """With a callback, which is faster there than its iterator."""
    import natsrpy

    done = asyncio.Event()
    received = 0

    async def handle(_: object) -> None:
        nonlocal received
        received += 1
        if received == count:
            done.set()

    nc = natsrpy.Nats([bed.url])
    await nc.startup()
    async with nc.subscribe("bench.subscribe", callback=handle):
        await nc.flush()
        publisher = blaster(bed, count)
        with Stopwatch() as watch:
            publisher.go()
            await asyncio.wait_for(done.wait(), 60)
        publisher.wait()
    await nc.shutdown()
    return watch.sample(count)


def subscribe_raw(bed: Bed, count: int) -> Sample:
    reader = raw.RawSocket(bed.port)
    reader.send(b"SUB bench.subscribe 1\r\n")
    reader.flush()
    publisher = blaster(bed, count)
    with Stopwatch() as watch:
        publisher.go()
        reader.count(b"MSG bench.subscribe ", count)
    publisher.wait()
    reader.close()
    return watch.sample(count)


PUBLISH: Final = Measurement(
    name="core-publish",
    title="Core publish",
    text=f"""
    Publishing without a subscriber, up to the server's answer to a final PING; natsrpy has none and ends
    when all is sent. It makes a future for each message; {TOGETHER:,} of them are awaited together, which is
    faster than one after the other.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, await publish()", publish_jetspark, "jetspark", every_size=True)),
        Contender("jetspark, publish()", publish_jetspark_unawaited, "jetspark"),
        *on_both_loops(
            Contender("nats-py", publish_nats_py, "nats-py", needs=("nats",), fewer=10, every_size=True)
        ),
        Contender("natsrpy", publish_natsrpy, "natsrpy", needs=("natsrpy",), fewer=500, every_size=True),
        Contender("raw socket", publish_raw, "raw socket", every_size=True),
    ),
    count=1_000_000,
    quick=2_000,
    sizes=SIZES,
    max_bytes=128 << 20,
    peer="nats-py",
    ceiling="raw socket",
)

SUBSCRIBE: Final = Measurement(
    name="core-subscribe",
    title="Core subscribe",
    text="""
    A raw socket in another process publishes as fast as it can. The peers receive with a callback,
    their fastest way.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, async for", subscribe_jetspark, "jetspark", every_size=True)),
        Contender("jetspark, callback", subscribe_jetspark_callback, "jetspark"),
        *on_both_loops(
            Contender("nats-py", subscribe_nats_py, "nats-py", needs=("nats",), fewer=4, every_size=True)
        ),
        # Not more than fit into its queue, beyond which it drops messages.
        Contender("natsrpy", subscribe_natsrpy, "natsrpy", needs=("natsrpy",), fewer=100, every_size=True),
        Contender("raw socket", subscribe_raw, "raw socket", every_size=True),
    ),
    count=300_000,
    quick=2_000,
    sizes=SIZES,
    max_bytes=128 << 20,
    peer="nats-py",
    ceiling="raw socket",
)
