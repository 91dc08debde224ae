"""Object stores without `await`."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark import ObjectMeta, ObjectNotFound, ObjectStoreConfig, blocking

DATA = os.urandom(300_001)


@pytest.fixture
def store(js: blocking.JetStream) -> Iterator[blocking.ObjectStore]:
    name = f"T{secrets.token_hex(6)}"
    yield js.create_object_store(ObjectStoreConfig(bucket=name, storage="memory"))
    js.delete_object_store(name)


def test_objects_are_stored_and_read(
    store: blocking.ObjectStore, js: blocking.JetStream, tmp_path: Path
) -> None:
    store.put("a", DATA)
    store.put("b", io.BytesIO(DATA))
    store.put("c", (DATA[start : start + 1000] for start in range(0, len(DATA), 1000)))
    (tmp_path / "d").write_bytes(DATA)
    store.put_file(tmp_path / "d")
    assert all(store.get(name) == DATA for name in ("a", "b", "c", "d"))
    with store.open("a") as reader:
        assert reader.info.size == len(DATA)
        assert b"".join(reader) == DATA
        assert reader.next() is None
    with store.open("a") as reader:
        assert reader.read() == DATA
    store.get_file("a", tmp_path / "e")
    assert (tmp_path / "e").read_bytes() == DATA
    store.add_link("link", store.info("a"))
    store.add_bucket_link("all", store.bucket)
    store.update_meta("b", ObjectMeta(name="z"))
    store.delete("c")
    with pytest.raises(ObjectNotFound):
        store.get("c")
    assert sorted(info.name for info in store.list()) == ["a", "all", "d", "link", "z"]
    assert store.status().bucket in list(js.object_store_names())
    assert store.bucket in [status.bucket for status in js.object_stores()]
    assert js.object_store(store.bucket).stream_name == store.stream_name


def test_a_watch_sees_objects(store: blocking.ObjectStore) -> None:
    store.put("a", b"1")
    with store.watch() as changes:
        assert [info.name for info in changes.initial()] == ["a"]
        assert changes.caught_up
        store.put("b", b"1")
        assert next(changes).name == "b"
    assert store.seal().sealed
