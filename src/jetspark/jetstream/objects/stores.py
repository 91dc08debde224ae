"""Object stores: creating, changing, finding, listing and deleting them.

The methods of `JetStream`, which call these, document what they mean for users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from jetspark.errors import BucketExists, StreamNameInUse, StreamNotFound
from jetspark.jetstream.api import API
from jetspark.jetstream.kv.feed import not_found
from jetspark.jetstream.kv.names import check_bucket
from jetspark.jetstream.manage import streams
from jetspark.jetstream.objects.config import ObjectStoreConfig, changed_object_stream, new_object_stream
from jetspark.jetstream.objects.names import object_stream
from jetspark.jetstream.objects.status import ObjectStoreStatus
from jetspark.jetstream.objects.store import ObjectStore

__all__ = ["create", "delete", "find", "names", "statuses", "update"]


async def find(api: API, bucket: str) -> ObjectStore:
    """An existing store. Raises `BucketNotFound`."""
    name = object_stream(check_bucket(bucket))
    try:
        return ObjectStore(api, await streams.info(api, name))
    except StreamNotFound as error:
        raise not_found(name, error) from None


async def create(api: API, config: ObjectStoreConfig) -> ObjectStore:
    """Create a store. Raises `BucketExists`."""
    ObjectStoreConfig.check_type(config, "config")
    try:
        return ObjectStore(api, await streams.create(api, new_object_stream(config)))
    except StreamNameInUse as error:
        raise BucketExists(
            f"object store {config.bucket} exists with other settings",
            code=error.code,
            err_code=error.err_code,
            description=error.description,
            stream=error.stream,
            hint="Use js.update_object_store(...), or another name",
        ) from None


async def update(api: API, config: ObjectStoreConfig) -> ObjectStore:
    """Change a store. Raises `BucketNotFound`."""
    ObjectStoreConfig.check_type(config, "config")
    name = object_stream(config.bucket)
    try:
        existing = await streams.info(api, name)
    except StreamNotFound as error:
        raise not_found(name, error) from None
    return ObjectStore(api, await streams.update(api, changed_object_stream(existing.config, config)))


async def delete(api: API, bucket: str) -> None:
    """Delete a store. Raises `BucketNotFound`."""
    name = object_stream(check_bucket(bucket))
    try:
        await streams.delete(api, name)
    except StreamNotFound as error:
        raise not_found(name, error) from None


async def names(api: API) -> AsyncIterator[str]:
    """The names of all stores."""
    async for name in streams.names(api):
        if name.startswith("OBJ_"):
            yield name.removeprefix("OBJ_")


async def statuses(api: API) -> AsyncIterator[ObjectStoreStatus]:
    """All stores."""
    async for info in streams.infos(api):
        if info.config.name.startswith("OBJ_"):
            yield ObjectStoreStatus(info)
