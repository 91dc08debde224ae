"""Chunks that belong to no object are removed, and no others."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys

import pytest

from jetspark import (
    BucketNotFound,
    MessageNotFound,
    ObjectMeta,
    ObjectStore,
    ObjectStoreConfig,
    UsageError,
    connect,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.support import patient
from tests.support.proxy import TCPProxy
from tests.support.untyped import untyped

#: Puts an object that does not end.
ENDLESS = """
import itertools, sys
from jetspark import blocking
with blocking.connect(sys.argv[1]) as nc:
    nc.jetstream().object_store(sys.argv[2]).put("a", itertools.repeat(bytes(50_000)))
"""


async def messages(store: ObjectStore) -> int:
    return (await store.status()).stream_info.state.messages


async def at_rest(store: ObjectStore) -> int:
    """Wait until the server has stored all that it was sent; returns how many messages there are."""
    left = -1
    async with asyncio.timeout(60):
        while left != (left := await messages(store)):
            await asyncio.sleep(0.5)
    return left


async def test_what_a_killed_put_left_is_removed(store: ObjectStore, shared_server: Server) -> None:
    await store.put("a", b"old")
    command = (sys.executable, "-c", ENDLESS, shared_server.url, store.bucket)
    process = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(60):
            while await messages(store) < 10:
                await asyncio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    left = await at_rest(store)
    assert await store.purge_orphans() == 0  # It could still be under way.
    assert await messages(store) == left
    assert left >= 10
    assert await store.purge_orphans(older_than=0) >= left - 2
    assert await messages(store) == 2
    assert await store.get("a") == b"old"
    assert await store.purge_orphans(older_than=0) == 0


async def test_chunks_of_replaced_and_deleted_objects_are_removed(store: ObjectStore, js: JetStream) -> None:
    replaced = await store.put("a", b"1")
    deleted = await store.put("b", b"1")
    await store.put("c", b"1")
    await store.update_meta("c", ObjectMeta(name="d"))
    await store.put("a", b"2")
    await store.delete("b")
    for info in (replaced, deleted):  # As if the process had been killed before it removed them.
        await js.publish(f"$O.{store.bucket}.C.{info.nuid}", b"1")
    assert await store.purge_orphans(older_than=0) == 2
    assert (await store.get("a"), await store.get("d")) == (b"2", b"1")


async def test_metadata_that_cannot_be_read_keeps_the_chunks_that_it_names(
    store: ObjectStore, js: JetStream
) -> None:
    for nuid in ("x", "y"):
        await js.publish(f"$O.{store.bucket}.C.{nuid}", b"1")
    await js.publish(f"$O.{store.bucket}.M.YQ==", b"no JSON")
    await js.publish(f"$O.{store.bucket}.M.Yg==", b'{"name": 1, "nuid": "y"}')
    assert await store.purge_orphans(older_than=0) == 1
    assert await messages(store) == 3


async def test_an_object_that_is_renamed_meanwhile_keeps_its_chunks(
    store: ObjectStore, shared_server: Server
) -> None:
    await store.put("a", b"1")
    asked = asyncio.Event()

    def lose(data: bytes) -> bytes | None:
        if b"last_by_subj" not in data:
            return data
        asked.set()
        return None

    async with (
        asyncio.timeout(60),
        TCPProxy(shared_server.port, client_to_server=lose) as proxy,
        connect(proxy.url) as nc,
    ):
        same = await patient(nc).object_store(store.bucket)
        purging = asyncio.create_task(same.purge_orphans(older_than=0))
        # It has listed the object, and asks for the metadata until it gets an answer.
        await asked.wait()
        await store.update_meta("a", ObjectMeta(name="b"))
        proxy.client_to_server = None
        assert await purging == 0
    assert await store.get("b") == b"1"


async def test_metadata_that_stays_missing_is_an_error(store: ObjectStore, shared_server: Server) -> None:
    await store.put("a", b"1")

    def ask_for_another(data: bytes) -> bytes:
        return data.replace(b'"last_by_subj":"$O.', b'"last_by_subj":"$X.')

    async with (
        asyncio.timeout(30),
        TCPProxy(shared_server.port, client_to_server=ask_for_another) as proxy,
        connect(proxy.url) as nc,
    ):
        same = await nc.jetstream().object_store(store.bucket)
        with pytest.raises(MessageNotFound):
            await same.purge_orphans(older_than=0)
    assert await messages(store) == 2


async def test_ages_that_are_not_valid_are_refused(store: ObjectStore, js: JetStream) -> None:
    for age in untyped((-1, float("nan"), "1")):
        with pytest.raises(UsageError, match="older_than"):
            await store.purge_orphans(older_than=age)
    await js.publish(f"$O.{store.bucket}.C.x", b"1")
    assert await store.purge_orphans(older_than=float("inf")) == 0


async def test_a_deleted_store_is_not_found(js: JetStream) -> None:
    store = await js.create_object_store(ObjectStoreConfig(bucket=f"T{secrets.token_hex(6)}"))
    await js.delete_object_store(store.bucket)
    for call in (store.purge_orphans, store.seal, store.status):
        with pytest.raises(BucketNotFound):
            await call()
