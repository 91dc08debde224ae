"""Key-value buckets and object stores for the browser: keys, revisions and objects, each list bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from jetspark.console.text import Body, line, show_body
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.objects.info import ObjectInfo

__all__ = ["Revision", "bucket_of", "read_history", "read_keys", "read_objects"]

#: Keys or objects that are listed.
_MOST: Final = 1000
#: The streams of buckets, by what they begin with.
_PREFIXES: Final = {"KV_": "key-value", "OBJ_": "objects"}

_T = TypeVar("_T")


class Revision(NamedTuple):
    """A revision of a key."""

    number: int
    time: datetime
    operation: str
    size: int
    body: Body


def bucket_of(stream: str) -> tuple[str, str] | None:
    """The kind and name of the bucket that a stream is; None for other streams."""
    for prefix, kind in _PREFIXES.items():
        if stream.startswith(prefix) and len(stream) > len(prefix):
            return kind, stream[len(prefix) :]
    return None


async def read_keys(js: JetStream, bucket: str, filter: str = ">") -> list[str]:
    """The first keys of a bucket that match, sorted. Raises `BucketNotFound`."""
    return sorted(await _some((await js.key_value(bucket)).keys(filter)))


async def read_history(js: JetStream, bucket: str, key: str) -> list[Revision]:
    """The revisions of a key that are kept, newest first."""
    found = await (await js.key_value(bucket)).history(key)
    return [
        Revision(
            entry.revision, entry.created, line(entry.operation), len(entry.value), show_body(entry.value)
        )
        for entry in reversed(found)
    ]


async def read_objects(js: JetStream, bucket: str) -> list[ObjectInfo]:
    """The first objects of a store, by name. Raises `BucketNotFound`."""
    store = await js.object_store(bucket)
    return sorted(await _some(store.list()), key=lambda info: info.name)


async def _some(entries: AsyncIterator[_T]) -> list[_T]:
    found: list[_T] = []
    try:
        async for entry in entries:
            found.append(entry)
            if len(found) >= _MOST:
                break
    finally:
        if (close := getattr(entries, "aclose", None)) is not None:
            await close()
    return found
