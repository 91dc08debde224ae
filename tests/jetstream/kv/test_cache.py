"""Caches: current without asking the server."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import BucketNotFound, KeyValue, Timeout
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.kv.conftest import Make
from tests.support.watch import eventually


async def test_a_cache_has_the_current_values_and_follows_changes(kv: KeyValue) -> None:
    await kv.put_many({"a": b"1", "b": b"2"})
    await kv.delete("b")
    async with kv.cache() as cache:
        assert {key: entry.value for key, entry in cache.items()} == {"a": b"1"}
        assert cache.current
        await kv.put("a", b"3")
        await kv.put("c", b"4")
        await cache.wait(await kv.delete("c"))
        assert {key: entry.value for key, entry in cache.items()} == {"a": b"3"}
        assert "c" not in cache
        assert cache.get("c") is None
        assert len(cache) == 1
        with pytest.raises(KeyError):
            cache["c"]
        with pytest.raises(Timeout, match="revision"):
            await cache.wait(cache.revision + 1, timeout=0.01)
    assert not cache.current


async def test_a_cache_of_some_keys_has_only_these(kv: KeyValue) -> None:
    await kv.put_many({"a.x": b"1", "b.x": b"2"})
    async with kv.cache("a.>") as cache:
        assert list(cache) == ["a.x"]


async def test_reads_of_a_cache_whose_bucket_is_gone_fail(kv: KeyValue, js: JetStream) -> None:
    await kv.put("a", b"1")
    async with kv.cache() as cache:
        await js.delete_key_value(kv.bucket)
        await eventually(lambda: not cache.current, "the watch to end")
        for read in (lambda: cache["a"], lambda: list(cache), lambda: cache.get("a")):
            with pytest.raises(BucketNotFound):
                read()


async def test_a_cache_drops_values_that_expire_without_a_marker(make: Make) -> None:
    kv = await make(ttl=1)
    await kv.put("a", b"1")
    async with kv.cache() as cache:
        assert "a" in cache
        await eventually(lambda: "a" not in cache, "the value to expire")
        assert len(cache) == 0


async def test_a_cache_catches_up_after_the_server_was_away(server: Server) -> None:
    import jetspark
    from jetspark import KeyValueConfig

    async with jetspark.connect(server.url, reconnect_wait=0.01) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="b"))
        await kv.put("a", b"1")
        async with kv.cache() as cache:
            server.kill()
            await eventually(lambda: not cache.current, "the connection to break")
            assert cache["a"].value == b"1"
            await asyncio.to_thread(server.start)
            revision = await kv.put("a", b"2")
            await cache.wait(revision, timeout=30)
            assert cache["a"].value == b"2"
