"""Metadata that another client stored: nothing of it deletes, hides or blocks other objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jetspark import ObjectMeta, ObjectNotFound, ObjectStore, RemoteProtocolError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.objects.names import meta_subject

BAD: list[dict[str, Any]] = [
    {"nuid": ">"},
    {"nuid": "*"},
    {"nuid": "a.b"},
    {"nuid": "a b"},
    {"nuid": "a\r\nb"},
    {"nuid": ""},
    {"nuid": "x" * 200},
    {"bucket": "other"},
    {"bucket": ">"},
    {"name": 1},
]


@pytest.fixture(params=BAD, ids=str)
async def spoiled(request: pytest.FixtureRequest, store: ObjectStore, js: JetStream) -> ObjectStore:
    """A store with the objects `a`, whose metadata another client replaced, and `b`."""
    await store.put("a", b"mine")
    await store.put("b", b"theirs")
    info = (await store.info("a")).to_wire() | request.param
    await js.publish(
        meta_subject(store.bucket, "a"), json.dumps(info).encode(), headers={"Nats-Rollup": "sub"}
    )
    return store


async def test_it_cannot_be_read_and_is_not_listed(spoiled: ObjectStore) -> None:
    with pytest.raises(RemoteProtocolError):
        await spoiled.get("a")
    assert [info.name async for info in spoiled.list()] == ["b"]


async def test_putting_it_again_replaces_it_and_no_other_object(spoiled: ObjectStore) -> None:
    await spoiled.put("a", b"new")
    assert await spoiled.get("a") == b"new"
    assert await spoiled.get("b") == b"theirs"


async def test_deleting_it_deletes_no_other_object(spoiled: ObjectStore) -> None:
    assert (await spoiled.delete("a")).deleted
    with pytest.raises(ObjectNotFound):
        await spoiled.get("a")
    assert await spoiled.get("b") == b"theirs"


async def test_orphans_are_those_that_it_does_not_name(
    spoiled: ObjectStore, request: pytest.FixtureRequest
) -> None:
    renamed = "nuid" in request.node.callspec.params["spoiled"]
    assert await spoiled.purge_orphans(older_than=0) == (1 if renamed else 0)
    assert await spoiled.get("b") == b"theirs"


async def test_it_is_not_changed_but_refused(spoiled: ObjectStore) -> None:
    with pytest.raises(RemoteProtocolError):
        await spoiled.update_meta("a", ObjectMeta(name="c"))
    assert await spoiled.get("b") == b"theirs"


async def test_a_name_in_it_is_not_the_object_that_is_deleted(store: ObjectStore, js: JetStream) -> None:
    await store.put("a", b"mine")
    await store.put("b", b"theirs")
    info = (await store.info("a")).to_wire() | {"name": "b"}
    await js.publish(
        meta_subject(store.bucket, "a"), json.dumps(info).encode(), headers={"Nats-Rollup": "sub"}
    )
    await store.delete("a")
    with pytest.raises(ObjectNotFound):
        await store.get("a")
    assert await store.get("b") == b"theirs"
