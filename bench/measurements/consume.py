"""Reading a stream with and without acknowledgements.

Every run reads the same messages through a fresh consumer. All clients request the same batch at a time.
"""

from __future__ import annotations

import asyncio
import itertools
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
from jetspark import AckPolicy, ConsumerConfig, StorageType, StreamConfig

BATCH: Final = 5_000
#: At large sizes, this many bytes limit a batch.
BATCH_BYTES: Final = 16 << 20
SUBJECT: Final = "bench.jetstream"
DELIVER: Final = "bench.deliver"


class Bed:
    """A stream on disk, and a new consumer for every run."""

    def __init__(self, server: jetspark.server.Server, js: jetspark.blocking.JetStream, size: int) -> None:
        self.url = server.url
        self.port = server.port
        self._server = server.pid
        self.batch = min(BATCH, BATCH_BYTES // size)
        self._js = js
        self._numbers = itertools.count(1)

    def watch(self) -> Stopwatch:
        return Stopwatch(self._server)

    @contextmanager
    def consumer(self, *, acked: bool, push: bool = False) -> Iterator[str]:
        """The name of a new consumer."""
        config = ConsumerConfig(
            durable_name=f"c{next(self._numbers)}",
            ack_policy=AckPolicy.EXPLICIT if acked else AckPolicy.NONE,
            mem_storage=True,
            # The server pushes no more than this ahead; pull requests limit themselves.
            max_ack_pending=(2 * BATCH if push else -1) if acked else None,
            deliver_subject=DELIVER if push else None,
        )
        consumer = self._js.create_consumer("BENCH", config)
        try:
            yield consumer.name
        finally:
            consumer.delete()


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server, jetspark.blocking.connect(server.url) as nc:
        js = nc.jetstream(timeout=30)
        js.create_stream(StreamConfig(name="BENCH", subjects=[SUBJECT], storage=StorageType.FILE))
        raw.publish_acknowledged(server.port, SUBJECT, b"x" * size, count, 1024)
        yield Bed(server, js, size)


Reader = Callable[[Bed, str, int, bool], Coroutine[Any, Any, Sample]]


def reads(
    reader: Reader, *, acked: bool, push: bool = False
) -> Callable[[Bed, int], Coroutine[Any, Any, Sample]]:
    """A run with its own consumer."""

    async def run(bed: Bed, count: int) -> Sample:
        with bed.consumer(acked=acked, push=push) as name:
            return await reader(bed, name, count, acked)

    return run


# --- jetspark


async def fetch(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = 0
    async with jetspark.connect(bed.url) as nc:
        consumer = await nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            while received < count:
                batch = await consumer.fetch(min(bed.batch, count - received))
                if acked:
                    batch.ack()
                received += len(batch)
            await nc.flush(60)
    return watch.sample(count)


async def fetch_and_look(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = size = 0
    async with jetspark.connect(bed.url) as nc:
        consumer = await nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            while received < count:
                batch = await consumer.fetch(min(bed.batch, count - received))
                for message in batch:
                    size += len(message.data)
                received += len(batch)
            await nc.flush(60)
    return watch.sample(count)


async def messages(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = 0
    async with jetspark.connect(bed.url) as nc:
        consumer = await nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            iterator = consumer.messages(max_messages=bed.batch)
            async for message in iterator:
                if acked:
                    message.ack()
                received += 1
                if received == count:
                    break
            await nc.flush(60)
        await iterator.stop()
    return watch.sample(count)


async def messages_and_look(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = size = 0
    async with jetspark.connect(bed.url) as nc:
        consumer = await nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            iterator = consumer.messages(max_messages=bed.batch)
            async for message in iterator:
                size += len(message.data)
                received += 1
                if received == count:
                    break
            await nc.flush(60)
        await iterator.stop()
    return watch.sample(count)


async def consume(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    done = asyncio.Event()
    received = 0

    def handle(message: jetspark.JetStreamMsg) -> None:
        nonlocal received
        if acked:
            message.ack()
        received += 1
        if received == count:
            done.set()

    async with jetspark.connect(bed.url) as nc:
        consumer = await nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            running = await consumer.consume(handle, max_messages=bed.batch)
            await asyncio.wait_for(done.wait(), 60)
            await nc.flush(60)
        running.stop()
        await running.wait_closed()
    return watch.sample(count)


async def classic_fetch(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = 0
    async with jetspark.connect(bed.url) as nc:
        subscription = await nc.jetstream().pull_subscribe(stream="BENCH", consumer=name)
        with bed.watch() as watch:
            while received < count:
                batch = await subscription.fetch(min(bed.batch, count - received), timeout=30)
                jetspark.ack_all(batch)
                received += len(batch)
            await nc.flush(60)
    return watch.sample(count)


async def classic_push(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    done = asyncio.Event()
    received = 0

    def handle(_: jetspark.JetStreamMsg) -> None:  # Acknowledged when it returns.
        nonlocal received
        received += 1
        if received == count:
            done.set()

    async with jetspark.connect(bed.url) as nc:
        with bed.watch() as watch:
            await nc.jetstream().subscribe(stream="BENCH", consumer=name, callback=handle)
            await asyncio.wait_for(done.wait(), 60)
            await nc.flush(60)
    return watch.sample(count)


async def blocking_fetch(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    received = 0
    with jetspark.blocking.connect(bed.url) as nc:
        consumer = nc.jetstream().get_consumer("BENCH", name)
        with bed.watch() as watch:
            while received < count:
                batch = consumer.fetch(min(bed.batch, count - received))
                if acked:
                    batch.ack()
                received += len(batch)
            nc.flush(60)
    return watch.sample(count)


# --- the peers, and the ceiling


async def fetch_natsrpy(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    import natsrpy

    nc = natsrpy.Nats([bed.url])
    await nc.startup()
    js = await nc.jetstream()
    consumer = await (await js.streams.get("BENCH")).consumers.get_pull(name)
    received = 0
    with bed.watch() as watch:
        while received < count:
            batch = await consumer.fetch(max_messages=min(bed.batch, count - received))
            if acked:
                await asyncio.gather(*[message.ack() for message in batch])
            received += len(batch)
        await nc.flush()
    await nc.shutdown()
    return watch.sample(count)


async def fetch_nats_py(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    import nats

    nc = await nats.connect(bed.url)
    subscription = await nc.jetstream().pull_subscribe_bind(durable=name, stream="BENCH")
    received = 0
    with bed.watch() as watch:
        while received < count:
            batch = await subscription.fetch(min(bed.batch, count - received), timeout=30)
            if acked:
                for message in batch:
                    await message.ack()
            received += len(batch)
        await nc.flush(60)
    await nc.close()
    return watch.sample(count)


async def read_raw(bed: Bed, name: str, count: int, acked: bool) -> Sample:
    with bed.watch() as watch:
        raw.pull(bed.port, "BENCH", name, subject=SUBJECT, count=count, batch=bed.batch, acked=acked)
    return watch.sample(count)


def contenders(*, acked: bool) -> Iterator[Contender]:
    """Those of both measurements."""
    for name, reader in (("fetch(5000)", fetch), ("messages()", messages)):
        first = Contender(f"jetspark {name}", reads(reader, acked=acked), "jetspark", every_size=True)
        yield from on_both_loops(first)
    yield Contender("jetspark consume()", reads(consume, acked=acked), "jetspark")
    if acked:
        yield Contender("jetspark classic fetch(5000)", reads(classic_fetch, acked=True), "jetspark")
        yield Contender("jetspark classic push", reads(classic_push, acked=True, push=True), "jetspark")
    else:
        yield Contender("jetspark fetch(5000), payloads read", reads(fetch_and_look, acked=False), "jetspark")
        yield Contender(
            "jetspark messages(), payloads read", reads(messages_and_look, acked=False), "jetspark"
        )
    yield Contender("jetspark blocking fetch(5000)", reads(blocking_fetch, acked=acked), "jetspark")
    nats_py = reads(fetch_nats_py, acked=acked)
    yield from on_both_loops(
        Contender("nats-py", nats_py, "nats-py", needs=("nats",), fewer=10, every_size=True)
    )
    natsrpy = reads(fetch_natsrpy, acked=acked)
    fewer = 40 if acked else 2
    yield Contender("natsrpy", natsrpy, "natsrpy", needs=("natsrpy",), fewer=fewer, every_size=True)
    yield Contender("raw socket", reads(read_raw, acked=acked), "raw socket", every_size=True)


FETCH: Final = Measurement(
    name="fetch",
    title="Reading a stream",
    text="""
    A stream on disk, read through a consumer without acknowledgements (`ack_policy="none"`). Every
    client requests 5,000 messages at a time (16 MiB at large sizes). jetspark makes the payload of a
    message when it is asked for; "payloads read" asks for every one.
    """,
    bed=bed,
    contenders=tuple(contenders(acked=False)),
    count=200_000,
    quick=2_000,
    sizes=SIZES,
    max_bytes=96 << 20,
    columns=(RATE, CPU, SERVER_CPU),
    peer="nats-py",
    ceiling="raw socket",
)

ACKED: Final = Measurement(
    name="acked",
    title="Reading and acknowledging",
    text="""
    The same with an acknowledgement for every message, up to the server's answer to a final PING.
    jetspark acknowledges a fetched batch with `batch.ack()`, otherwise each message. The raw socket
    acknowledges the messages of one read with one write. The acknowledgements of natsrpy are awaited
    together.
    """,
    bed=bed,
    contenders=tuple(contenders(acked=True)),
    count=100_000,
    quick=2_000,
    columns=(RATE, CPU, SERVER_CPU),
    peer="nats-py",
    ceiling="raw socket",
)
