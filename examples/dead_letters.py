"""Poison messages: after three deliveries the server publishes an advisory; read the dead letters."""

import asyncio
import os

import jetspark
from jetspark import ConsumerConfig, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        await js.create_advisory_stream()  # stores the advisories about deliveries
        stream = await js.create_stream(StreamConfig(name="MAIL", subjects=["mail"]))
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="sender", max_deliver=3))
        for address in (b"ann@example.org", b"not an address", b"bob@example.org"):
            await js.publish("mail", address)

        idle = 0
        while idle < 2:
            message = await consumer.next(expires=0.5)
            if message is None:
                idle += 1
            elif b"@" in message.data:
                message.ack()
                print("sent to", message.data.decode())
            else:
                message.nak()

        async for letter in consumer.dead_letters():
            assert letter.message is not None
            print(f"dead after {letter.deliveries} deliveries: {letter.message.data.decode()!r}")


asyncio.run(main())
