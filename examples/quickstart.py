"""A stream, a few messages, a consumer. Starts its own server, which `jetspark[server]` installs."""

import asyncio

import jetspark
from jetspark import ConsumerConfig, StreamConfig


async def main() -> None:
    with jetspark.server.run() as server:
        async with jetspark.connect(server.url) as nc:
            js = nc.jetstream()
            stream = await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))

            for number in range(1, 4):
                ack = await js.publish("orders.new", f"order {number}".encode(), msg_id=f"order-{number}")
                print(f"stored as {ack.stream}#{ack.sequence}")

            consumer = await stream.create_consumer(ConsumerConfig(durable_name="billing"))
            batch = await consumer.fetch(10, expires=1.0)
            for message in batch:
                print(
                    f"{message.subject}: {message.data.decode()}, sequence {message.metadata.sequence.stream}"
                )
                await message.ack_sync()  # waits until the server has it; ack() does not

            info = await consumer.info()
            print(f"{info.num_ack_pending} to acknowledge, {info.num_pending} to deliver")


asyncio.run(main())
