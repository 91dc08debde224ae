"""The classic pull subscription, as in nats-py."""

import asyncio
import os

import jetspark
from jetspark import StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        for number in range(5):
            await js.publish("orders.new", f"order {number}".encode())

        # Finds the stream by its subject, and creates the durable consumer.
        subscription = await js.pull_subscribe("orders.>", "billing")
        batch = await subscription.fetch(5, timeout=2.0)
        for message in batch:
            print(message.data.decode())
            message.ack()
        try:
            await subscription.fetch(5, timeout=0.5)
        except jetspark.Timeout as error:
            print(error)
        await subscription.unsubscribe()  # deletes the durable that it created


asyncio.run(main())
