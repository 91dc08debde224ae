"""Recovery time after the server was killed: from its return to the next message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
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


async def fetch(js: jetspark.JetStream, seen: list[float]) -> None:
    consumer = await js.get_consumer("R", "c")
    while True:
        try:
            batch = await consumer.fetch(10, expires=1.0)
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
