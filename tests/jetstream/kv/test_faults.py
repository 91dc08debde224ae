"""A watch under random faults: no gap, no repeat, and in the end the state of the bucket."""

from __future__ import annotations

import asyncio
import random

import pytest

import jetspark
from jetspark import (
    Error,
    KeyExists,
    KeyNotFound,
    KeyValue,
    KeyValueCache,
    KeyValueConfig,
    KeyValueEntry,
    WrongRevision,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Cluster, Server
from tests.support.effort import effort
from tests.support.leaders import leader_of, replace_leaders, step_down
from tests.support.proxy import TCPProxy

FAULTS = effort(25, 100)
KEYS = [f"k{number}" for number in range(40)]


class Writer:
    """Changes keys at random, until it is told to stop."""

    def __init__(self, kv: KeyValue, chance: random.Random) -> None:
        self._kv = kv
        self._chance = chance
        self._task = asyncio.create_task(self._write())
        self._stopped = False
        self.state: dict[str, bytes] = {}
        self.revisions: dict[str, int] = {}

    async def _write(self) -> None:
        for number in range(40 * 60):  # Less than 64 revisions of a key: each of them is kept.
            if self._stopped:
                return
            key = KEYS[number % len(KEYS)]
            if self._chance.random() < 0.2:
                self.revisions[key] = await self._kv.delete(key)
                self.state.pop(key, None)
            else:
                value = str(number).encode()
                self.revisions[key] = await self._kv.put(key, value)
                self.state[key] = value
            await asyncio.sleep(self._chance.random() / 100)

    async def stop(self) -> None:
        self._stopped = True
        await self._task


async def follow(kv: KeyValue, seen: list[KeyValueEntry]) -> None:
    async with kv.watch(include_history=True) as changes:
        async for entry in changes:
            seen.append(entry)  # noqa: PERF401 - the test looks at it meanwhile


async def history(kv: KeyValue, key: str, last: int) -> list[int]:
    """The revisions of a key up to the last one. The replica that a consumer reads may be behind."""
    async with asyncio.timeout(60):
        while not (kept := [entry.revision for entry in await kv.history(key)]) or kept[-1] < last:
            await asyncio.sleep(0.1)
    return kept


async def judge(kv: KeyValue, writer: Writer, seen: list[KeyValueEntry], seed: int) -> None:
    """Compare what was seen with what the bucket holds."""
    stored: list[int] = []
    for key, revision in writer.revisions.items():
        stored += await history(kv, key, revision)
    last = max(stored)
    async with asyncio.timeout(60):
        while not seen or seen[-1].revision < last:
            await asyncio.sleep(0.01)
    assert [entry.revision for entry in seen] == sorted(stored), f"seed {seed}"
    state: dict[str, bytes] = {}
    for entry in seen:
        state[entry.key] = entry.value
        if entry.deleted:
            del state[entry.key]
    assert state == writer.state, f"seed {seed}"


@pytest.mark.faults
async def test_a_watch_under_random_faults_has_no_gap_and_no_repeat(server: Server) -> None:
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    seen: list[KeyValueEntry] = []
    async with (
        asyncio.timeout(500),
        TCPProxy(server.port) as proxy,
        jetspark.connect(server.url, reconnect_wait=0.01, max_reconnect_attempts=-1) as direct,
        jetspark.connect(proxy.url, reconnect_wait=0.01, max_reconnect_attempts=-1) as nc,
    ):
        js = direct.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket="b", history=64))
        writer = Writer(kv, chance)
        watching = asyncio.create_task(follow(await nc.jetstream().key_value("b"), seen))
        for _ in range(FAULTS):
            await asyncio.sleep(chance.random() / 10)
            await fault(chance, proxy, js, server)
        await writer.stop()
        await judge(kv, writer, seen, seed)
        assert not watching.done(), watching
        watching.cancel()
        await asyncio.wait([watching])


async def fault(chance: random.Random, proxy: TCPProxy, js: JetStream, server: Server) -> None:
    kind = chance.choice(("cut", "cut", "garble", "consumer", "stall", "kill"))
    if kind == "cut":
        proxy.cut()
    elif kind == "garble":  # A part of what the server sends is lost, and the connection with it.
        lose = chance.randrange(1, 2000)

        def drop(data: bytes) -> bytes:
            proxy.server_to_client = None
            proxy.cut()
            return data[:-lose]

        proxy.server_to_client = drop
    elif kind == "consumer":
        try:
            async for name in js.consumer_names("KV_b"):
                await js.delete_consumer("KV_b", name)
        except Error:
            pass
    elif kind == "stall":
        proxy.stall()
        await asyncio.sleep(chance.random() / 5)
        proxy.unstall()
    elif chance.random() < 0.3:
        server.kill()
        await asyncio.to_thread(server.start)


async def test_a_watch_survives_the_leaders_of_its_bucket(cluster: Cluster) -> None:
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    seen: list[KeyValueEntry] = []
    async with asyncio.timeout(500), jetspark.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=20)
        kv = await js.create_key_value(KeyValueConfig(bucket="leaders", history=64, replicas=3))
        stream = await js.get_stream(kv.stream_name)
        writer = Writer(kv, chance)
        watching = asyncio.create_task(follow(kv, seen))
        for round_ in range(3):
            before = len(seen)
            async with asyncio.timeout(100):
                while len(seen) < before + 10:
                    await asyncio.sleep(0.01)
            leader = await leader_of(stream.info, cluster)
            if round_ == 2:
                leader.kill()
            else:
                await step_down(stream.stepdown_leader)
        await asyncio.sleep(0.2)
        await writer.stop()
        await judge(kv, writer, seen, seed)
        assert not watching.done(), watching
        watching.cancel()
        await asyncio.wait([watching])
        await js.delete_key_value("leaders")


async def test_every_operation_succeeds_while_leaders_die(cluster: Cluster) -> None:
    async with asyncio.timeout(500), jetspark.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=60)
        # The leader answers all reads: they see what was written before.
        config = KeyValueConfig(bucket="all", history=5, replicas=3, direct=False, limit_marker_ttl=60)
        kv = await js.create_key_value(config)
        replacing = asyncio.create_task(replace_leaders(await js.get_stream(kv.stream_name), cluster))
        rounds = 0
        async with kv.cache() as cache:
            while not replacing.done() or rounds < 3:
                rounds += 1
                await each_operation(kv, cache, f"r{rounds}")
        await replacing
        # The replica that a consumer reads may be behind.
        purged = 0
        left = {f"r{number}.c" for number in range(1, rounds + 1)}
        async with asyncio.timeout(60):
            while (purged := purged + await kv.purge_deletes(older_than=0)) < 4 * rounds:
                await asyncio.sleep(0.1)
            while {key async for key in kv.keys()} != left:
                await asyncio.sleep(0.1)
        assert purged == 4 * rounds
        assert (await kv.status()).values == rounds
        await js.delete_key_value("all")


async def each_operation(kv: KeyValue, cache: KeyValueCache, prefix: str) -> None:
    """Every operation, on keys that nobody else has."""
    a, b, c = (f"{prefix}.{name}" for name in "abc")
    first = await kv.create(a, b"1")
    with pytest.raises(KeyExists):
        await kv.create(a, b"2")
    second = await kv.update(a, b"2", first)
    with pytest.raises(WrongRevision):
        await kv.update(a, b"3", first)
    assert (await kv.get(a)).revision == second
    assert (await kv.get(a, revision=first)).value == b"1"
    tombstone = await kv.delete(a, revision=second)
    with pytest.raises(KeyNotFound) as caught:
        await kv.get(a)
    assert (caught.value.operation, caught.value.revision) == ("DEL", tombstone)
    await kv.put(b, b"1")
    await kv.purge(b)
    await kv.create(b, b"2", ttl=3600)
    await kv.purge(b, ttl=3600)
    last = await kv.put_many({c: b"1"})
    assert [(entry.key, entry.value) async for entry in kv.get_many([a, b, c])] == [(c, b"1")]
    await cache.wait(last, timeout=60)
    assert {key for key in cache if key.startswith(prefix)} == {c}
    # The replica that a consumer reads may be behind.
    async with asyncio.timeout(60):
        while [entry.revision for entry in await kv.history(a)] != [first, second, tombstone]:
            await asyncio.sleep(0.05)
        while [key async for key in kv.keys(f"{prefix}.*")] != [c]:
            await asyncio.sleep(0.05)
