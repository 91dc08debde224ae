"""Watches: the current entries, then each change, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import jetspark
from jetspark import BucketNotFound, KeyValue, KeyValueConfig, KeyValueEntry
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.kv import feed
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.server import Server
from tests.jetstream.kv.conftest import Make
from tests.support.consuming import listeners
from tests.support.proxy import TCPProxy
from tests.support.scripted_jetstream import ScriptedJetStream, soon
from tests.support.timing import set_timing
from tests.support.watch import eventually


async def some(changes: AsyncIterator[KeyValueEntry], count: int) -> list[tuple[str, bytes, str]]:
    async with asyncio.timeout(30):
        return [(e.key, e.value, e.operation.value) for e in [await anext(changes) for _ in range(count)]]


async def test_a_watch_begins_with_the_current_values(kv: KeyValue) -> None:
    for value in (b"1", b"2"):
        await kv.put("a", value)
        await kv.put("b", value)
    await kv.delete("b")
    async with kv.watch() as changes:
        assert not changes.caught_up
        initial = [(entry.key, entry.value, entry.delta) async for entry in changes.initial()]
        assert initial == [("a", b"2", 1), ("b", b"", 0)]
        assert changes.caught_up
        await kv.put("c", b"3")
        assert await some(changes, 1) == [("c", b"3", "PUT")]
        assert changes.caught_up
        assert await changes.next(0.01) is None


async def test_a_watch_of_nothing_has_caught_up(kv: KeyValue) -> None:
    async with kv.watch("none.*") as changes:
        assert [entry async for entry in changes.initial()] == []
        assert changes.caught_up
        await kv.put("none.a", b"1")
        assert await some(changes, 1) == [("none.a", b"1", "PUT")]


async def test_a_watch_with_history_has_all_revisions(kv: KeyValue) -> None:
    for value in (b"1", b"2"):
        await kv.put("a", value)
    async with kv.watch(include_history=True) as changes:
        assert [entry.value async for entry in changes.initial()] == [b"1", b"2"]


async def test_a_watch_of_updates_has_no_current_values(kv: KeyValue) -> None:
    await kv.put("a", b"1")
    async with kv.watch(updates_only=True) as changes:
        assert changes.caught_up
        await kv.put("a", b"2")
        assert await some(changes, 1) == [("a", b"2", "PUT")]


async def test_a_watch_resumes_from_a_revision(kv: KeyValue) -> None:
    revisions = [await kv.put("a", value) for value in (b"1", b"2", b"3")]
    async with kv.watch(from_revision=revisions[0] + 1) as changes:
        assert [entry.revision async for entry in changes.initial()] == revisions[1:]
    async with kv.watch(from_revision=revisions[-1] + 1) as changes:
        assert changes.caught_up
        await kv.put("b", b"4")
        assert await some(changes, 1) == [("b", b"4", "PUT")]


async def test_a_watch_can_leave_out_tombstones_and_values(kv: KeyValue) -> None:
    await kv.put("gone", b"1")
    await kv.delete("gone")
    async with kv.watch(ignore_deletes=True, meta_only=True) as changes:
        assert [entry async for entry in changes.initial()] == []
        await kv.put("a", b"long")
        await kv.delete("a")
        await kv.put("b", b"long")
        assert await some(changes, 2) == [("a", b"", "PUT"), ("b", b"", "PUT")]


async def test_a_watch_has_several_filters(kv: KeyValue) -> None:
    await kv.put_many({"a.x": b"1", "b.x": b"2", "c.x": b"3"})
    async with kv.watch(["a.*", "c.>"]) as changes:
        assert [entry.key async for entry in changes.initial()] == ["a.x", "c.x"]


async def test_a_stopped_watch_ends(kv: KeyValue) -> None:
    changes = kv.watch()
    waiting = asyncio.create_task(changes.next())
    await kv.put("a", b"1")
    entry = await waiting
    assert entry is not None
    assert entry.key == "a"
    waiting = asyncio.create_task(changes.next())
    await asyncio.sleep(0)
    await changes.stop()
    assert await waiting is None
    assert [entry async for entry in changes] == []


@pytest.mark.parametrize("answered", [0, 1])
async def test_a_feed_that_is_stopped_while_it_opens_leaves_no_consumer(answered: int) -> None:
    """A feed of new messages opens twice: the second consumer begins after the last stored message."""
    held: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()
    async with ScriptedJetStream() as server, jetspark.connect(server.url) as nc:
        server._handlers.insert(0, ("$JS.API.CONSUMER.CREATE.>", lambda *request: held.put_nowait(request)))
        new = feed.Feed(JetStream(nc).api, "S", ["orders.>"], DeliverPolicy.NEW)
        starting = asyncio.create_task(new.start())
        for _ in range(answered):
            server._create(*await soon(held))
        late = await soon(held)
        await new.stop()
        server._create(*late)
        await starting
        assert await new.take() == []
        deleted = {await soon(server.deleted) for _ in range(answered + 1)}
        assert deleted == {config["name"] for config in server.created}
        assert listeners(nc) == []


async def test_a_feed_that_is_stopped_between_two_attempts_creates_no_consumer() -> None:
    no_leader = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}
    async with ScriptedJetStream() as server, jetspark.connect(server.url) as nc:
        server.refusals = [no_leader]
        new = feed.Feed(JetStream(nc).api, "S", ["orders.>"], DeliverPolicy.ALL)
        starting = asyncio.create_task(new.start())
        await eventually(lambda: not server.refusals, "the first attempt")
        await new.stop()
        await starting
        assert await new.take() == []
        assert server.created == []


async def test_a_watch_ends_with_its_bucket(kv: KeyValue, js: JetStream) -> None:
    async with kv.watch() as changes:
        await js.delete_key_value(kv.bucket)
        with pytest.raises(BucketNotFound):
            async with asyncio.timeout(30):
                await changes.next()


async def test_a_watch_of_a_missing_bucket_does_not_start(kv: KeyValue, js: JetStream) -> None:
    await js.delete_key_value(kv.bucket)
    with pytest.raises(BucketNotFound):
        async with kv.watch():
            pass


async def test_a_cancelled_wait_loses_nothing(kv: KeyValue) -> None:
    async with kv.watch(updates_only=True) as changes:
        for number in range(20):
            waiting = asyncio.create_task(changes.next())
            await asyncio.sleep(0)
            await kv.put("a", str(number).encode())
            if number % 2:
                waiting.cancel()
            if (await asyncio.gather(waiting, return_exceptions=True))[0] is None:
                pytest.fail("the watch has ended")
            if waiting.cancelled():
                assert (await some(changes, 1))[0][1] == str(number).encode()


async def test_current_values_that_vanish_are_not_awaited(make: Make, js: JetStream) -> None:
    set_timing(js, reading_silence=0.05)
    kv = await make()
    # More than a feed requests at once, so the purge meets values that were not sent yet.
    await kv.put_many({f"k{number}": bytes(300_000) for number in range(40)})
    async with kv.watch() as changes:
        first = await changes.next(30)
        assert first is not None
        stream = await js.get_stream(kv.stream_name)
        await stream.purge()
        async with asyncio.timeout(30):
            rest = [entry async for entry in changes.initial()]
        assert changes.caught_up
        assert len(rest) < 39
        await kv.put("new", b"1")
        assert await some(changes, 1) == [("new", b"1", "PUT")]


async def test_a_watch_that_is_interrupted_returns_each_current_value_once(server: Server) -> None:
    """What lies behind the last value that arrived is the history of other keys, too."""
    keys = [f"k{number:04}" for number in range(1500)]
    async with TCPProxy(server.port) as proxy, jetspark.connect(server.url) as direct:
        js = direct.jetstream()
        await js.create_key_value(KeyValueConfig(bucket="b", history=3, storage="memory"))
        async with js.publisher() as publisher:
            for key in keys:
                for value in (b"oldest", b"old", bytes(2000)):
                    publisher.publish(f"$KV.b.{key}", value)
        passed = 0

        def cut_on_the_way(data: bytes) -> bytes:
            nonlocal passed
            passed += len(data)
            if passed > 300_000:
                proxy.server_to_client = None
                proxy.cut()
            return data

        proxy.server_to_client = cut_on_the_way
        async with (
            jetspark.connect(proxy.url, reconnect_wait=0.01) as nc,
            (await nc.jetstream().key_value("b")).watch() as changes,
        ):
            async with asyncio.timeout(60):
                found = [entry async for entry in changes.initial()]
        assert proxy.accepted > 1
        assert [entry.key for entry in found] == keys
        assert all(entry.value.startswith(bytes(2000)) for entry in found)


@pytest.mark.parametrize("updates_only", [True, False])
async def test_a_watch_that_is_interrupted_before_its_first_message_misses_nothing(
    server: Server, updates_only: bool
) -> None:
    async with TCPProxy(server.port) as proxy, jetspark.connect(server.url) as direct:
        kv = await direct.jetstream().create_key_value(
            KeyValueConfig(bucket="b", history=5, storage="memory")
        )
        await kv.put("other", b"")
        async with (
            jetspark.connect(proxy.url, reconnect_wait=0.01) as nc,
            (await nc.jetstream().key_value("b")).watch("a.>", updates_only=updates_only) as changes,
        ):
            assert changes.caught_up
            proxy.refuse()
            proxy.cut()
            for value in (b"1", b"2"):
                await kv.put("a.x", value)
            proxy.accept()
            assert await some(changes, 2) == [("a.x", b"1", "PUT"), ("a.x", b"2", "PUT")]
