"""An endless iterator over messages, with a buffer that refills itself."""

import asyncio
import os

import jetspark
from jetspark import ConsumerConfig, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        async with js.publisher() as publisher:
            for number in range(1_000):
                await publisher.send(f"logs.web{number % 3}", b"line %d" % number)

        consumer = await stream.create_consumer(
            ConsumerConfig(durable_name="web1", filter_subject="logs.web1")
        )
        count = 0
        async with consumer.messages(max_messages=100) as messages:
            async for message in messages:
                message.ack()
                count += 1
                if message.metadata.num_pending == 0:
                    break
        print("web1 wrote", count, "lines")


asyncio.run(main())
