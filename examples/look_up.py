"""Look up messages: the last one of a subject, the last ones of many subjects, any one by its sequence."""

import asyncio
import os

import jetspark
from jetspark import StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(name="STATE", subjects=["state.*"], max_msgs_per_subject=5, allow_direct=True)
        )
        for room, degrees in (("kitchen", b"19"), ("cellar", b"12"), ("kitchen", b"21")):
            await js.publish(f"state.{room}", degrees)

        print("kitchen:", (await stream.get_last_message("state.kitchen")).data.decode())
        async for message in stream.get_last_messages(["state.*"]):
            print(f"{message.subject} = {message.data.decode()} (sequence {message.sequence})")
        print("first:", (await stream.get_message(1)).data.decode())

        try:
            await stream.get_message(99)
        except jetspark.MessageNotFound as error:
            print(error)


asyncio.run(main())
