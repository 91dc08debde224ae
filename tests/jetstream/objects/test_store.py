"""Objects: stored, read, linked, renamed, deleted, listed, watched."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import threading
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jetspark import (
    BucketExists,
    BucketNotFound,
    DigestMismatch,
    Error,
    MaxPayloadError,
    ObjectExists,
    ObjectInfo,
    ObjectMeta,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreConfig,
    StreamFull,
    StreamSealed,
    Timeout,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.objects import store as store_module
from jetspark.jetstream.publish import one
from tests.support.cases import for_each
from tests.support.effort import effort
from tests.support.untyped import untyped

DATA = os.urandom(700_001)


async def pieces(data: bytes = DATA, size: int = 70_001) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def messages(store: ObjectStore) -> int:
    return (await store.status()).stream_info.state.messages


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview", "file", "iterable", "stream"])
async def test_data_of_every_kind_is_stored_and_read(store: ObjectStore, kind: str) -> None:
    data: Any = {
        "bytes": DATA,
        "bytearray": bytearray(DATA),
        "memoryview": memoryview(DATA),
        "file": io.BytesIO(DATA),
        "iterable": iter([DATA[:5], b"", DATA[5:]]),
        "stream": pieces(),
    }[kind]
    info = await store.put("ümlaut / any text", data)
    assert (info.size, info.chunks, info.bucket) == (len(DATA), 6, store.bucket)
    assert await store.get("ümlaut / any text") == DATA
    found = await store.info("ümlaut / any text")
    assert (found.digest, found.nuid) == (info.digest, info.nuid)
    assert found.modified is not None


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000])
async def test_data_of_every_size_is_stored_and_read(store: ObjectStore, size: int) -> None:
    info = await store.put(ObjectMeta(name="a", chunk_size=1000), DATA[:size])
    assert (info.size, info.chunks) == (size, -(-size // 1000))
    assert await store.get("a") == DATA[:size]


async def test_an_object_replaces_the_one_of_its_name(store: ObjectStore) -> None:
    first = await store.put("a", DATA)
    second = await store.put("a", b"new")
    assert first.nuid != second.nuid
    assert await store.get("a") == b"new"
    assert await messages(store) == 2  # The metadata and one chunk: nothing of the old one.


async def test_of_many_puts_of_one_name_one_wins_and_nothing_is_left_of_the_others(
    store: ObjectStore,
) -> None:
    await asyncio.gather(*(store.put("a", str(number).encode()) for number in range(8)))
    assert int(await store.get("a")) in range(8)
    assert await messages(store) == 2


async def test_files_are_stored_and_written(store: ObjectStore, tmp_path: Path) -> None:
    source, target = tmp_path / "source.bin", tmp_path / "target.bin"
    source.write_bytes(DATA)
    info = await store.put_file(source)
    assert info.name == "source.bin"
    assert (await store.get_file("source.bin", target)).size == len(DATA)
    assert target.read_bytes() == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.bin", "target.bin"]
    with pytest.raises(FileNotFoundError):
        await store.put_file(tmp_path / "missing")
    with pytest.raises(ObjectNotFound):
        await store.get_file("missing", tmp_path / "x")


async def test_an_object_is_read_chunk_by_chunk(store: ObjectStore) -> None:
    await store.put(ObjectMeta(name="a", chunk_size=100_000), DATA)
    async with await store.open("a") as reader:
        assert reader.info.chunks == 8
        assert [len(chunk) async for chunk in reader] == [100_000] * 7 + [1]
        assert await reader.next() is None
    async with await store.open("a") as reader:
        assert await reader.next() == DATA[:100_000]
    assert await reader.next() is None


async def test_memory_does_not_grow_with_the_object(store: ObjectStore) -> None:
    size = effort(48, 512) * 1024 * 1024
    block = bytes(1024 * 1024)

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(size // len(block)):
            yield block

    tracemalloc.start()
    try:
        await store.put("large", endless())
        async with await store.open("large") as reader:
            assert sum([len(chunk) async for chunk in reader]) == size
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * 1024 * 1024


async def test_metadata_is_kept_and_changed(store: ObjectStore) -> None:
    meta = ObjectMeta(name="a", description="one", headers={"H": ["1", "2"]}, metadata={"m": "x"})
    await store.put(meta, b"data")
    info = await store.info("a")
    assert (info.description, info.headers, info.metadata) == ("one", {"H": ["1", "2"]}, {"m": "x"})
    changed = await store.update_meta("a", ObjectMeta(name="b", description="two"))
    assert (changed.name, changed.description, changed.headers) == ("b", "two", {})
    assert await store.get("b") == b"data"
    with pytest.raises(ObjectNotFound):
        await store.info("a")
    await store.put("c", b"")
    with pytest.raises(ObjectExists, match="'c'"):
        await store.update_meta("b", ObjectMeta(name="c"))
    with pytest.raises(ObjectNotFound):
        await store.update_meta("nothing", ObjectMeta(name="nothing"))


async def test_changed_metadata_does_not_bring_replaced_data_back(store: ObjectStore) -> None:
    await store.put("a", b"0")
    changes = (store.update_meta("a", ObjectMeta(name="a", description="d")) for _ in range(8))
    await asyncio.gather(*(store.put("a", str(number).encode()) for number in range(8)), *changes)
    assert int(await store.get("a")) in range(8)
    assert await messages(store) == 2


async def test_a_deleted_object_is_gone_with_its_chunks(store: ObjectStore) -> None:
    await store.put("a", DATA)
    assert (await store.delete("a")).deleted
    assert (await store.delete("a")).deleted
    assert await messages(store) == 1
    with pytest.raises(ObjectNotFound) as caught:
        await store.get("a")
    assert caught.value.deleted
    assert (await store.info("a", include_deleted=True)).size == 0
    with pytest.raises(ObjectNotFound) as caught:
        await store.delete("never")
    assert not caught.value.deleted
    await store.put("a", b"again")
    assert await store.get("a") == b"again"


async def test_links_lead_to_objects_of_any_store(store: ObjectStore, js: JetStream) -> None:
    other = await js.create_object_store(
        ObjectStoreConfig(bucket=f"T{secrets.token_hex(6)}", storage="memory")
    )
    target = await other.put("target", DATA)
    link = await store.add_link("link", target)
    assert link.link is not None
    assert (link.link.bucket, link.link.name) == (other.bucket, "target")
    assert await store.get("link") == DATA
    await store.add_link("link", await other.put("other", b"2"))  # A link may be replaced.
    assert await store.get("link") == b"2"
    await store.add_bucket_link("all", other.bucket)
    with pytest.raises(UsageError, match="whole store"):
        await store.get("all")
    await store.put("object", b"")
    with pytest.raises(ObjectExists):
        await store.add_link("object", target)
    with pytest.raises(UsageError, match="a link"):
        await store.add_link("second", await store.info("link"))
    with pytest.raises(UsageError, match="deleted"):
        await store.add_link("second", await other.delete("target"))
    await js.delete_object_store(other.bucket)
    with pytest.raises(BucketNotFound):
        await store.get("link")


async def test_links_in_a_circle_are_an_error(store: ObjectStore) -> None:
    one = ObjectInfo(name="two", bucket=store.bucket, nuid="x")
    await store.add_link("one", one)
    await store.add_link("two", ObjectInfo(name="one", bucket=store.bucket, nuid="x"))
    with pytest.raises(UsageError, match="leads to more than"):
        await store.get("one")


async def test_objects_are_listed_and_watched(store: ObjectStore) -> None:
    for name in ("a", "b", "c"):
        await store.put(name, b"1")
    await store.delete("b")
    assert [info.name async for info in store.list()] == ["a", "c"]
    assert [info.name async for info in store.list(include_deleted=True)] == ["a", "c", "b"]
    async with store.watch(ignore_deletes=True) as changes:
        assert [info.name async for info in changes.initial()] == ["a", "c"]
        await store.put("d", b"1")
        await store.delete("a")
        await store.put("e", b"1")
        found = [await changes.next(10), await changes.next(10)]
        assert [info and info.name for info in found] == ["d", "e"]
    async with store.watch(updates_only=True) as changes:
        await store.delete("e")
        info = await changes.next(10)
        assert info is not None
        assert (info.name, info.deleted) == ("e", True)


async def test_a_sealed_store_cannot_be_changed(store: ObjectStore) -> None:
    await store.put("a", b"1")
    assert (await store.seal()).sealed
    with pytest.raises(StreamSealed):
        await store.put("b", b"1")
    assert await store.get("a") == b"1"


async def test_stores_are_found_listed_and_changed(store: ObjectStore, js: JetStream) -> None:
    assert (await js.object_store(store.bucket)).bucket == store.bucket
    assert store.bucket in [name async for name in js.object_store_names()]
    assert store.bucket in [status.bucket async for status in js.object_stores()]
    with pytest.raises(BucketExists):
        await js.create_object_store(ObjectStoreConfig(bucket=store.bucket, storage="memory", ttl=60))
    config = ObjectStoreConfig(bucket=store.bucket, storage="memory", description="x", ttl=60)
    status = await (await js.update_object_store(config)).status()
    assert (status.description, status.ttl, status.replicas, status.compressed) == ("x", 60.0, 1, False)
    assert (status.storage, status.backing_store, status.sealed) == ("memory", "JetStream", False)
    for call in (js.object_store, js.delete_object_store):
        with pytest.raises(BucketNotFound):
            await call("missing")
    with pytest.raises(BucketNotFound):
        await js.update_object_store(config.replace(bucket="missing"))


# --- what goes wrong


async def broken(store: ObjectStore) -> AsyncIterator[bytes]:
    yield DATA
    yield DATA
    async with asyncio.timeout(30):
        while await messages(store) < 5:  # Until some of it is stored.
            await asyncio.sleep(0.005)
    raise OSError("the source broke")


async def test_a_put_whose_source_breaks_leaves_nothing_behind(store: ObjectStore) -> None:
    await store.put("a", b"old")
    with pytest.raises(OSError, match="the source broke"):
        await store.put("a", broken(store))
    assert await messages(store) == 2
    assert await store.get("a") == b"old"


async def test_a_cancelled_put_leaves_nothing_behind(store: ObjectStore) -> None:
    stored = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield DATA
            if await messages(store) > 5:
                stored.set()

    putting = asyncio.create_task(store.put("a", endless()))
    async with asyncio.timeout(60):
        await stored.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    async with asyncio.timeout(60):
        while await messages(store):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("arrived", [True, False])
async def test_an_object_whose_last_answer_is_lost_is_whole_or_not_there(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    await store.put("a", b"old")
    publish = one.publish

    async def lose_the_answer(*args: Any, **options: Any) -> None:
        if arrived:
            await publish(*args, **options)
        raise Timeout("no answer")

    monkeypatch.setattr(store_module, "publish", lose_the_answer)
    if arrived:
        await store.put("a", DATA)
    else:
        with pytest.raises(Timeout):
            await store.put("a", DATA)
    assert await store.get("a") == (DATA if arrived else b"old")
    assert await messages(store) == (7 if arrived else 2)


async def test_a_store_that_is_full_takes_nothing_of_an_object(js: JetStream) -> None:
    name = f"T{secrets.token_hex(6)}"
    store = await js.create_object_store(
        ObjectStoreConfig(bucket=name, storage="memory", max_bytes=1_000_000)
    )
    await store.put("a", b"1")
    with pytest.raises(StreamFull):
        await store.put("b", DATA * 3)
    assert await messages(store) == 2
    await js.delete_object_store(name)


async def test_data_that_was_changed_is_not_returned_as_whole(store: ObjectStore, js: JetStream) -> None:
    info = await store.put(ObjectMeta(name="a", chunk_size=100_000), DATA)
    stream = await js.get_stream(store.stream_name)
    chunk = await stream.get_next_message(f"$O.{store.bucket}.C.{info.nuid}")
    await stream.delete_message(chunk.sequence)
    with pytest.raises(DigestMismatch, match="in 7 chunks, not"):
        await store.get("a")
    await js.publish(f"$O.{store.bucket}.C.{info.nuid}", bytes(100_000))
    with pytest.raises(DigestMismatch, match="digest"):
        await store.get("a")


async def test_a_reader_that_is_cancelled_while_it_hashes_loses_no_chunk(store: ObjectStore) -> None:
    await store.put(ObjectMeta(name="a", chunk_size=100_000), DATA)
    async with await store.open("a") as reader:
        hashing, released = threading.Event(), threading.Event()
        digest = reader._hash

        class Slow:
            def update(self, data: bytes) -> None:
                hashing.set()
                assert released.wait(60)
                digest.update(data)

            def digest(self) -> bytes:
                return digest.digest()

        reader._hash = untyped(Slow())
        found = []
        waiting = asyncio.create_task(reader.next())
        assert await asyncio.to_thread(hashing.wait, 60)
        while waiting.done():  # It returns the chunks that are ready, and then waits for their hash.
            found.append(waiting.result() or b"")
            waiting = asyncio.create_task(reader.next())
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        released.set()
        assert b"".join(found) + await reader.read() == DATA


async def test_a_reader_that_is_cancelled_at_the_end_still_checks_the_data(
    store: ObjectStore, js: JetStream
) -> None:
    info = await store.put(ObjectMeta(name="a", chunk_size=100), DATA[:300])
    stream = await js.get_stream(store.stream_name)
    chunk = await stream.get_next_message(f"$O.{store.bucket}.C.{info.nuid}")
    await stream.delete_message(chunk.sequence)
    await js.publish(f"$O.{store.bucket}.C.{info.nuid}", bytes(100))
    async with await store.open("a") as reader:
        assert [len(await anext(reader)) for _ in range(3)] == [100, 100, 100]
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        with pytest.raises(DigestMismatch, match="digest"):
            await reader.next()


async def test_metadata_that_is_not_valid_is_an_error_and_does_not_end_a_watch(
    store: ObjectStore, js: JetStream
) -> None:
    await js.publish(f"$O.{store.bucket}.M.YQ==", b"no JSON")
    await store.put("b", b"1")
    assert [info.name async for info in store.list()] == ["b"]
    with pytest.raises(Error):
        await store.info("a")


@for_each("data", ["text", 7, None, io.StringIO("text"), ["text"]])
async def test_other_data_than_bytes_is_refused(store: ObjectStore, data: Any) -> None:
    with pytest.raises(UsageError):
        await store.put("a", data)
    assert await messages(store) == 0


async def test_names_and_sizes_that_are_not_valid_are_refused(store: ObjectStore) -> None:
    for name in untyped(("", "a\ud800", 7)):
        with pytest.raises(UsageError):
            await store.put(name, b"")
    with pytest.raises(UsageError, match="chunk_size"):
        ObjectMeta(name="a", chunk_size=0)
    with pytest.raises(MaxPayloadError, match="chunk_size"):
        await store.put(ObjectMeta(name="a", chunk_size=1024 * 1024), b"")
