"""An object store: put a file, read it chunk by chunk, link to it, list what is there."""

import asyncio
import os
import tempfile
from pathlib import Path

from example_server import example_server

import jetspark
from jetspark import ObjectStoreConfig


async def main(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store(ObjectStoreConfig(bucket="EXAMPLE_MODELS"))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.bin"
            path.write_bytes(os.urandom(1_000_000))
            info = await store.put_file(path)
            print(f"stored {info.name}: {info.size} bytes in {info.chunks} chunks")

            async with await store.open("model.bin") as reader:
                print("read", sum([len(chunk) async for chunk in reader]), "bytes")
            await store.get_file("model.bin", Path(directory) / "copy.bin")

        await store.add_link("latest", info)
        await store.put("notes", b"trained on Tuesday")
        await store.delete("notes")
        print("objects:", [each.name async for each in store.list()])


with example_server("OBJ_EXAMPLE_MODELS") as url:
    asyncio.run(main(url))
