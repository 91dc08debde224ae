"""A handler is called with every message, four at once. If it raises, the message is redelivered."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import ConsumerConfig, StreamConfig


async def main(url: str) -> None:
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

    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="EXAMPLE_JOBS", subjects=["example.jobs"]))
        for number in range(20):
            await js.publish("example.jobs", b"%d" % number)
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="workers"))

        running = await consumer.consume(
            handle, concurrency=4, on_error=lambda error: print("reported:", error)
        )
        await asyncio.wait_for(done.wait(), 10)
        await running.drain()
        print("handled", len(handled), "of 20")


with example_server("EXAMPLE_JOBS") as url:
    asyncio.run(main(url))
