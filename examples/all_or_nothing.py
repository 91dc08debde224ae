"""An atomic batch: the stream stores all of its messages or none."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(name="EXAMPLE_LEDGER", subjects=["example.ledger.*"], allow_atomic=True)
        )

        async with js.atomic_batch() as batch:
            batch.add("example.ledger.ann", b"-10")
            batch.add("example.ledger.bob", b"+10")
        print("booked", (await stream.info()).state.messages, "entries")

        try:
            async with js.atomic_batch() as batch:
                batch.add("example.ledger.ann", b"-99")
                raise RuntimeError("changed our mind")
        except RuntimeError as error:
            print(error)
        print("still", (await stream.info()).state.messages, "entries")


with example_server("EXAMPLE_LEDGER") as url:
    asyncio.run(main(url))
