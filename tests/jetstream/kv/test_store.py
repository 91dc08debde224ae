"""Keys of a bucket: read, written, created, updated, deleted, purged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from jetspark import (
    BucketNotFound,
    Connection,
    KeyExists,
    KeyNotFound,
    KeyValue,
    KeyValueOperation,
    UsageError,
    WrongLastSequence,
    WrongRevision,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.kv.conftest import Make
from tests.support.cases import for_each
from tests.support.untyped import untyped


async def test_a_value_that_was_put_is_there(kv: KeyValue) -> None:
    revision = await kv.put("prices.eur", b"1.10")
    entry = await kv.get("prices.eur")
    assert (entry.bucket, entry.key, entry.value) == (kv.bucket, "prices.eur", b"1.10")
    assert (entry.revision, entry.operation, entry.deleted) == (revision, KeyValueOperation.PUT, False)
    assert abs(entry.created.timestamp() - time.time()) < 60


async def test_an_earlier_revision_can_be_read(kv: KeyValue) -> None:
    first = await kv.put("a", b"1")
    await kv.put("a", b"2")
    assert (await kv.get("a", revision=first)).value == b"1"
    assert (await kv.get("a")).value == b"2"


async def test_the_revision_of_another_key_is_not_found(kv: KeyValue) -> None:
    other = await kv.put("b", b"1")
    await kv.put("a", b"1")
    with pytest.raises(KeyNotFound, match="is not of key 'a'"):
        await kv.get("a", revision=other)
    with pytest.raises(KeyNotFound):
        await kv.get("a", revision=other + 100)


async def test_a_key_that_never_was_has_no_tombstone(kv: KeyValue) -> None:
    with pytest.raises(KeyNotFound) as caught:
        await kv.get("nothing")
    error = caught.value
    assert (error.bucket, error.key) == (kv.bucket, "nothing")
    assert (error.operation, error.revision, error.created) == (None, None, None)


@pytest.mark.parametrize("operation", ["DEL", "PURGE"])
async def test_the_error_for_a_deleted_key_carries_the_tombstone(kv: KeyValue, operation: str) -> None:
    await kv.put("a", b"1")
    revision = await (kv.delete("a") if operation == "DEL" else kv.purge("a"))
    with pytest.raises(KeyNotFound) as caught:
        await kv.get("a")
    assert (caught.value.operation, caught.value.revision) == (operation, revision)
    assert caught.value.created is not None


async def test_a_key_is_created_once(kv: KeyValue) -> None:
    revision = await kv.create("a", b"1")
    with pytest.raises(KeyExists) as caught:
        await kv.create("a", b"2")
    assert caught.value.last_sequence == revision
    assert isinstance(caught.value, WrongLastSequence)
    assert (await kv.get("a")).value == b"1"


@pytest.mark.parametrize("how", ["delete", "purge"])
async def test_a_deleted_key_can_be_created_again(kv: KeyValue, how: str) -> None:
    await kv.create("a", b"1")
    await getattr(kv, how)("a")
    await kv.create("a", b"2")
    assert (await kv.get("a")).value == b"2"


async def test_of_many_that_create_a_key_one_succeeds(kv: KeyValue) -> None:
    await kv.put("a", b"")
    await kv.delete("a")
    results = await asyncio.gather(
        *(kv.create("a", str(number).encode()) for number in range(20)), return_exceptions=True
    )
    created = [number for number, result in enumerate(results) if isinstance(result, int)]
    assert len(created) == 1
    assert all(isinstance(result, int | KeyExists) for result in results)
    assert (await kv.get("a")).value == str(created[0]).encode()


async def test_an_update_needs_the_current_revision(kv: KeyValue) -> None:
    first = await kv.put("a", b"1")
    second = await kv.update("a", b"2", first)
    with pytest.raises(WrongRevision) as caught:
        await kv.update("a", b"3", first)
    assert caught.value.last_sequence == second
    assert (await kv.get("a")).value == b"2"


async def test_concurrent_counters_with_update_lose_nothing(kv: KeyValue) -> None:
    await kv.put("n", b"0")

    async def count() -> None:
        for _ in range(5):
            while True:
                entry = await kv.get("n")
                try:
                    await kv.update("n", str(int(entry.value) + 1).encode(), entry.revision)
                    break
                except WrongRevision:
                    continue

    await asyncio.gather(*(count() for _ in range(4)))
    assert (await kv.get("n")).value == b"20"


@pytest.mark.parametrize("how", ["delete", "purge"])
async def test_a_delete_may_need_the_current_revision(kv: KeyValue, how: str) -> None:
    first = await kv.put("a", b"1")
    second = await kv.put("a", b"2")
    with pytest.raises(WrongRevision):
        await getattr(kv, how)("a", revision=first)
    await getattr(kv, how)("a", revision=second)
    with pytest.raises(KeyNotFound):
        await kv.get("a")


async def test_a_delete_keeps_the_history_and_a_purge_does_not(kv: KeyValue) -> None:
    for value in (b"1", b"2"):
        await kv.put("a", value)
        await kv.put("b", value)
    await kv.delete("a")
    await kv.purge("b")
    assert [(each.value, each.operation) for each in await kv.history("a")] == [
        (b"1", "PUT"),
        (b"2", "PUT"),
        (b"", "DEL"),
    ]
    assert [each.operation for each in await kv.history("b")] == ["PURGE"]
    assert await kv.history("c") == []


async def test_a_history_has_as_many_revisions_as_are_kept(kv: KeyValue) -> None:
    for number in range(9):
        await kv.put("a", str(number).encode())
    entries = await kv.history("a")
    assert [entry.value for entry in entries] == [b"4", b"5", b"6", b"7", b"8"]
    assert [entry.delta for entry in entries] == [4, 3, 2, 1, 0]


async def test_keys_are_those_with_a_value(kv: KeyValue) -> None:
    for key in ("a", "b.x", "b.y", "c.x.z", "gone", "purged"):
        await kv.put(key, b"1")
        await kv.put(key, b"2")
    await kv.delete("gone")
    await kv.purge("purged")
    assert [key async for key in kv.keys()] == ["a", "b.x", "b.y", "c.x.z"]
    assert [key async for key in kv.keys("b.*")] == ["b.x", "b.y"]
    assert [key async for key in kv.keys(["a", "c.>"])] == ["a", "c.x.z"]
    assert [key async for key in kv.keys("nothing.>")] == []


async def test_leaving_keys_early_leaves_nothing_behind(kv: KeyValue, nc: Connection, js: JetStream) -> None:
    await kv.put_many({f"k{number}": b"" for number in range(50)})
    keys = kv.keys()
    assert await anext(keys) == "k0"
    assert isinstance(keys, AsyncGenerator)
    await keys.aclose()
    async with asyncio.timeout(30):
        while [name async for name in js.consumer_names(kv.stream_name)]:
            await asyncio.sleep(0.01)


async def test_many_keys_are_written_and_read_at_once(kv: KeyValue) -> None:
    values = {f"k.{number}": str(number).encode() for number in range(1500)}
    assert await kv.put_many(values) == 1500
    await kv.delete("k.7")
    wanted = [*values, "missing"]
    found = {entry.key: entry.value async for entry in kv.get_many(wanted)}
    del values["k.7"]
    assert found == values
    assert await kv.put_many({}) == 0


async def test_a_bucket_that_only_its_leader_reads_does_all_the_same(make: Make) -> None:
    kv = await make(direct=False)
    await kv.put_many({"a": b"1", "b": b"2"})
    assert (await kv.get("a")).value == b"1"
    assert {entry.key async for entry in kv.get_many(["a", "b", "c"])} == {"a", "b"}


async def test_tombstones_are_removed_when_they_are_old_enough(kv: KeyValue) -> None:
    for key in ("a", "b"):
        await kv.put(key, b"1")
        await kv.put(key, b"2")
    await kv.delete("a")
    assert await kv.purge_deletes() == 2  # The two values before the tombstone.
    assert [entry.operation for entry in await kv.history("a")] == ["DEL"]
    assert await kv.purge_deletes(older_than=0) == 1
    assert await kv.history("a") == []
    assert len(await kv.history("b")) == 2


async def test_a_value_put_after_a_tombstone_survives_its_removal(
    kv: KeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jetspark.jetstream.manage import streams

    await kv.put("a", b"1")
    await kv.delete("a")
    purge = streams.purge

    async def purge_late(*args: Any) -> int:
        await kv.put("a", b"new")
        return await purge(*args)

    monkeypatch.setattr(streams, "purge", purge_late)
    await kv.purge_deletes(older_than=0)
    assert (await kv.get("a")).value == b"new"


async def test_a_tombstone_with_a_wildcard_removes_no_other_key(kv: KeyValue, shared_server: Server) -> None:
    await kv.put("a", b"1")
    header = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    subject = f"$KV.{kv.bucket}.*".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_server.port)
    writer.write(b'CONNECT {"headers": true, "verbose": false}\r\n')
    writer.write(b"HPUB %b %d %d\r\n%b\r\nPING\r\n" % (subject, len(header), len(header), header))
    async with asyncio.timeout(30):
        while await reader.readline() != b"PONG\r\n":
            pass
    writer.close()
    await kv.put("b", b"1")
    assert await kv.purge_deletes(older_than=0) == 0
    assert (await kv.get("a")).value == b"1"


async def test_ages_of_tombstones_may_be_anything(kv: KeyValue) -> None:
    await kv.delete("a")
    assert await kv.purge_deletes(older_than=float("inf")) == 0


# --- keys that expire


async def test_a_key_expires_and_a_watch_sees_it(make: Make) -> None:
    kv = await make(limit_marker_ttl=1, history=3)
    async with kv.watch() as changes, kv.cache() as cache:
        revision = await kv.create("a", b"1", ttl=1)
        await cache.wait(revision)
        assert cache["a"].ttl == 1.0
        created, expired = await changes.next(10), await changes.next(10)
        assert created is not None
        assert expired is not None
        assert (created.operation, expired.operation) == ("PUT", "PURGE")
        await cache.wait(expired.revision)
        assert "a" not in cache
    with pytest.raises(KeyNotFound):
        await kv.get("a")
    await kv.create("a", b"2")


async def test_the_tombstone_of_a_purge_may_expire(make: Make) -> None:
    kv = await make(limit_marker_ttl=60)
    await kv.put("a", b"1")
    await kv.purge("a", ttl=1)
    async with asyncio.timeout(20):
        while await kv.history("a"):
            await asyncio.sleep(0.05)


async def test_a_ttl_is_refused_where_it_cannot_work(make: Make, kv: KeyValue) -> None:
    for call in (kv.create("a", b"", ttl=1), kv.put("a", b"", ttl=1), kv.purge("a", ttl=1)):
        with pytest.raises(UsageError, match="limit_marker_ttl"):
            await call
    keeps = await make(limit_marker_ttl=60, history=2)
    for call in (keeps.put("a", b"", ttl=1), keeps.update("a", b"", 0, ttl=1)):
        with pytest.raises(UsageError, match="an older one would come back"):
            await call
    one = await make(limit_marker_ttl=60)
    await one.put("a", b"", ttl=1000)
    assert (await one.get("a")).ttl == 1000


async def test_a_bucket_that_was_updated_meanwhile_takes_a_ttl(make: Make, js: JetStream) -> None:
    from jetspark import KeyValueConfig

    kv = await make()
    await js.update_key_value(KeyValueConfig(bucket=kv.bucket, storage="memory", limit_marker_ttl=60))
    await kv.create("a", b"", ttl=1000)


# --- bad input


@for_each("key", ["", ".a", "a.", "a..b", "a b", "a*", "*", ">", "ä", "a\n", "$", "a" * 3000])
async def test_keys_that_are_not_valid_are_refused(kv: KeyValue, key: str) -> None:
    for call in (kv.get(key), kv.put(key, b""), kv.create(key, b""), kv.delete(key), kv.history(key)):
        with pytest.raises(UsageError):
            await call


async def test_filters_and_options_that_are_not_valid_are_refused(kv: KeyValue) -> None:
    for filters in ("", "a.>.b", "a b", [], ["a", "ä"]):
        with pytest.raises(UsageError, match="filters"):
            kv.watch(filters)
    with pytest.raises(UsageError, match="exclude each other"):
        kv.watch(include_history=True, updates_only=True)
    with pytest.raises(UsageError, match="from_revision"):
        kv.watch(from_revision=0)
    with pytest.raises(UsageError, match="revision"):
        await kv.get("a", revision=0)
    with pytest.raises(UsageError, match="values"):
        await kv.put_many(untyped([("a", b"")]))
    with pytest.raises(UsageError):
        await kv.put("a", untyped("text"))


async def test_a_deleted_bucket_is_not_found(kv: KeyValue, js: JetStream) -> None:
    await js.delete_key_value(kv.bucket)
    with pytest.raises(BucketNotFound, match=kv.bucket):
        await kv.get("a")
    with pytest.raises(BucketNotFound):
        await kv.put("a", b"")
    with pytest.raises(BucketNotFound):
        await kv.status()
    with pytest.raises(BucketNotFound):
        [key async for key in kv.keys()]


async def test_headers_of_other_programs_do_no_harm(kv: KeyValue, js: JetStream) -> None:
    subject = f"$KV.{kv.bucket}.odd"
    await js.publish(subject, b"v", headers={"KV-Operation": "SOMETHING", "Nats-Trace": "x"})
    assert (await kv.get("odd")).value == b"v"
    await js.publish(subject, b"v", headers={"Nats-Marker-Reason": "Newer"})
    with pytest.raises(KeyNotFound):
        await kv.get("odd")
    await js.publish(f"$KV.{kv.bucket}.schön", b"v")
    assert "schön" in [key async for key in kv.keys()]
