"""A key-value bucket: put, update without lost updates, watch, and a cache that stays current."""

import asyncio

from example_server import example_server

import jetspark
from jetspark import KeyValueConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="EXAMPLE_PRICES", history=5))
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


with example_server("KV_EXAMPLE_PRICES") as url:
    asyncio.run(main(url))
