"""A work queue: acknowledge a task, retry it later, ask for more time, terminate it."""

import asyncio
import os

import jetspark
from jetspark import ConsumerConfig, RetentionPolicy, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(name="WORK", subjects=["work"], retention=RetentionPolicy.WORKQUEUE)
        )
        for task in (b"easy", b"busy", b"long", b"broken"):
            await js.publish("work", task)
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


asyncio.run(main())
