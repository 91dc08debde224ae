"""nats-py reads what jetspark writes, and jetspark what nats-py writes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import nats
import nats.js.api
import nats.js.errors
import pytest
import pytest_asyncio
from nats.js import JetStreamContext

from jetspark import KeyExists, KeyNotFound, KeyValue
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.kv.conftest import Make
from tests.support.untyped import untyped


@pytest_asyncio.fixture
async def other(shared_server: Server) -> AsyncIterator[JetStreamContext]:
    nc = await nats.connect(shared_server.url)
    yield nc.jetstream()
    await nc.close()


async def test_nats_py_reads_a_bucket_of_jetspark(kv: KeyValue, other: JetStreamContext) -> None:
    theirs = await other.key_value(kv.bucket)
    await kv.put("a", b"1")
    revision = await kv.put("a", b"2")
    await kv.put("gone", b"3")
    await kv.delete("gone")
    await kv.put("purged", b"3")
    await kv.purge("purged")
    entry = await theirs.get("a")
    assert (entry.value, entry.revision) == (b"2", revision)
    assert await theirs.keys() == ["a"]
    assert [each.value for each in await theirs.history("a")] == [b"1", b"2"]
    for key in ("gone", "purged"):
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await theirs.get(key)
    watcher = await theirs.watchall()
    seen = {}
    async for update in watcher:
        if update is None:
            break
        seen[update.key] = update.operation
    await untyped(watcher).stop()
    assert seen == {"a": None, "gone": "DEL", "purged": "PURGE"}


async def test_nats_py_changes_a_bucket_of_jetspark(kv: KeyValue, other: JetStreamContext) -> None:
    theirs = await other.key_value(kv.bucket)
    async with kv.watch() as changes, kv.cache() as cache:
        first = await theirs.create("a", b"1")
        assert (await kv.get("a")).revision == first
        second = await kv.update("a", b"2", first)
        third = await theirs.update("a", b"3", second)
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await theirs.update("a", b"4", second)
        await theirs.delete("a")
        with pytest.raises(KeyNotFound) as caught:
            await kv.get("a")
        assert (caught.value.operation, caught.value.revision) == ("DEL", third + 1)
        await theirs.put("b", b"1")
        await theirs.purge("b")
        seen = [await changes.next(10) for _ in range(6)]
        assert [entry and entry.operation.value for entry in seen] == [
            "PUT",
            "PUT",
            "PUT",
            "DEL",
            "PUT",
            "PURGE",
        ]
        last = seen[-1]
        assert last is not None
        await cache.wait(last.revision)
        assert dict(cache) == {}
    await theirs.create("c", b"1")
    with pytest.raises(KeyExists):
        await kv.create("c", b"2")
    await theirs.purge_deletes(olderthan=-1)
    assert [key async for key in kv.keys()] == ["c"]


async def test_jetspark_opens_a_bucket_of_nats_py(
    js: JetStream, other: JetStreamContext, bucket: str
) -> None:
    theirs = await other.create_key_value(
        nats.js.api.KeyValueConfig(bucket=bucket, history=3, ttl=300, limit_marker_ttl=1)
    )
    for value in (b"1", b"2"):
        await theirs.put("a", value)
    await theirs.create("short", b"1", msg_ttl=200)
    kv = await js.key_value(bucket)
    status = await kv.status()
    assert (status.history, status.ttl, status.limit_marker_ttl) == (3, 300.0, 1.0)
    assert [entry.value for entry in await kv.history("a")] == [b"1", b"2"]
    assert [key async for key in kv.keys()] == ["a", "short"]
    assert (await kv.get("short")).ttl == 200.0
    await js.delete_key_value(bucket)


async def test_a_bucket_of_jetspark_has_the_status_that_nats_py_expects(
    make: Make, other: JetStreamContext
) -> None:
    kv = await make(history=3, ttl=100)
    await kv.put("a", b"1")
    status = await (await other.key_value(kv.bucket)).status()
    assert (status.values, status.history, status.ttl) == (1, 3, 100)
