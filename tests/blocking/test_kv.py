"""Key-value buckets without `await`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator

import pytest

from jetspark import EscapedKeys, KeyExists, KeyNotFound, KeyValueConfig, WrongRevision, blocking


@pytest.fixture
def kv(js: blocking.JetStream) -> Iterator[blocking.KeyValue]:
    name = f"T{secrets.token_hex(6)}"
    yield js.create_key_value(KeyValueConfig(bucket=name, storage="memory", history=3))
    js.delete_key_value(name)


def test_keys_are_written_and_read(kv: blocking.KeyValue, js: blocking.JetStream) -> None:
    first = kv.put("a", b"1")
    assert kv.get("a").value == b"1"
    second = kv.update("a", b"2", first)
    with pytest.raises(WrongRevision):
        kv.update("a", b"3", first)
    with pytest.raises(KeyExists):
        kv.create("a", b"3")
    assert [entry.revision for entry in kv.history("a")] == [first, second]
    assert kv.put_many({"b": b"1", "c": b"2"}) == second + 2
    assert {entry.key for entry in kv.get_many(["a", "c", "d"])} == {"a", "c"}
    kv.delete("b")
    kv.purge("c")
    assert list(kv.keys()) == ["a"]
    assert kv.purge_deletes(older_than=0) == 3
    with pytest.raises(KeyNotFound):
        kv.get("b")
    assert kv.status().bucket == kv.bucket
    assert kv.bucket in list(js.key_value_names())
    assert kv.bucket in [status.bucket for status in js.key_values()]
    assert js.key_value(kv.bucket, codec=EscapedKeys()).stream_name == kv.stream_name


def test_a_watch_begins_with_the_current_values_and_goes_on(kv: blocking.KeyValue) -> None:
    kv.put_many({f"k{number}": b"1" for number in range(20)})
    with kv.watch() as changes:
        assert not changes.caught_up
        assert len([entry for entry, _ in zip(changes.initial(), range(5), strict=False)]) == 5
        assert len(list(changes.initial())) == 15 - 1  # `zip` took one more.
        assert changes.caught_up
        assert list(changes.initial()) == []
        writer = threading.Timer(0.01, lambda: (kv.put("a", b"1"), kv.put("b", b"2")))
        writer.start()
        assert [next(changes).key, next(changes).key] == ["a", "b"]
        assert changes.caught_up
        assert changes.next(0.01) is None
        writer.join()
    assert changes.next() is None
    assert list(changes) == []


def test_a_watch_of_an_empty_bucket_has_caught_up(kv: blocking.KeyValue) -> None:
    with kv.watch(ignore_deletes=True) as changes:
        assert list(changes.initial()) == []
        assert changes.caught_up
    kv.delete("a")
    with kv.watch(ignore_deletes=True) as changes:
        assert list(changes.initial()) == []
        assert changes.caught_up


def test_a_cache_follows_changes(kv: blocking.KeyValue) -> None:
    kv.put("a", b"1")
    with kv.cache() as cache:
        assert cache["a"].value == b"1"
        cache.wait(kv.put("b", b"2"))
        assert sorted(cache) == ["a", "b"]
        assert len(cache) == 2
        assert cache.current
        assert cache.revision == 2
    assert not cache.current
