"""An ordered consumer reads a stream from any sequence, in order and without gaps, also after a fault."""

import asyncio
import os

import jetspark
from jetspark import StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="TRADES", subjects=["trades.*"]))
        for number in range(1, 101):
            await js.publish(f"trades.{'AB'[number % 2]}", b"%d" % number)

        replay = await stream.ordered_consumer(opt_start_seq=50, filter_subjects="trades.A")
        batch = await replay.fetch(5)
        print([message.metadata.sequence.stream for message in batch])

        # If the consumer on the server is deleted, another one continues after the last message.
        assert replay.cached_info is not None
        await stream.delete_consumer(replay.cached_info.name)
        batch = await replay.fetch(5)
        print([message.metadata.sequence.stream for message in batch])


asyncio.run(main())
