"""An endless iterator over messages, with a buffer that refills itself."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import ConsumerConfig, StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="EXAMPLE_LOGS", subjects=["example.logs.>"]))
        async with js.publisher() as publisher:
            for number in range(1_000):
                await publisher.send(f"example.logs.web{number % 3}", b"line %d" % number)

        consumer = await stream.create_consumer(
            ConsumerConfig(durable_name="web1", filter_subject="example.logs.web1")
        )
        count = 0
        async with consumer.messages(max_messages=100) as messages:
            async for message in messages:
                message.ack()
                count += 1
                if message.metadata.num_pending == 0:
                    break
        print("web1 wrote", count, "lines")


with example_server("EXAMPLE_LOGS") as url:
    asyncio.run(main(url))
