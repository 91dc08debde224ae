"""Core NATS: publish and subscribe, a queue group, requests."""

import asyncio

from example_server import example_server

import jetspark


async def main(url: str) -> None:
    async with jetspark.connect(url, name="core-example") as nc:
        # Read a subscription as an iterator ...
        subscription = await nc.subscribe("weather.*", max_msgs=2)
        nc.publish("weather.berlin", b"rain", headers={"Station": "Tegel"})
        nc.publish("weather.lisbon", b"sun")
        async for message in subscription:
            print(message.subject, message.data.decode(), dict(message.headers))

        # ... or give a callback. Members of a queue group share the messages.
        async def answer(message: jetspark.Msg) -> None:
            message.respond(message.data.upper())

        await nc.subscribe("shout", queue="workers", callback=answer)
        reply = await nc.request("shout", b"hello")
        print(reply.data.decode())

        try:
            await nc.request("nobody.home")
        except jetspark.NoResponders as error:
            print(error)


with example_server() as url:
    asyncio.run(main(url))
