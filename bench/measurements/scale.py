"""Many readers on one connection: whether a message costs the same. And the memory of messages that wait."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import CPU, RATE, Column, Contender, Measurement, Sample, Stopwatch
from jetspark import AckPolicy, ConsumerConfig, StorageType, StreamConfig

SUBJECT: Final = "bench.scale"
STREAM_SUBJECT: Final = "bench.stored"
#: Bytes that may wait, in the server and in the clients.
MAX_BYTES: Final = 2 << 30
#: Messages that each of many consumers asks for.
BATCH: Final = 500


class Bed:
    """A server that lets subscribers be slow, with a stream of as many messages as one consumer reads."""

    def __init__(self, server: jetspark.server.Server, size: int) -> None:
        self.url, self.port, self.size = server.url, server.port, size


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with (
        jetspark.server.run(config=f"max_pending: {MAX_BYTES}") as server,
        jetspark.blocking.connect(server.url) as nc,
    ):
        config = StreamConfig(name="BENCH", subjects=[STREAM_SUBJECT], storage=StorageType.MEMORY)
        nc.jetstream().create_stream(config)
        raw.publish_acknowledged(server.port, STREAM_SUBJECT, b"x" * size, count, 1024)
        yield Bed(server, size)


async def subscriptions(bed: Bed, count: int, *, number: int) -> Sample:
    """Every message goes to all subscriptions, which together receive `count`."""
    each = count // number
    done = asyncio.Event()
    left = number * each

    def handle(_: jetspark.Msg) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async with jetspark.connect(bed.url) as nc:
        for _ in range(number):
            await nc.subscribe(
                SUBJECT, callback=handle, pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES
            )
        await nc.flush()
        publisher = raw.Blaster(bed.port, SUBJECT, bed.size, each)
        with Stopwatch() as watch:
            publisher.go()
            await asyncio.wait_for(done.wait(), 60)
        publisher.wait()
    return watch.sample(number * each)


async def consumers(bed: Bed, count: int, *, number: int) -> Sample:
    """Every consumer reads the beginning of the stream; together they read `count` messages."""
    each = count // number

    async def read(consumer: jetspark.Consumer) -> None:
        received = 0
        async with consumer.messages(max_messages=BATCH) as messages:
            async for _ in messages:
                received += 1
                if received == each:
                    return

    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream(timeout=30)
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True)
        made = [await js.create_consumer("BENCH", config) for _ in range(number)]
        with Stopwatch() as watch:
            await asyncio.wait_for(asyncio.gather(*map(read, made)), 60)
        for consumer in made:
            await consumer.delete()
    return watch.sample(number * each)


# --- memory, in a process of its own


def waiting(bed: Bed, count: int, *, client: str) -> Sample:
    """Bytes of memory for a message that waits to be taken."""
    arguments = json.dumps([client, bed.url, bed.port, bed.size, count])
    command = [sys.executable, "-m", "bench.measurements.scale", arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return {"memory": float(done.stdout)}


async def _measure_waiting(client: str, url: str, port: int, size: int, count: int) -> float:
    pending = _jetspark_pending(url, count) if client == "jetspark" else _nats_py_pending(url, count)
    await anext(pending)
    publisher = raw.Blaster(port, SUBJECT, size, count)
    gc.collect()
    before = _resident()
    publisher.go()
    async with asyncio.timeout(60):
        while await anext(pending) < count:
            await asyncio.sleep(0.05)
    gc.collect()
    used = _resident() - before
    publisher.wait()
    await pending.aclose()
    return used / count


async def _jetspark_pending(url: str, count: int) -> AsyncGenerator[int]:
    async with jetspark.connect(url) as nc:
        subscription = await nc.subscribe(SUBJECT, pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES)
        await nc.flush()
        while True:
            yield subscription.pending_msgs


async def _nats_py_pending(url: str, count: int) -> AsyncGenerator[int]:
    import nats

    nc = await nats.connect(url)
    subscription = await nc.subscribe(SUBJECT, pending_msgs_limit=count, pending_bytes_limit=MAX_BYTES)
    await nc.flush()
    try:
        while True:
            yield subscription.pending_msgs
    finally:
        await nc.close()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _contenders() -> Iterator[Contender]:
    for number in (1, 10, 100, 1000):
        name = f"{number:,} subscription{'s' if number > 1 else ''}"
        yield Contender(name, functools.partial(subscriptions, number=number), "jetspark")
    for number in (1, 10, 100):
        name = f"{number} consumer{'s' if number > 1 else ''}, messages()"
        yield Contender(name, functools.partial(consumers, number=number), "jetspark")
    yield Contender("jetspark, messages that wait", functools.partial(waiting, client="jetspark"), "jetspark")
    nats_py: Any = functools.partial(waiting, client="nats-py")
    yield Contender("nats-py, messages that wait", nats_py, "nats-py", needs=("nats",))


SCALE: Final = Measurement(
    name="scale",
    title="Many readers on one connection",
    text=f"""
    A message should cost the same however many subscriptions or consumers share a connection. All
    readers together receive the same number of messages; a published one goes to every subscription,
    and every consumer (`messages({BATCH})`, no acknowledgements) reads the beginning of the same stream.

    Memory is that of a message which waits in a subscription to be taken: how much the process grows
    until all have arrived, divided by their number.
    """,
    bed=bed,
    contenders=tuple(_contenders()),
    count=1_000_000,
    quick=2_000,
    rounds=3,
    columns=(RATE, CPU, Column("memory", "bytes of memory/message", "{:,.0f}")),
)


if __name__ == "__main__":
    print(asyncio.run(_measure_waiting(*json.loads(sys.argv[1]))))
