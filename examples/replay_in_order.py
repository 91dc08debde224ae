"""An ordered consumer reads a stream from any sequence, in order and without gaps, also after a fault."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="EXAMPLE_TRADES", subjects=["example.trades.*"]))
        for number in range(1, 101):
            await js.publish(f"example.trades.{'AB'[number % 2]}", b"%d" % number)

        replay = await stream.ordered_consumer(opt_start_seq=50, filter_subjects="example.trades.A")
        batch = await replay.fetch(5)
        print([message.metadata.sequence.stream for message in batch])

        # If the consumer on the server is deleted, another one continues after the last message.
        assert replay.cached_info is not None
        await stream.delete_consumer(replay.cached_info.name)
        batch = await replay.fetch(5)
        print([message.metadata.sequence.stream for message in batch])


with example_server("EXAMPLE_TRADES") as url:
    asyncio.run(main(url))
