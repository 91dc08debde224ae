"""Many small streams: a scan of all of them, and the planning of a streaming query that has nothing to do."""

from __future__ import annotations

import asyncio
import atexit
import functools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import jetspark
import jetspark.blocking
from bench.delay import delayed
from bench.harness import Column, Contender, Measurement, Sample
from bench.processor import metered, server, session
from jetspark import StorageType, StreamConfig
from jetspark.spark.source import JetStreamDataSource

#: Messages in each stream.
EACH: Final = 3
#: Seconds of delay, in each direction.
DELAY: Final = 0.005
#: Streams that are created at the same time.
TOGETHER: Final = 50


class Bed:
    """Streams MANY-0 and so on with `EACH` messages each, and ONE with as many as all of them."""

    def __init__(self, far: str) -> None:
        self.near, self.far = server().url, far
        self._readers = {url: self._idle(url) for url in (self.near, far)}

    def _idle(self, url: str) -> tuple[Any, Any]:
        """A stream reader that has planned everything, and its offset."""
        source = JetStreamDataSource({"servers": url, "stream": "MANY-*"})
        reader = source.streamReader(schema=source.schema())
        return reader, reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    def idle(self, url: str) -> Sample:
        reader, offset = self._readers[url]
        start = time.perf_counter()
        if reader.latestOffset(offset, reader.getDefaultReadLimit()) != offset:
            raise RuntimeError("the streams are not idle")
        return {"seconds": time.perf_counter() - start}

    def scan(self, streams: str, count: int) -> Sample:
        frame = session().read.format("jetstream").option("servers", self.near).option("stream", streams)
        found = 0

        def work() -> None:
            nonlocal found
            found = frame.load().count()

        # For a million rows, so that the CPU time is that of the query.
        sample = metered(1_000_000, work)
        if found != EACH * count:
            raise RuntimeError(f"{found} rows, not {EACH * count}")
        return sample


@functools.cache
def distant() -> str:
    """The URL of the server behind a delay. It stays until the end, as connections to it do."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(delayed(server().port, DELAY))


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    session()
    names = ["ONE", *(f"MANY-{number}" for number in range(count))]
    asyncio.run(_fill(names, b"x" * size))
    bed = Bed(distant())
    bed.scan("ONE", count)  # Warm-up.
    yield bed
    with jetspark.blocking.connect(server().url) as nc:
        for name in names:
            nc.jetstream().delete_stream(name)


async def _fill(names: list[str], payload: bytes) -> None:
    async with jetspark.connect(server().url) as nc:
        js = nc.jetstream(timeout=60)
        creating = asyncio.Semaphore(TOGETHER)

        async def create(name: str) -> None:
            async with creating:
                await js.create_stream(
                    StreamConfig(name=name, subjects=[name.lower()], storage=StorageType.MEMORY)
                )

        await asyncio.gather(*[create(name) for name in names])
        async with js.publisher() as publisher:
            for name in names[1:]:
                for _ in range(EACH):
                    await publisher.send(name.lower(), payload)
                    await publisher.send("one", payload)


STREAMS: Final = Measurement(
    name="streams",
    title="Many streams",
    text=f"""
    1,000 streams with {EACH} messages each, found by a pattern. `count()` is a whole Spark query with a
    warm session; CPU time is in seconds per query. An idle `latestOffset` is what a streaming query
    asks before each batch when nothing new has arrived; with delay, the server is behind a proxy that
    adds {DELAY * 1e3:.0f} ms in each direction.
    """,
    bed=bed,
    contenders=(
        Contender("count(), 1,000 streams", lambda bed, n: bed.scan("MANY-*", n), "jetspark"),
        Contender("count(), one stream, as many rows", lambda bed, n: bed.scan("ONE", n), "jetspark"),
        Contender("idle latestOffset, 1,000 streams", lambda bed, n: bed.idle(bed.near), "jetspark"),
        Contender("idle latestOffset, 1,000 streams, delay", lambda bed, n: bed.idle(bed.far), "jetspark"),
    ),
    count=1000,
    quick=10,
    rounds=3,
    columns=(
        Column("seconds", "seconds", "{:.2f}"),
        Column("jvm", "JVM, s", "{:.2f}"),
        Column("python", "Python, s", "{:.2f}"),
        Column("server", "nats-server, s", "{:.2f}"),
    ),
)
