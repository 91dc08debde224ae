"""Core NATS: publish and subscribe, a queue group, requests."""

import asyncio
import os

import jetspark

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL, name="core-example") as nc:
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


asyncio.run(main())
