"""Poison messages: after three deliveries the server publishes an advisory; read the dead letters."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import ConsumerConfig, StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        await js.create_advisory_stream("EXAMPLE_ADVISORIES")  # stores the advisories about deliveries
        stream = await js.create_stream(StreamConfig(name="EXAMPLE_MAIL", subjects=["example.mail"]))
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="sender", max_deliver=3))
        for address in (b"ann@example.org", b"not an address", b"bob@example.org"):
            await js.publish("example.mail", address)

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


with example_server("EXAMPLE_MAIL", "EXAMPLE_ADVISORIES") as url:
    asyncio.run(main(url))
