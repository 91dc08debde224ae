"""The stream behind a bucket, of keys or of objects: creating, finding, listing and deleting it; its state.

Its name is a prefix and the name of the bucket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import msgspec

from jetspark.errors import BucketExists, BucketNotFound, StreamNameInUse, StreamNotFound
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import StorageType, StoreCompression, StreamConfig
from jetspark.jetstream.read.ranges import stream_info

__all__ = [
    "Bucket",
    "BucketStatus",
    "await_backing",
    "backing_infos",
    "backing_names",
    "create_backing",
    "delete_backing",
    "find_backing",
    "not_found",
]


class Bucket:
    """A bucket, as users hold it. Base of `KeyValue` and `ObjectStore`."""

    _PREFIX: ClassVar[str]

    def __init__(self, api: API, info: StreamInfo) -> None:
        self._api = api
        self._config = info.config
        self._bucket = info.config.name.removeprefix(self._PREFIX)

    @property
    def bucket(self) -> str:
        """Its name."""
        return self._bucket

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._config.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bucket}>"


class BucketStatus(msgspec.Struct, frozen=True):
    """A bucket, as the server described it."""

    #: Everything about its stream.
    stream_info: StreamInfo

    PREFIX: ClassVar[str]

    @property
    def bucket(self) -> str:
        """Its name."""
        return self.stream_info.config.name.removeprefix(self.PREFIX)

    @property
    def description(self) -> str | None:
        """For people."""
        return self.stream_info.config.description

    @property
    def ttl(self) -> float | None:
        """Seconds that its contents live; None for no limit."""
        return self.stream_info.config.max_age or None

    @property
    def storage(self) -> StorageType | str:
        """Where it is kept."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int:
        """How many servers hold a copy."""
        return self.stream_info.config.num_replicas or 1

    @property
    def compressed(self) -> bool:
        """Whether it is compressed on disk."""
        return self.stream_info.config.compression == StoreCompression.S2

    @property
    def backing_store(self) -> str:
        """The kind of storage behind it."""
        return "JetStream"

    @property
    def metadata(self) -> dict[str, str]:
        """Names and values, with those of the server."""
        return self.stream_info.config.metadata


async def find_backing(api: API, stream: str) -> StreamInfo:
    """The stream of a bucket. Raises `BucketNotFound`."""
    try:
        return await streams.info(api, stream)
    except StreamNotFound as error:
        raise not_found(stream, error) from None


async def await_backing(api: API, stream: str, *, reaching: int = 1) -> StreamInfo:
    """The stream of a bucket that should exist, asked for again for a while. Raises `BucketNotFound`."""
    try:
        return await stream_info(api, stream, reaching=reaching)
    except StreamNotFound as error:
        raise not_found(stream, error) from None


async def create_backing(api: API, config: StreamConfig, *, what: str, hint: str) -> StreamInfo:
    """Create the stream of a bucket. Raises `BucketExists`, in which `what` names the bucket."""
    try:
        return await streams.create(api, config)
    except StreamNameInUse as error:
        raise BucketExists(
            f"{what} exists with other settings",
            code=error.code,
            err_code=error.err_code,
            description=error.description,
            stream=error.stream,
            hint=hint,
        ) from None


async def delete_backing(api: API, stream: str) -> None:
    """Delete the stream of a bucket. Raises `BucketNotFound`."""
    try:
        await streams.delete(api, stream)
    except StreamNotFound as error:
        raise not_found(stream, error) from None


async def backing_names(api: API, prefix: str) -> AsyncIterator[str]:
    """The names of the buckets whose streams have this prefix."""
    async for name in streams.names(api):
        if name.startswith(prefix):
            yield name.removeprefix(prefix)


async def backing_infos(api: API, prefix: str) -> AsyncIterator[StreamInfo]:
    """The streams with this prefix."""
    async for info in streams.infos(api):
        if info.config.name.startswith(prefix):
            yield info


def not_found(stream: str, error: StreamNotFound) -> BucketNotFound:
    """The error for the stream of a bucket."""
    bucket = stream.partition("_")[2]
    return BucketNotFound(
        f"bucket {bucket} not found ({error.err_code or error.code})",
        code=error.code,
        err_code=error.err_code,
        description=error.description,
        stream=stream,
        hint="Create it, or check `domain` and the account",
    )
