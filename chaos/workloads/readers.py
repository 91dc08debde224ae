"""Reading, in every way that the asyncio API has: acknowledged, at least once; or ordered, once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

from chaos.record import Reading
from chaos.site import STREAM
from chaos.stage import Stage
from jetspark import ConsumerNotFound, JetStreamMsg, Timeout

__all__ = [
    "classic",
    "consume",
    "direct",
    "fetch",
    "messages",
    "next_",
    "ordered_fetch",
    "ordered_messages",
    "ordered_push",
    "push",
    "queue",
]

_HEARTBEAT = 0.5


def _accept(reading: Reading, message: JetStreamMsg) -> None:
    reading.take(message)
    message.ack()


def _expires(stage: Stage, batch: int = 1) -> float:
    """Seconds; a larger batch waits for its last message, and at the end there is nothing to wait for."""
    return 1.0 if stage.calm or batch > 1 else stage.random.choice((1.0, 5.0))


async def fetch(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    async with stage.connect() as nc:
        consumer = await stage.pull_consumer(nc)
        stage.ready()
        while not reading.complete:
            async with stage.tolerance():
                size = stage.random.choice((1, 10, 100))
                batch = await consumer.fetch(size, expires=_expires(stage, size))
                for message in batch:
                    reading.take(message)
                batch.ack()


async def next_(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    async with stage.connect() as nc:
        consumer = await stage.pull_consumer(nc)
        stage.ready()
        while not reading.complete:
            async with stage.tolerance():
                if (message := await consumer.next(expires=_expires(stage))) is not None:
                    _accept(reading, message)


async def messages(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    async with stage.connect() as nc:
        consumer = await stage.pull_consumer(nc)
        stage.ready()
        async with (
            consumer.messages(max_messages=stage.random.choice((1, 20, 200)), expires=2.0) as delivered,
            stage.watch(lambda: reading.complete, delivered.stop),
        ):
            async for message in delivered:
                _accept(reading, message)


async def consume(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)

    async def handle(message: JetStreamMsg) -> None:
        if stage.random.random() < 0.1:
            await asyncio.sleep(0)
        _accept(reading, message)

    async with stage.connect() as nc:
        consumer = await stage.pull_consumer(nc)
        concurrency = stage.random.choice((1, 4))
        running = await consumer.consume(handle, concurrency=concurrency, max_messages=100, expires=2.0)
        stage.ready()
        async with stage.watch(lambda: reading.complete, running.drain):
            await running.wait_closed()


async def classic(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    async with stage.connect() as nc:
        js = nc.jetstream(timeout=20)
        subscription = await js.pull_subscribe("events.>", stage.name, config=stage.durable())
        stage.ready()
        while not reading.complete:
            async with stage.tolerance():
                size = stage.random.choice((1, 50))
                for message in await subscription.fetch(size, timeout=_expires(stage, size)):
                    _accept(reading, message)
        # It created the durable, and deletes it. A server that was slow to confirm did it at the first try.
        with suppress(ConsumerNotFound):
            await subscription.unsubscribe()


async def push(stage: Stage) -> None:
    reading = stage.record.reading(stage.name)
    async with stage.connect() as nc:
        subscription = await nc.jetstream(timeout=20).subscribe(
            "events.>", durable=stage.name, config=stage.durable(), idle_heartbeat=_HEARTBEAT, manual_ack=True
        )
        stage.ready()
        while not reading.complete:
            with suppress(Timeout):
                _accept(reading, await subscription.next(0.5))
        with suppress(ConsumerNotFound):
            await subscription.unsubscribe()


async def queue(stage: Stage) -> None:
    """Two members share a consumer. It stays when they leave."""
    reading = stage.record.reading(stage.name)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            nc = await stack.enter_async_context(stage.connect())
            subscription = await nc.jetstream(timeout=20).subscribe(
                "events.>", stage.name, callback=reading.take, config=stage.durable()
            )
            stack.push_async_callback(subscription.unsubscribe)
        stage.ready()
        while not reading.complete:
            await asyncio.sleep(0.02)


async def ordered_messages(stage: Stage) -> None:
    reading = stage.record.reading(stage.name, ordered=True)
    async with stage.connect() as nc:
        consumer = await nc.jetstream(timeout=20).ordered_consumer(
            STREAM, name_prefix=f"ordered_{stage.name}"
        )
        async with (
            consumer.messages(max_messages=100, expires=2.0) as delivered,
            stage.watch(lambda: reading.complete, delivered.stop),
        ):
            stage.ready()
            async for message in delivered:
                reading.take(message)
        await consumer.delete()


async def ordered_fetch(stage: Stage) -> None:
    reading = stage.record.reading(stage.name, ordered=True)
    async with stage.connect() as nc:
        consumer = await nc.jetstream(timeout=20).ordered_consumer(
            STREAM, name_prefix=f"ordered_{stage.name}"
        )
        stage.ready()
        while not reading.complete:
            async with stage.tolerance():
                for message in await consumer.fetch(stage.random.choice((1, 50)), expires=1.0):
                    reading.take(message)
        await consumer.delete()


async def ordered_push(stage: Stage) -> None:
    reading = stage.record.reading(stage.name, ordered=True)
    async with stage.connect() as nc:
        subscription = await nc.jetstream(timeout=20).subscribe(
            "events.>", ordered=True, callback=reading.take, idle_heartbeat=_HEARTBEAT
        )
        stage.ready()
        while not reading.complete:
            await asyncio.sleep(0.02)
        await subscription.unsubscribe()


async def direct(stage: Stage) -> None:
    """Direct gets, from where it stopped: no consumer is behind them."""
    reading = stage.record.reading(stage.name, ordered=True)
    async with stage.connect() as nc:
        stream = await nc.jetstream(timeout=20).get_stream(STREAM)
        stage.ready()
        last = 0
        while not reading.complete:
            async with stage.tolerance():
                async for message in stream.get_messages(last + 1, batch=200):
                    reading.add(message.sequence, "", message.data)
                    last = message.sequence
            await stage.rest(0.1, 0.3)
