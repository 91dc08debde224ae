"""Buckets: created, found, changed, listed, deleted, mirrored and sourced."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import jetspark
from jetspark import (
    BucketExists,
    BucketNotFound,
    KeyNotFound,
    KeyValueConfig,
    ObjectStoreConfig,
    RePublish,
    StreamConfig,
    StreamSource,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from jetspark.wire import PubFrame
from tests.jetstream.kv.conftest import Make
from tests.support.cases import for_each
from tests.support.consuming import until
from tests.support.scripted import Peer, ScriptedServer
from tests.support.untyped import untyped

TIME = "2026-01-01T00:00:00Z"


async def test_the_stream_of_a_bucket_is_as_adr_8_says(make: Make, js: JetStream) -> None:
    kv = await make(
        storage="file",
        history=4,
        ttl=60,
        max_value_size=1000,
        max_bytes=10**6,
        compression=True,
        metadata={"a": "b"},
    )
    config = (await js.get_stream(f"KV_{kv.bucket}")).config
    assert config.subjects == [f"$KV.{kv.bucket}.>"]
    assert (config.max_msgs_per_subject, config.max_age, config.duplicate_window) == (4, 60.0, 60.0)
    assert (config.max_msg_size, config.max_bytes, config.discard) == (1000, 10**6, "new")
    assert (config.allow_rollup_hdrs, config.deny_delete, config.allow_direct) == (True, True, True)
    assert (config.compression, config.metadata["a"]) == ("s2", "b")
    assert not config.allow_msg_ttl


async def test_a_status_says_what_a_bucket_holds(make: Make) -> None:
    kv = await make(history=2, description="prices", limit_marker_ttl=7)
    await kv.put("a", b"1")
    status = await kv.status()
    assert (status.bucket, status.description, status.values, status.history) == (kv.bucket, "prices", 1, 2)
    assert (status.ttl, status.limit_marker_ttl, status.replicas, status.storage) == (None, 7.0, 1, "memory")
    assert (status.compressed, status.backing_store, status.last_revision) == (False, "JetStream", 1)
    assert status.bytes > 0
    assert status.metadata is not None


async def test_a_bucket_is_created_once(make: Make, js: JetStream) -> None:
    kv = await make(history=2)
    await make(bucket=kv.bucket, history=2)
    with pytest.raises(BucketExists, match="update_key_value"):
        await make(bucket=kv.bucket, history=3)


async def test_a_bucket_is_found_by_its_name(make: Make, js: JetStream) -> None:
    kv = await make()
    await kv.put("a", b"1")
    assert (await (await js.key_value(kv.bucket)).get("a")).value == b"1"
    with pytest.raises(BucketNotFound):
        await js.key_value(f"{kv.bucket}x")
    with pytest.raises(UsageError, match="codec"):
        await js.key_value(kv.bucket, codec=untyped(7))


async def test_an_update_changes_settings_of_buckets_and_no_others(make: Make, js: JetStream) -> None:
    kv = await make()
    stream = await js.get_stream(kv.stream_name)
    await stream.update(stream.config.replace(allow_atomic=True))
    config = KeyValueConfig(bucket=kv.bucket, storage="memory", history=7, metadata={"a": "b"})
    await js.update_key_value(config)
    changed = (await stream.info()).config
    assert (changed.max_msgs_per_subject, changed.allow_atomic, changed.metadata["a"]) == (7, True, "b")
    with pytest.raises(BucketNotFound):
        await js.update_key_value(config.replace(bucket=f"{kv.bucket}x"))


async def test_a_bucket_is_created_or_updated(make: Make, js: JetStream, bucket: str) -> None:
    config = KeyValueConfig(bucket=bucket, storage="memory")
    for history in (2, 3):
        kv = await js.create_or_update_key_value(config.replace(history=history))
        assert (await kv.status()).history == history
    await js.delete_key_value(bucket)
    with pytest.raises(BucketNotFound):
        await js.delete_key_value(bucket)


async def test_buckets_are_listed_and_other_streams_are_not(make: Make, js: JetStream, bucket: str) -> None:
    kv = await make()
    await js.create_stream(StreamConfig(name=bucket, storage="memory"))
    names = [name async for name in js.key_value_names()]
    assert kv.bucket in names
    assert bucket not in names
    assert kv.bucket in [status.bucket async for status in js.key_values()]
    await js.delete_stream(bucket)


async def test_a_mirror_answers_reads_and_passes_writes_on(make: Make) -> None:
    origin = await make(history=3)
    await origin.put("a", b"1")
    mirror = await make(mirror=StreamSource(name=origin.bucket), history=3)
    async with mirror.watch() as changes:
        async with asyncio.timeout(30):
            entry = await changes.next()
        assert entry is not None
        assert (entry.bucket, entry.key, entry.value) == (mirror.bucket, "a", b"1")
        revision = await mirror.put("b", b"2")
        async with asyncio.timeout(30):
            entry = await changes.next()
        assert entry is not None
        assert (entry.key, entry.revision) == ("b", revision)
    assert (await mirror.get("b")).value == (await origin.get("b")).value == b"2"
    assert [key async for key in mirror.keys()] == ["a", "b"]
    await origin.delete("a")
    await mirror.create("a", b"3")

    async def created() -> bool:
        with suppress(KeyNotFound):
            return (await origin.get("a")).value == b"3"
        return False

    # The mirror answers reads of the origin too, and may be behind.
    await until(created, "the new value")


async def test_keys_of_other_buckets_are_copied_in(make: Make) -> None:
    one, two = await make(), await make()
    both = await make(sources=[StreamSource(name=one.bucket), StreamSource(name=f"KV_{two.bucket}")])
    async with both.watch() as changes:
        await one.put("a", b"1")
        await two.put("b", b"2")
        async with asyncio.timeout(30):
            found = {entry.key: entry.value for entry in [await anext(changes), await anext(changes)]}
    assert found == {"a": b"1", "b": b"2"}
    await both.put("c", b"3")
    with pytest.raises(KeyNotFound):
        await one.get("c")


async def test_values_are_published_again(make: Make, js: JetStream, bucket: str) -> None:
    kv = await make(republish=RePublish(dest=f"again.{bucket}.>"))
    async with await js.connection.subscribe(f"again.{bucket}.>") as copies:
        await kv.put("a", b"1")
        message = await copies.next(10)
        assert message is not None
        assert message.data == b"1"


async def test_many_keys_are_read_as_the_server_of_the_bucket_can() -> None:
    """The server of the connection has batches of direct gets, the one in the domain does not."""
    info = {"config": {"name": "KV_b", "allow_direct": True}, "created": TIME, "state": {}}

    def get(peer: Peer, request: PubFrame) -> None:
        subject = request.subject.decode().partition(".KV_b.")[2]
        headers = {"Nats-Stream": "KV_b", "Nats-Subject": subject, "Nats-Sequence": "1"}
        peer.answer(request, b"1", headers=headers | {"Nats-Time-Stamp": TIME})

    async with ScriptedServer(info={"jetstream": True, "api_lvl": 5}) as server:
        server.on("$JS.hub.API.DIRECT.GET.KV_b.>", get)
        server.on("$JS.hub.API.DIRECT.GET.KV_b", lambda peer, request: peer.answer(request, status="408"))
        for endpoint, answer in (("INFO", {"api": {"level": 0}}), ("STREAM.INFO.KV_b", info)):
            data = json.dumps(answer).encode()
            server.on(
                f"$JS.hub.API.{endpoint}",
                partial(lambda data, peer, request: peer.answer(request, data), data),
            )
        async with jetspark.connect(server.url) as nc:
            kv = await nc.jetstream(domain="hub").key_value("b")
            assert [entry.key async for entry in kv.get_many(["x", "y"])] == ["x", "y"]


async def test_a_bucket_of_another_domain_is_written_through_its_prefix() -> None:
    with Server(domain="hub") as server:
        async with jetspark.connect(server.url) as nc:
            js = nc.jetstream(domain="hub")
            kv = await js.create_key_value(KeyValueConfig(bucket="b", storage="memory"))
            revision = await kv.create("a", b"1")
            assert (await kv.get("a")).value == b"1"
            await kv.update("a", b"2", revision)
            async with kv.watch() as changes:
                assert [entry.value async for entry in changes.initial()] == [b"2"]
            assert [key async for key in kv.keys()] == ["a"]


@for_each(
    ("settings", "field"),
    [
        ({"bucket": "a.b"}, "bucket"),
        ({"bucket": ""}, "bucket"),
        ({"bucket": "a b"}, "bucket"),
        ({"history": 0}, "history"),
        ({"history": 65}, "history"),
        ({"ttl": 0.01}, "KeyValueConfig.ttl"),
        ({"replicas": 6}, "KeyValueConfig.replicas"),
        ({"limit_marker_ttl": 0.5}, "marker"),
        ({"mirror": StreamSource(name="a"), "sources": [StreamSource(name="b")]}, "sources"),
    ],
)
def test_settings_that_the_server_would_refuse_are_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError, match=field):
        KeyValueConfig(**{"bucket": "a", **settings})


@for_each("config", [KeyValueConfig, ObjectStoreConfig])
@for_each(("field", "value"), [("ttl", 0.01), ("replicas", 9), ("description", "x" * 5000)])
def test_a_setting_that_its_stream_refuses_is_named_as_the_user_wrote_it(
    config: Any, field: str, value: Any
) -> None:
    with pytest.raises(UsageError, match=rf"^{config.__name__}\.{field}="):
        config(bucket="b", **{field: value})
