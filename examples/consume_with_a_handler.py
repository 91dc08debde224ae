"""A handler is called with every message, four at once. If it raises, the message is redelivered."""

import asyncio
import os

import jetspark
from jetspark import ConsumerConfig, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    done = asyncio.Event()
    handled: set[int] = set()

    async def handle(message: jetspark.JetStreamMsg) -> None:
        number = int(message.data)
        if number == 7 and message.metadata.num_delivered == 1:
            raise RuntimeError("seven is difficult at first")
        await message.ack_sync()
        handled.add(number)
        if len(handled) == 20:
            done.set()

    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="JOBS", subjects=["jobs"]))
        for number in range(20):
            await js.publish("jobs", b"%d" % number)
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="workers"))

        running = await consumer.consume(
            handle, concurrency=4, on_error=lambda error: print("reported:", error)
        )
        await asyncio.wait_for(done.wait(), 10)
        await running.drain()
        print("handled", len(handled), "of 20")


asyncio.run(main())
