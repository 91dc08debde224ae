"""Recovery times: of a server that was killed, and of a consumer in a cluster whose leader stepped down."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import jetspark
import jetspark.server
from bench.harness import Column, Contender, Measurement, Sample
from jetspark import ConsumerConfig, StreamConfig

Work = Callable[[jetspark.JetStream, list[float]], Coroutine[Any, Any, None]]


def killed_under(work: Work) -> Callable[[object, int], Coroutine[Any, Any, Sample]]:
    """Kill and start a server under `work`, after `count` messages."""

    async def run(bed: object, count: int) -> Sample:
        with jetspark.server.run() as server:
            async with jetspark.connect(server.url) as feeding, jetspark.connect(server.url) as nc:
                js = feeding.jetstream()
                stream = await js.create_stream(StreamConfig(name="R", subjects=["r"]))
                await stream.create_consumer(ConsumerConfig(durable_name="c", ack_wait=1))
                seen: list[float] = []
                tasks = [asyncio.create_task(feed(js)), asyncio.create_task(work(nc.jetstream(), seen))]
                while len(seen) < count:
                    await asyncio.sleep(0.01)
                server.kill()
                await asyncio.to_thread(server.start)
                back = time.monotonic()
                async with asyncio.timeout(60):
                    while seen[-1] < back:
                        await asyncio.sleep(0.005)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                return {"seconds": seen[-1] - back}

    return run


async def feed(js: jetspark.JetStream) -> None:
    number = 0
    while True:
        number += 1
        try:
            await js.publish("r", b"x", msg_id=f"{number}")
        except jetspark.Error:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.002)


async def fetch(js: jetspark.JetStream, seen: list[float], *, expires: float = 1.0) -> None:
    consumer = await js.get_consumer("R", "c")
    while True:
        try:
            batch = await consumer.fetch(10, expires=expires)
        except jetspark.Error:
            await asyncio.sleep(0.05)
            continue
        batch.ack()
        seen += [time.monotonic()] * len(batch)


async def messages(js: jetspark.JetStream, seen: list[float]) -> None:
    consumer = await js.get_consumer("R", "c")
    async with consumer.messages(on_error=lambda error: None) as iterator:
        async for message in iterator:
            message.ack()
            seen.append(time.monotonic())


async def consume(js: jetspark.JetStream, seen: list[float]) -> None:
    def handle(message: jetspark.JetStreamMsg) -> None:
        message.ack()
        seen.append(time.monotonic())

    running = await (await js.get_consumer("R", "c")).consume(handle, on_error=lambda error: None)
    await running.wait_closed()


async def publish(js: jetspark.JetStream, seen: list[float]) -> None:
    def note(future: asyncio.Future[jetspark.PubAck]) -> None:
        if not future.cancelled() and future.exception() is None:
            seen.append(time.monotonic())

    async with js.publisher(max_pending=100) as publisher:
        while True:
            future = await publisher.send("r", b"x")
            future.add_done_callback(note)
            await asyncio.sleep(0.002)


RECOVERY: Final = Measurement(
    name="recovery",
    title="Recovery",
    text="""
    A single server is killed under traffic and started again; the time is from its return to the next
    message. An election in a cluster takes longer; its duration depends on the servers.
    """,
    bed=lambda size, count: nullcontext(),
    contenders=(
        Contender("fetch", killed_under(fetch), "jetspark"),
        Contender("messages()", killed_under(messages), "jetspark"),
        Contender("consume()", killed_under(consume), "jetspark"),
        Contender("publisher", killed_under(publish), "jetspark"),
    ),
    count=50,
    quick=5,
    columns=(Column("seconds", "seconds", "{:.2f}"),),
)


# --- a leader that steps down


@contextmanager
def cluster(size: int, count: int) -> Iterator[str]:
    with jetspark.server.run_cluster(3) as servers:
        yield servers.url


def stepped_down(work: Work) -> Callable[[str, int], Coroutine[Any, Any, Sample]]:
    """Let the leader of the consumer step down `count` times under `work`."""

    async def run(url: str, count: int) -> Sample:
        async with jetspark.connect(url) as feeding, jetspark.connect(url) as nc:
            js = feeding.jetstream(timeout=30)
            stream = await js.create_stream(StreamConfig(name="R", subjects=["r"], num_replicas=3))
            await stream.create_consumer(ConsumerConfig(durable_name="c", ack_wait=30, num_replicas=3))
            seen: list[float] = []
            tasks = [asyncio.create_task(feed(js)), asyncio.create_task(work(nc.jetstream(), seen))]
            waits = []
            async with asyncio.timeout(60 * count):
                for _ in range(count):
                    await _later_than(time.monotonic() + 1, seen)
                    await js.stepdown_consumer_leader("R", "c")
                    asked = time.monotonic()
                    # What was under way may still arrive; the next leader sends everything after it.
                    await _later_than(asked + 1, seen)
                    times = [asked, *(each for each in seen if each > asked)]
                    waits.append(max(after - before for before, after in itertools.pairwise(times)))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await js.delete_stream("R")
        return {"seconds": statistics.median(waits), "longest": max(waits)}

    return run


async def _later_than(moment: float, seen: list[float]) -> None:
    while not seen or seen[-1] < moment:
        await asyncio.sleep(0.005)


async def next_message(js: jetspark.JetStream, seen: list[float]) -> None:
    consumer = await js.get_consumer("R", "c")
    while True:
        try:
            message = await consumer.next(expires=5)
        except jetspark.Error:
            continue
        assert message is not None
        message.ack()
        seen.append(time.monotonic())


async def classic_fetch(js: jetspark.JetStream, seen: list[float]) -> None:
    subscription = await js.pull_subscribe(stream="R", consumer="c")
    while True:
        try:
            batch = await subscription.fetch(10, timeout=5)
        except jetspark.Error:
            continue
        jetspark.ack_all(batch)
        seen += [time.monotonic()] * len(batch)


STEPDOWN: Final = Measurement(
    name="stepdown",
    title="A leader that steps down",
    text="""
    A consumer with three replicas in a cluster of three servers, 500 messages a second. Its leader steps
    down several times in each round; the time is the longest wait for a message from then on. A request
    the old leader took along is never answered: a client has to notice.
    """,
    bed=cluster,
    contenders=(
        Contender("fetch(10, expires=5)", stepped_down(partial(fetch, expires=5)), "jetspark"),
        Contender("next(expires=5)", stepped_down(next_message), "jetspark"),
        Contender("messages()", stepped_down(messages), "jetspark"),
        Contender("consume()", stepped_down(consume), "jetspark"),
        Contender("classic fetch(10, timeout=5)", stepped_down(classic_fetch), "jetspark"),
    ),
    count=5,
    quick=1,
    rounds=3,
    columns=(
        Column("seconds", "seconds, median of a round", "{:.2f}"),
        Column("longest", "longest of a round", "{:.2f}"),
    ),
)
