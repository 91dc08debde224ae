"""nats-py reads the objects of jetspark, and jetspark those of nats-py."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import AsyncIterator

import nats
import nats.js.errors
import pytest
import pytest_asyncio
from nats.js import JetStreamContext
from nats.js.api import ObjectMeta as TheirMeta

from jetspark import ObjectMeta, ObjectNotFound, ObjectStore
from jetspark.jetstream.context import JetStream
from jetspark.server import Server

DATA = os.urandom(400_001)


@pytest_asyncio.fixture
async def other(shared_server: Server) -> AsyncIterator[JetStreamContext]:
    nc = await nats.connect(shared_server.url)
    yield nc.jetstream()
    await nc.close()


async def test_nats_py_reads_objects_of_jetspark(store: ObjectStore, other: JetStreamContext) -> None:
    theirs = await other.object_store(store.bucket)
    await store.put(ObjectMeta(name="ä/b", description="d", headers={"H": ["1"]}), DATA)
    await store.put("empty", b"")
    await store.add_link("link", await store.info("ä/b"))
    await store.put("gone", b"1")
    await store.delete("gone")
    result = await theirs.get("ä/b")
    assert result.data == DATA
    assert (result.info.description, result.info.headers, result.info.size) == ("d", {"H": ["1"]}, len(DATA))
    assert (await theirs.get("link")).data == DATA
    assert not (await theirs.get("empty")).data
    with pytest.raises(nats.js.errors.ObjectNotFoundError):
        await theirs.get("gone")
    assert {info.name for info in await theirs.list(ignore_deletes=True)} == {"ä/b", "empty", "link"}


async def test_jetspark_reads_objects_of_nats_py(js: JetStream, other: JetStreamContext) -> None:
    name = f"T{secrets.token_hex(6)}"
    theirs = await other.create_object_store(name)
    await theirs.put("a", DATA, meta=TheirMeta(description="d", headers={"H": ["1"]}))
    await theirs.put("file", io.BytesIO(DATA))
    await theirs.put("gone", b"1")
    await theirs.delete("gone")
    store = await js.object_store(name)
    assert await store.get("a") == await store.get("file") == DATA
    info = await store.info("a")
    assert (info.description, info.headers, info.size) == ("d", {"H": ["1"]}, len(DATA))
    assert info.modified is not None
    with pytest.raises(ObjectNotFound):
        await store.get("gone")
    assert [each.name async for each in store.list()] == ["a", "file"]
    await store.put("a", b"ours")
    assert (await theirs.get("a")).data == b"ours"
    await theirs.put("a", b"theirs")
    assert await store.get("a") == b"theirs"
    await js.delete_object_store(name)
