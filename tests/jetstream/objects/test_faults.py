"""Objects while connections break and leaders die: complete, or nothing is left."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

import jetspark
from jetspark import (
    ObjectMeta,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreConfig,
    WrongLastSequence,
)
from jetspark.server import Cluster, Server
from tests.jetstream.support import cut_at, patient
from tests.support.consuming import Lossy
from tests.support.leaders import leader_of, replace_leaders, step_down
from tests.support.proxy import TCPProxy
from tests.support.untyped import untyped

T = TypeVar("T")

PURGE = re.compile(rb"PUB \$JS\.API\.STREAM\.PURGE\.\S+ \S+ \d+\r\n(.*)\r\n")
EXPECTED = re.compile(rb"(Nats-Expected-Last-Subject-Sequence: )[1-8]\r\n")
BLOCK = os.urandom(100_000)


async def blocks(count: int, each: Callable[[int], Awaitable[None]]) -> AsyncIterator[bytes]:
    for number in range(count):
        await each(number)
        yield BLOCK


async def messages(store: ObjectStore) -> int:
    return (await store.status()).stream_info.state.messages


async def test_an_object_is_complete_though_its_connection_breaks(server: Server) -> None:
    async with (
        asyncio.timeout(200),
        TCPProxy(server.port) as proxy,
        jetspark.connect(proxy.url, reconnect_wait=0.01) as nc,
    ):
        store = await nc.jetstream().create_object_store(ObjectStoreConfig(bucket="b"))

        async def cut(number: int) -> None:
            if number % 20 == 10:
                proxy.cut()

        info = await store.put(ObjectMeta(name="a", chunk_size=10_000), blocks(60, cut))
        assert (info.size, info.chunks) == (60 * len(BLOCK), 600)
        assert proxy.accepted > 2
        assert await messages(store) == 601
        size = 0
        async with await store.open("a") as reader:
            async for chunk in reader:
                if size // 2_000_000 != (size + len(chunk)) // 2_000_000:
                    proxy.cut()
                assert chunk == BLOCK[size % len(BLOCK) : size % len(BLOCK) + len(chunk)]
                size += len(chunk)
        assert size == info.size


async def test_a_put_that_is_cancelled_while_the_server_is_away_leaves_nothing(server: Server) -> None:
    async with asyncio.timeout(200), jetspark.connect(server.url, reconnect_wait=0.01) as nc:
        store = await nc.jetstream().create_object_store(ObjectStoreConfig(bucket="b"))
        away = asyncio.Event()

        async def kill(number: int) -> None:
            if number == 20:
                while await messages(store) < 10:
                    await asyncio.sleep(0.01)
                server.kill()
                away.set()

        putting = asyncio.create_task(store.put("a", blocks(10_000, kill)))
        await away.wait()
        putting.cancel()
        await asyncio.sleep(0.1)
        await asyncio.to_thread(server.start)
        await asyncio.gather(putting, return_exceptions=True)
        assert putting.cancelled()
        while await messages(store):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("change", ["put", "delete", "update_meta", "add_link"])
async def test_a_change_that_always_conflicts_ends_with_the_error(
    store: ObjectStore, shared_server: Server, change: str
) -> None:
    target = await store.put("a", b"1")
    await store.add_bucket_link("link", "other")

    def expect_another(data: bytes) -> bytes:
        return EXPECTED.sub(rb"\g<1>9\r\n", data)

    changes: dict[str, Callable[[ObjectStore], Awaitable[object]]] = {
        "put": lambda store: store.put("a", b"2"),
        "delete": lambda store: store.delete("a"),
        "update_meta": lambda store: store.update_meta("a", ObjectMeta(name="a", description="new")),
        "add_link": lambda store: store.add_link("link", target),
    }
    async with (
        asyncio.timeout(30),
        TCPProxy(shared_server.port, client_to_server=expect_another) as proxy,
        jetspark.connect(proxy.url) as nc,
    ):
        same = await nc.jetstream().object_store(store.bucket)
        with pytest.raises(WrongLastSequence):
            await changes[change](same)
    assert await store.get("a") == b"1"
    assert await messages(store) == 3


async def test_an_object_is_complete_though_the_leader_of_its_store_dies(cluster: Cluster) -> None:
    async with asyncio.timeout(400), jetspark.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=20)
        store = await js.create_object_store(ObjectStoreConfig(bucket="leaders", replicas=3))
        stream = await js.get_stream(store.stream_name)

        async def disturb(number: int) -> None:
            if number == 40:
                await step_down(stream.stepdown_leader)
            if number == 80:
                (await leader_of(stream.info, cluster)).kill()

        data = b"".join([block async for block in blocks(120, lambda _: asyncio.sleep(0))])

        class Source:
            """A file that can be read again, and disturbs the cluster when it is read for the first time."""

            def __init__(self) -> None:
                self.position = 0
                self.done: set[int] = set()

            def seekable(self) -> bool:
                return True

            def tell(self) -> int:
                return self.position

            def seek(self, position: int) -> None:
                self.position = position

            def read(self, _: int) -> bytes:
                number = self.position // len(BLOCK)
                if number in (40, 80) and number not in self.done:
                    self.done.add(number)
                    asyncio.run_coroutine_threadsafe(disturb(number), loop).result(100)
                block = data[self.position : self.position + len(BLOCK)]
                self.position += len(block)
                return block

        loop = asyncio.get_running_loop()
        await store.put(ObjectMeta(name="a", chunk_size=20_000), untyped(Source()))
        assert await found(lambda: store.get("a")) == data
        assert await messages(store) == 601
        await js.delete_object_store("leaders")


async def test_an_object_is_renamed_though_the_connection_breaks_before_the_old_name_is_removed(
    server: Server,
) -> None:
    async with (
        asyncio.timeout(60),
        TCPProxy(server.port) as proxy,
        jetspark.connect(proxy.url, reconnect_wait=0.01) as nc,
    ):
        store = await nc.jetstream().create_object_store(ObjectStoreConfig(bucket="b"))
        await store.put("a", b"data")

        cut_at(proxy, b"STREAM.PURGE")
        await store.update_meta("a", ObjectMeta(name="b"))
        assert proxy.accepted == 2
        assert [each.name async for each in store.list()] == ["b"]


async def test_what_is_no_longer_needed_is_removed_though_the_request_for_that_is_lost(
    server: Server,
) -> None:
    requests = Lossy(PURGE)
    async with (
        asyncio.timeout(60),
        TCPProxy(server.port, client_to_server=requests) as proxy,
        jetspark.connect(proxy.url) as nc,
    ):
        store = await patient(nc).create_object_store(ObjectStoreConfig(bucket="b"))
        await store.put("a", b"old")
        requests.lose = 1
        await store.put("a", b"new")
        requests.lose = 2
        await store.update_meta("a", ObjectMeta(name="b"))
        assert len(requests.lost) == 2
        assert await messages(store) == 2
        assert [each.name async for each in store.list()] == ["b"]


async def test_every_operation_succeeds_while_leaders_die(cluster: Cluster) -> None:
    async with asyncio.timeout(500), jetspark.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=60)
        store = await js.create_object_store(ObjectStoreConfig(bucket="all", replicas=3))
        replacing = asyncio.create_task(replace_leaders(await js.get_stream(store.stream_name), cluster))
        rounds = 0
        while not replacing.done() or rounds < 3:
            rounds += 1
            await each_operation(store, f"r{rounds}.")
        await replacing
        assert await store.purge_orphans(older_than=0) == 0
        # An object, a link, a tombstone and five chunks of each round.
        assert await messages(store) == 8 * rounds
        assert (await store.seal()).sealed
        await js.delete_object_store("all")


async def each_operation(store: ObjectStore, prefix: str) -> None:
    """Every operation, on names that nobody else has."""
    a, b, c, link = (prefix + name for name in ("a", "b", "c", "link"))
    await store.put(ObjectMeta(name=a, chunk_size=20_000), b"old")
    info = await store.put(ObjectMeta(name=a, chunk_size=20_000), BLOCK)
    await store.update_meta(a, ObjectMeta(name=b, description="renamed"))
    await store.add_link(link, await found(lambda: store.info(b)))
    assert await found(lambda: store.get(link)) == BLOCK
    await store.put(c, b"1")
    await store.delete(c)
    # The replica that answers may be behind.
    async with asyncio.timeout(60):
        while {each.name async for each in store.list() if each.name.startswith(prefix)} != {b, link}:
            await asyncio.sleep(0.05)
        while not (await found(lambda: store.info(c, include_deleted=True))).deleted:
            await asyncio.sleep(0.05)
    assert (await found(lambda: store.info(b))).nuid == info.nuid


async def found(read: Callable[[], Awaitable[T]]) -> T:
    """What is read of an object that exists, from a replica that may be behind."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await read()
            except ObjectNotFound:
                await asyncio.sleep(0.05)
