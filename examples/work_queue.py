"""A work queue: acknowledge a task, retry it later, ask for more time, terminate it."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import ConsumerConfig, RetentionPolicy, StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(name="EXAMPLE_WORK", subjects=["example.work"], retention=RetentionPolicy.WORKQUEUE)
        )
        for data in (b"easy", b"busy", b"long", b"broken"):
            await js.publish("example.work", data)
        worker = await stream.create_consumer(
            ConsumerConfig(durable_name="worker", ack_wait=10, max_deliver=5)
        )

        settled = 0
        while settled < 4:
            message = await worker.next(expires=2.0)
            if message is None:
                break
            task = message.data.decode()
            if task == "busy" and message.metadata.num_delivered == 1:
                message.nak(delay=0.2)
                print(task, "-> later")
                continue
            if task == "long":
                message.in_progress()  # restarts ack_wait: ten more seconds
            if task == "broken":
                message.term("cannot be parsed")
                print(task, "-> given up")
            else:
                await message.ack_sync()
                print(task, "-> done")
            settled += 1

        print("left in the queue:", (await stream.info()).state.messages)


with example_server("EXAMPLE_WORK") as url:
    asyncio.run(main(url))
