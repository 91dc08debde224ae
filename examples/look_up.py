"""Look up messages: the last one of a subject, the last ones of many subjects, any one by its sequence."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(
                name="EXAMPLE_STATE", subjects=["example.state.*"], max_msgs_per_subject=5, allow_direct=True
            )
        )
        for room, degrees in (("kitchen", b"19"), ("cellar", b"12"), ("kitchen", b"21")):
            await js.publish(f"example.state.{room}", degrees)

        print("kitchen:", (await stream.get_last_message("example.state.kitchen")).data.decode())
        async for message in stream.get_last_messages(["example.state.*"]):
            print(f"{message.subject} = {message.data.decode()} (sequence {message.sequence})")
        print("first:", (await stream.get_message(1)).data.decode())

        try:
            await stream.get_message(99)
        except jetspark.MessageNotFound as error:
            print(error)


with example_server("EXAMPLE_STATE") as url:
    asyncio.run(main(url))
