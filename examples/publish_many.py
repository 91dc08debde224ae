"""Publish many messages fast: up to 4,096 are in flight at a time, and a failed one raises an error."""

import asyncio
import os

import jetspark
from jetspark import StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_or_update_stream(StreamConfig(name="METRICS", subjects=["metrics.>"]))

        async with js.publisher(max_pending=4096) as publisher:
            for number in range(10_000):
                await publisher.send(f"metrics.host{number % 10}", b"%d" % number)
            last = await publisher.send("metrics.done", b"")
            print("the last one is", (await last).sequence)
        # Leaving the context waits for every acknowledgement and raises if one failed.

        print("stored", (await stream.info()).state.messages)


asyncio.run(main())
