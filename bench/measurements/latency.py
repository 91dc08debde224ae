"""Latency at a fixed rate: from publishing to delivery, and from a request to its reply.

Each client plays both sides, in one process, with a connection for each.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import jetspark
import jetspark.blocking
import jetspark.server
from bench import raw
from bench.harness import Column, Contender, Measurement, Sample, on_both_loops
from jetspark import AckPolicy, ConsumerConfig, StreamConfig

#: Messages or requests per second.
RATE: Final = 1000
SUBJECT: Final = "bench.latency"
COLUMNS: Final = (Column("p50", "p50, us", "{:,.0f}"), Column("p99", "p99, us", "{:,.0f}"))

_STAMP: Final = struct.Struct(">q")


def stamp(size: int) -> bytes:
    """A payload that carries the time."""
    return _STAMP.pack(time.perf_counter_ns()).ljust(size, b"x")


def age(payload: bytes) -> int:
    """Nanoseconds since `stamp`."""
    now = time.perf_counter_ns()
    return now - int(_STAMP.unpack_from(payload)[0])


def percentiles(nanoseconds: list[int]) -> Sample:
    """p50 and p99 in microseconds. The first tenth is warm-up."""
    ordered = sorted(nanoseconds[len(nanoseconds) // 10 :])
    last = len(ordered) - 1
    return {"p50": ordered[round(last * 0.5)] / 1e3, "p99": ordered[round(last * 0.99)] / 1e3}


async def paced(count: int, act: Callable[[], Awaitable[Any]]) -> None:
    """Call `act` `count` times, `RATE` times a second."""
    start = time.perf_counter()
    for number in range(count):
        early = start + number / RATE - time.perf_counter()
        if early > 0:
            await asyncio.sleep(early)
        await act()


class Ages:
    """The ages of the received messages."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._done = asyncio.Event()
        self.all: list[int] = []

    def add(self, payload: bytes) -> bool:
        """Whether this was the last one."""
        self.all.append(age(payload))
        if len(self.all) == self._count:
            self._done.set()
        return len(self.all) == self._count

    async def wait(self) -> Sample:
        await asyncio.wait_for(self._done.wait(), 60)
        return percentiles(self.all)


class Bed:
    def __init__(self, server: jetspark.server.Server, js: jetspark.blocking.JetStream, size: int) -> None:
        self.url = server.url
        self.port = server.port
        self.size = size
        self._js = js

    @contextmanager
    def consumer(self, *, push: bool = False) -> Iterator[None]:
        """A consumer `c` of an empty stream."""
        self._js.create_stream(StreamConfig(name="BENCH", subjects=[SUBJECT]))
        config = ConsumerConfig(durable_name="c", ack_policy=AckPolicy.NONE, mem_storage=True)
        if push:
            config = ConsumerConfig(
                durable_name="c", ack_policy=AckPolicy.NONE, mem_storage=True, deliver_subject="bench.deliver"
            )
        self._js.create_consumer("BENCH", config)
        try:
            yield
        finally:
            self._js.delete_stream("BENCH")


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server, jetspark.blocking.connect(server.url) as nc:
        yield Bed(server, nc.jetstream(timeout=30), size)


# --- from publishing to delivery


async def deliver_jetspark(bed: Bed, count: int) -> Sample:
    ages = Ages(count)
    with bed.consumer():
        async with jetspark.connect(bed.url) as nc, jetspark.connect(bed.url) as sending:
            consumer = await nc.jetstream().get_consumer("BENCH", "c")

            async def read() -> None:
                async with consumer.messages() as messages:
                    async for message in messages:
                        if ages.add(message.data):
                            return

            reading = asyncio.create_task(read())
            await paced(count, lambda: sending.publish(SUBJECT, stamp(bed.size)))
            await reading
            return await ages.wait()


async def deliver_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    ages = Ages(count)

    async def handle(message: Any) -> None:
        ages.add(message.data)

    with bed.consumer(push=True):
        nc, sending = await nats.connect(bed.url), await nats.connect(bed.url)
        js = nc.jetstream()
        info = await js.consumer_info("BENCH", "c")
        await js.subscribe_bind(stream="BENCH", consumer="c", config=info.config, cb=handle, manual_ack=True)
        await paced(count, lambda: sending.publish(SUBJECT, stamp(bed.size)))
        sample = await ages.wait()
        await nc.close()
        await sending.close()
        return sample


async def deliver_natsrpy(bed: Bed, count: int) -> Sample:
    import natsrpy

    ages = Ages(count)
    with bed.consumer():
        nc, sending = natsrpy.Nats([bed.url]), natsrpy.Nats([bed.url])
        await nc.startup()
        await sending.startup()
        consumer = await (await (await nc.jetstream()).streams.get("BENCH")).consumers.get_pull("c")

        async def read() -> None:
            async with consumer.consume() as messages:
                async for message in messages:
                    if ages.add(message.payload):
                        return

        reading = asyncio.create_task(read())
        await paced(count, lambda: sending.publish(SUBJECT, stamp(bed.size)))
        await reading
        sample = await ages.wait()
        await nc.shutdown()
        await sending.shutdown()
        return sample


def deliver_raw(bed: Bed, count: int) -> Sample:
    """One thread: send, then receive."""
    ages: list[int] = []
    with bed.consumer():
        sender, receiver = raw.RawSocket(bed.port), raw.RawSocket(bed.port)
        body = b'{"batch":%d,"expires":60000000000}' % count
        pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.BENCH.c _INBOX.raw %d\r\n%b\r\n" % (len(body), body)
        receiver.send(b"SUB _INBOX.raw 1\r\n" + pull)
        receiver.flush()
        _paced_raw(count, lambda: ages.append(_exchange(bed, sender, receiver)))
        sender.close()
        receiver.close()
    return percentiles(ages)


def _exchange(bed: Bed, sender: raw.RawSocket, receiver: raw.RawSocket) -> int:
    start = time.perf_counter_ns()
    sender.send(b"PUB %b %d\r\n%b\r\n" % (SUBJECT.encode(), bed.size, b"x" * bed.size))
    receiver.read_until(b"x\r\n")
    return time.perf_counter_ns() - start


# --- from a request to its reply


async def requests(count: int, ask: Callable[[], Awaitable[Any]]) -> Sample:
    """A task for each request, so that a slow reply does not delay the next request."""
    ages: list[int] = []

    async def one() -> None:
        start = time.perf_counter_ns()
        await ask()
        ages.append(time.perf_counter_ns() - start)

    async with asyncio.TaskGroup() as tasks:

        async def launch() -> None:
            tasks.create_task(one())

        await paced(count, launch)
    return percentiles(ages)


async def request_jetspark(bed: Bed, count: int) -> Sample:
    payload = b"x" * bed.size

    async def respond(message: jetspark.Msg) -> None:
        await message.respond(message.data)

    async with jetspark.connect(bed.url) as nc, jetspark.connect(bed.url) as serving:
        await serving.subscribe(SUBJECT, callback=respond)
        await serving.flush()
        return await requests(count, lambda: nc.request(SUBJECT, payload, timeout=10))


async def request_nats_py(bed: Bed, count: int) -> Sample:
    import nats

    payload = b"x" * bed.size

    async def respond(message: Any) -> None:
        await message.respond(message.data)

    nc, serving = await nats.connect(bed.url), await nats.connect(bed.url)
    await serving.subscribe(SUBJECT, cb=respond)
    await serving.flush()
    sample = await requests(count, lambda: nc.request(SUBJECT, payload, timeout=10))
    await nc.close()
    await serving.close()
    return sample


async def request_natsrpy(bed: Bed, count: int) -> Sample:
    import natsrpy

    payload = b"x" * bed.size
    nc, serving = natsrpy.Nats([bed.url]), natsrpy.Nats([bed.url])
    await nc.startup()
    await serving.startup()

    async def respond(message: Any) -> None:
        await serving.publish(message.reply, message.payload)

    async with serving.subscribe(SUBJECT, callback=respond):
        await _answered(nc, payload)
        sample = await requests(count, lambda: nc.request(SUBJECT, payload, timeout=10))
    await nc.shutdown()
    await serving.shutdown()
    return sample


async def _answered(nc: Any, payload: bytes) -> None:
    """Wait for the first reply: `flush` of natsrpy does not wait for the server."""
    async with asyncio.timeout(60):
        while True:
            try:
                await nc.request(SUBJECT, payload, timeout=1)
            except Exception:
                await asyncio.sleep(0.05)
            else:
                return


def request_raw(bed: Bed, count: int) -> Sample:
    """One thread that plays both sides."""
    ages: list[int] = []
    payload = b"x" * bed.size
    asking, serving = raw.RawSocket(bed.port), raw.RawSocket(bed.port)
    asking.send(b"SUB _INBOX.raw 1\r\n")
    serving.send(b"SUB %b 1\r\n" % SUBJECT.encode())
    asking.flush()
    serving.flush()
    request = b"PUB %b _INBOX.raw %d\r\n%b\r\n" % (SUBJECT.encode(), bed.size, payload)
    reply = b"PUB _INBOX.raw %d\r\n%b\r\n" % (bed.size, payload)

    def one() -> None:
        start = time.perf_counter_ns()
        asking.send(request)
        serving.read_until(b"x\r\n")
        serving.send(reply)
        asking.read_until(b"x\r\n")
        ages.append(time.perf_counter_ns() - start)

    _paced_raw(count, one)
    asking.close()
    serving.close()
    return percentiles(ages)


def _paced_raw(count: int, act: Callable[[], object]) -> None:
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(start + number / RATE - time.perf_counter(), 0))
        act()


DELIVERY: Final = Measurement(
    name="delivery",
    title="Latency from publish to delivery",
    text=f"""
    Through a stream on disk, at {RATE:,} messages a second, from the call that publishes to the code
    that gets the message. jetspark reads with `messages()`, nats-py with a push callback, natsrpy with
    `consume()`. One process publishes and reads, with a connection for each; the raw socket does one
    after the other in one thread, without an event loop.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark", deliver_jetspark, "jetspark")),
        *on_both_loops(Contender("nats-py", deliver_nats_py, "nats-py", needs=("nats",))),
        Contender("natsrpy", deliver_natsrpy, "natsrpy", needs=("natsrpy",)),
        Contender("raw socket", deliver_raw, "raw socket"),
    ),
    count=3 * RATE // 2,
    quick=50,
    rounds=3,
    columns=COLUMNS,
    peer="nats-py",
)

REQUEST: Final = Measurement(
    name="request",
    title="Latency of request and reply",
    text=f"""
    Core NATS, {RATE:,} requests a second; a slow reply does not delay the next request. The same client
    replies, in the same process, on a connection of its own.
    """,
    bed=bed,
    contenders=(
        *on_both_loops(Contender("jetspark", request_jetspark, "jetspark")),
        *on_both_loops(Contender("nats-py", request_nats_py, "nats-py", needs=("nats",))),
        Contender("natsrpy", request_natsrpy, "natsrpy", needs=("natsrpy",)),
        Contender("raw socket", request_raw, "raw socket"),
    ),
    count=3 * RATE // 2,
    quick=50,
    rounds=3,
    columns=COLUMNS,
    peer="nats-py",
)
