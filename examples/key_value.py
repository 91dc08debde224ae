"""A key-value bucket: put, update without lost updates, watch, and a cache that stays current."""

import asyncio
import os

import jetspark
from jetspark import KeyValueConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with jetspark.connect(URL) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="prices", history=5))
        await kv.put_many({"eur.usd": b"1.10", "eur.chf": b"0.96"})

        entry = await kv.get("eur.usd")
        await kv.update("eur.usd", b"1.11", entry.revision)
        try:
            await kv.update("eur.usd", b"1.12", entry.revision)
        except jetspark.WrongRevision as error:
            print("somebody was faster: revision", error.last_sequence)

        async with kv.watch("eur.*") as changes, kv.cache() as cache:
            async for entry in changes.initial():
                print(f"{entry.key} = {entry.value.decode()}")
            revision = await kv.delete("eur.chf")
            change = await changes.next(timeout=5)
            print("changed:", change)
            await cache.wait(revision)
            print("cached:", {key: entry.value.decode() for key, entry in cache.items()})


asyncio.run(main())
