"""A queue of push subscribers: members share the work, come and go, and leave the consumer to the others."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable

import jetspark
from jetspark import JetStreamMsg, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc, jetspark.connect(URL) as other:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="JOBS", subjects=["jobs.>"]))
        done: Counter[str] = Counter()
        everything = asyncio.Event()

        def worker(name: str) -> Callable[[JetStreamMsg], None]:
            def handle(message: JetStreamMsg) -> None:  # acknowledged when it returns
                done[name] += 1
                if done.total() in (20, 40):
                    everything.set()

            return handle

        # The queue is also the name of the durable, because nothing else is said.
        first = await js.subscribe("jobs.>", "workers", callback=worker("first"))
        await other.jetstream().subscribe("jobs.>", "workers", callback=worker("second"))

        for number in range(20):
            await js.publish("jobs.new", f"job {number}".encode())
        await everything.wait()
        print(f"{done.total()} jobs, shared by {len(done)}")

        # It created the consumer, and leaves it where it is.
        await first.drain()
        everything.clear()
        for number in range(20, 40):
            await js.publish("jobs.new", f"job {number}".encode())
        await everything.wait()
        print(f"{done.total()} jobs, the last 20 by the one that stayed")


asyncio.run(main())
