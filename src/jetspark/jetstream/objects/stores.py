"""Object stores: creating, changing, finding, listing and deleting them.

The methods of `JetStream`, which call these, document what they mean for users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from jetspark.jetstream.api import API
from jetspark.jetstream.kv.backing import (
    backing_infos,
    backing_names,
    create_backing,
    delete_backing,
    find_backing,
)
from jetspark.jetstream.kv.names import check_bucket
from jetspark.jetstream.manage import streams
from jetspark.jetstream.objects.config import ObjectStoreConfig, changed_object_stream, new_object_stream
from jetspark.jetstream.objects.names import STORE_PREFIX, object_stream
from jetspark.jetstream.objects.status import ObjectStoreStatus
from jetspark.jetstream.objects.store import ObjectStore

__all__ = ["create", "delete", "find", "names", "statuses", "update"]


async def find(api: API, bucket: str) -> ObjectStore:
    """An existing store. Raises `BucketNotFound`."""
    return ObjectStore(api, await find_backing(api, object_stream(check_bucket(bucket))))


async def create(api: API, config: ObjectStoreConfig) -> ObjectStore:
    """Create a store. Raises `BucketExists`."""
    ObjectStoreConfig.check_type(config, "config")
    info = await create_backing(
        api,
        new_object_stream(config),
        what=f"object store {config.bucket}",
        hint="Use js.update_object_store(...), or another name",
    )
    return ObjectStore(api, info)


async def update(api: API, config: ObjectStoreConfig) -> ObjectStore:
    """Change a store. Raises `BucketNotFound`."""
    ObjectStoreConfig.check_type(config, "config")
    existing = await find_backing(api, object_stream(config.bucket))
    return ObjectStore(api, await streams.update(api, changed_object_stream(existing.config, config)))


async def delete(api: API, bucket: str) -> None:
    """Delete a store. Raises `BucketNotFound`."""
    await delete_backing(api, object_stream(check_bucket(bucket)))


def names(api: API) -> AsyncIterator[str]:
    """The names of all stores."""
    return backing_names(api, STORE_PREFIX)


async def statuses(api: API) -> AsyncIterator[ObjectStoreStatus]:
    """All stores."""
    async for info in backing_infos(api, STORE_PREFIX):
        yield ObjectStoreStatus(info)
