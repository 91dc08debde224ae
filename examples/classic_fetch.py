"""The classic pull subscription, as in nats-py."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="EXAMPLE_ORDERS", subjects=["example.orders.>"]))
        for number in range(5):
            await js.publish("example.orders.new", f"order {number}".encode())

        # Finds the stream by its subject, and creates the durable consumer.
        subscription = await js.pull_subscribe("example.orders.>", "billing")
        batch = await subscription.fetch(5, timeout=2.0)
        for message in batch:
            print(message.data.decode())
            message.ack()
        try:
            await subscription.fetch(5, timeout=0.5)
        except jetspark.Timeout as error:
            print(error)
        await subscription.unsubscribe()  # deletes the durable that it created


with example_server("EXAMPLE_ORDERS") as url:
    asyncio.run(main(url))
