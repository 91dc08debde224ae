"""An atomic batch: the stream stores all of its messages or none."""

import asyncio
import os

import jetspark
from jetspark import StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="LEDGER", subjects=["ledger.*"], allow_atomic=True))

        async with js.atomic_batch() as batch:
            batch.add("ledger.ann", b"-10")
            batch.add("ledger.bob", b"+10")
        print("booked", (await stream.info()).state.messages, "entries")

        try:
            async with js.atomic_batch() as batch:
                batch.add("ledger.ann", b"-99")
                raise RuntimeError("changed our mind")
        except RuntimeError as error:
            print(error)
        print("still", (await stream.info()).state.messages, "entries")


asyncio.run(main())
