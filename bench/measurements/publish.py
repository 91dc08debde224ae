"""Publishing to a stream on disk with acknowledgements, many messages in flight, always to a new stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import (
    CPU,
    RATE,
    SERVER_CPU,
    SIZES,
    Contender,
    Measurement,
    Sample,
    Stopwatch,
    on_both_loops,
)
from jetspark import StorageType, StreamConfig

STREAM: Final = StreamConfig(
    name="BENCH", subjects=["bench.publish"], storage=StorageType.FILE, allow_atomic=True
)
SUBJECT: Final = "bench.publish"
WINDOW: Final = 4096
#: The most messages of an atomic batch.
ATOMIC: Final = 1000


class Bed:
    def __init__(self, server: jetspark.server.Server, js: jetspark.blocking.JetStream, size: int) -> None:
        self.url = server.url
        self.port = server.port
        self._server = server.pid
        self.payload = b"x" * size
        self._js = js

    def watch(self) -> Stopwatch:
        return Stopwatch(self._server)

    @contextmanager
    def stream(self, count: int) -> Iterator[None]:
        """An empty stream, which must hold every message at the end."""
        stream = self._js.create_stream(STREAM)
        try:
            yield
            stored = stream.info().state.messages
            if stored != count:
                raise RuntimeError(f"{stored} messages are stored, not {count}")
        finally:
            self._js.delete_stream(STREAM.name)


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server, jetspark.blocking.connect(server.url) as nc:
        yield Bed(server, nc.jetstream(timeout=30), size)


Publisher = Callable[[Bed, int], Coroutine[Any, Any, Sample]]


def stored(publisher: Publisher) -> Publisher:
    """A run with its own stream."""

    async def run(bed: Bed, count: int) -> Sample:
        with bed.stream(count):
            return await publisher(bed, count)

    return run


async def send(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        with bed.watch() as watch:
            async with nc.jetstream().publisher(WINDOW) as publisher:
                for _ in range(count):
                    await publisher.send(SUBJECT, bed.payload)
    return watch.sample(count)


async def publish(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        with bed.watch() as watch:
            async with nc.jetstream().publisher(WINDOW, max_buffered_bytes=1 << 30) as publisher:
                for _ in range(count):
                    publisher.publish(SUBJECT, bed.payload)
    return watch.sample(count)


async def blocking_send(bed: Bed, count: int) -> Sample:
    return await asyncio.to_thread(_blocking_send, bed, count)


def _blocking_send(bed: Bed, count: int) -> Sample:
    with jetspark.blocking.connect(bed.url) as nc:
        watch = bed.watch()
        with watch, nc.jetstream().publisher(WINDOW) as publisher:
            for _ in range(count):
                publisher.send(SUBJECT, bed.payload)
    return watch.sample(count)


async def atomic(bed: Bed, count: int) -> Sample:
    async with jetspark.connect(bed.url) as nc:
        js = nc.jetstream(timeout=30)
        with bed.watch() as watch:
            for start in range(0, count, ATOMIC):
                async with js.atomic_batch() as batch:
                    for _ in range(min(ATOMIC, count - start)):
                        batch.add(SUBJECT, bed.payload)
    return watch.sample(count)


async def publish_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    js = nc.jetstream(publish_async_max_pending=WINDOW)
    with bed.watch() as watch:
        for _ in range(count):
            await js.publish_async(SUBJECT, bed.payload)
        await js.publish_async_completed()
    await nc.close()
    return watch.sample(count)


async def publish_natsrpy(bed: Bed, count: int) -> Sample:
    """natsrpy has no window: fill one, await it, and fill the next."""
    import natsrpy

    nc = natsrpy.Nats([bed.url])
    await nc.startup()
    js = await nc.jetstream()
    with bed.watch() as watch:
        for start in range(0, count, WINDOW):
            size = min(WINDOW, count - start)
            await asyncio.gather(*[js.publish(SUBJECT, bed.payload, wait=True) for _ in range(size)])
    await nc.shutdown()
    return watch.sample(count)


async def publish_raw(bed: Bed, count: int) -> Sample:
    with bed.watch() as watch:
        raw.publish_acknowledged(bed.port, SUBJECT, bed.payload, count, WINDOW)
    return watch.sample(count)


async def publish_raw_ids(bed: Bed, count: int) -> Sample:
    with bed.watch() as watch:
        raw.publish_acknowledged(bed.port, SUBJECT, bed.payload, count, WINDOW, message_ids=True)
    return watch.sample(count)


PUBLISH: Final = Measurement(
    name="publish",
    title="Publishing with acknowledgements",
    text=f"""
    To a stream on disk, with {WINDOW:,} messages in flight; every message is acknowledged. jetspark
    gives every message an id, so that a retry is safe; ids cost the server part of its rate, so the raw
    socket runs with and without them. The peers use no ids. natsrpy has no window: its messages are
    awaited {WINDOW:,} at a time. Atomic batches have {ATOMIC:,} messages and are sent one after the
    other.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark, await send()", stored(send), "jetspark", every_size=True)),
        Contender("jetspark, publish()", stored(publish), "jetspark", every_size=True),
        Contender("jetspark blocking, send()", stored(blocking_send), "jetspark"),
        Contender("jetspark, atomic batches", stored(atomic), "jetspark"),
        *on_both_loops(
            Contender(
                "nats-py", stored(publish_nats_py), "nats-py", needs=("nats",), fewer=4, every_size=True
            )
        ),
        Contender(
            "natsrpy", stored(publish_natsrpy), "natsrpy", needs=("natsrpy",), fewer=40, every_size=True
        ),
        Contender("raw socket, ids", stored(publish_raw_ids), "raw socket", every_size=True),
        Contender("raw socket, no ids", stored(publish_raw), "raw socket"),
    ),
    count=100_000,
    quick=2_000,
    sizes=SIZES,
    max_bytes=48 << 20,
    columns=(RATE, CPU, SERVER_CPU),
    peer="nats-py",
    ceiling="raw socket, ids",
)
