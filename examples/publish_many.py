"""Publish many messages fast: up to 4,096 are in flight at a time, and a failed one raises an error."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_or_update_stream(
            StreamConfig(name="EXAMPLE_METRICS", subjects=["example.metrics.>"])
        )

        async with js.publisher(max_pending=4096) as publisher:
            for number in range(10_000):
                await publisher.send(f"example.metrics.host{number % 10}", b"%d" % number)
            last = await publisher.send("example.metrics.done", b"")
            print("the last one is", (await last).sequence)
        # Leaving the context waits for every acknowledgement and raises if one failed.

        print("stored", (await stream.info()).state.messages)


with example_server("EXAMPLE_METRICS") as url:
    asyncio.run(main(url))
