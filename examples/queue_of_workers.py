"""A queue of push subscribers: members share the work, and a member that leaves keeps the consumer."""

import asyncio
from collections import Counter
from collections.abc import Callable

from example_server import example_server

import jetspark
from jetspark import JetStreamMsg, StreamConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc, jetspark.connect(url) as other:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="EXAMPLE_JOBS", subjects=["example.jobs.>"]))
        done: Counter[str] = Counter()
        everything = asyncio.Event()

        def worker(name: str) -> Callable[[JetStreamMsg], None]:
            def handle(message: JetStreamMsg) -> None:  # acknowledged when it returns
                done[name] += 1
                if done.total() in (20, 40):
                    everything.set()

            return handle

        # Without `durable=`, the queue's name is also the name of the durable consumer.
        first = await js.subscribe("example.jobs.>", "workers", callback=worker("first"))
        await other.jetstream().subscribe("example.jobs.>", "workers", callback=worker("second"))

        for number in range(20):
            await js.publish("example.jobs.new", f"job {number}".encode())
        await everything.wait()
        print(f"{done.total()} jobs, shared by {len(done)}")

        # The first member created the consumer. When it leaves, the consumer stays for the other member.
        await first.drain()
        everything.clear()
        for number in range(20, 40):
            await js.publish("example.jobs.new", f"job {number}".encode())
        await everything.wait()
        print(f"{done.total()} jobs, the last 20 by the one that stayed")


with example_server("EXAMPLE_JOBS") as url:
    asyncio.run(main(url))
