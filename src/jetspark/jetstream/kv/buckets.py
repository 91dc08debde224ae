"""Buckets: creating, changing, finding, listing and deleting them.

The methods of `JetStream`, which call these, document what they mean for users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from jetspark.errors import BucketExists, StreamNotFound, UsageError
from jetspark.jetstream.api import API
from jetspark.jetstream.kv.backing import (
    backing_infos,
    backing_names,
    create_backing,
    delete_backing,
    find_backing,
)
from jetspark.jetstream.kv.codecs import KeyCodec
from jetspark.jetstream.kv.config import KeyValueConfig, changed_stream, new_stream
from jetspark.jetstream.kv.names import BUCKET_PREFIX, check_bucket, stream_of
from jetspark.jetstream.kv.status import KeyValueStatus
from jetspark.jetstream.kv.store import KeyValue
from jetspark.jetstream.manage import streams

__all__ = ["create", "create_or_update", "delete", "find", "names", "statuses", "update"]


async def find(api: API, bucket: str, codec: KeyCodec | None) -> KeyValue:
    """An existing bucket. Raises `BucketNotFound`."""
    return KeyValue(api, await find_backing(api, stream_of(check_bucket(bucket))), _check_codec(codec))


async def create(api: API, config: KeyValueConfig, codec: KeyCodec | None) -> KeyValue:
    """Create a bucket. Raises `BucketExists`."""
    KeyValueConfig.check_type(config, "config")
    _check_codec(codec)
    info = await create_backing(
        api,
        new_stream(config),
        what=f"bucket {config.bucket}",
        hint="Use js.update_key_value(...) or js.create_or_update_key_value(...), or another name",
    )
    return KeyValue(api, info, codec)


async def update(api: API, config: KeyValueConfig, codec: KeyCodec | None) -> KeyValue:
    """Change a bucket. Raises `BucketNotFound`."""
    KeyValueConfig.check_type(config, "config")
    _check_codec(codec)
    existing = await find_backing(api, stream_of(config.bucket))
    return KeyValue(api, await streams.update(api, changed_stream(existing.config, config)), codec)


async def create_or_update(api: API, config: KeyValueConfig, codec: KeyCodec | None) -> KeyValue:
    """Change a bucket, or create it if it does not exist."""
    KeyValueConfig.check_type(config, "config")
    try:
        return await update(api, config, codec)
    except StreamNotFound:
        pass
    try:
        return await create(api, config, codec)
    except BucketExists:  # Another client created it in between.
        return await update(api, config, codec)


async def delete(api: API, bucket: str) -> None:
    """Delete a bucket. Raises `BucketNotFound`."""
    await delete_backing(api, stream_of(check_bucket(bucket)))


def names(api: API) -> AsyncIterator[str]:
    """The names of all buckets."""
    return backing_names(api, BUCKET_PREFIX)


async def statuses(api: API) -> AsyncIterator[KeyValueStatus]:
    """All buckets."""
    async for info in backing_infos(api, BUCKET_PREFIX):
        yield KeyValueStatus(info)


def _check_codec(codec: KeyCodec | None) -> KeyCodec | None:
    if codec is not None and not all(hasattr(codec, name) for name in ("encode", "decode", "encode_filter")):
        raise UsageError(
            f"codec must have encode, decode and encode_filter, not {type(codec).__name__}",
            hint="Such as EscapedKeys(), Base64Keys() and PathKeys()",
        )
    return codec
