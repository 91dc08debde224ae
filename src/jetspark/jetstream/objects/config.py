"""The settings of an object store, and the stream that they make."""

from __future__ import annotations

import msgspec

from jetspark.jetstream.kv.names import check_bucket
from jetspark.jetstream.model.base import Duration, Model
from jetspark.jetstream.model.stream import (
    DiscardPolicy,
    Placement,
    StorageType,
    StoreCompression,
    StreamConfig,
)
from jetspark.jetstream.objects.names import object_stream

__all__ = ["ObjectStoreConfig", "changed_object_stream", "new_object_stream"]


class ObjectStoreConfig(Model, frozen=True, kw_only=True):
    """The settings of an object store. Only `bucket` is required.

    Raises `UsageError` at construction for settings that the server would refuse, with the field named.

    Attributes:
        bucket: Name: letters, digits, - and _. Required.
        description: Free text, none by default. At most 4 KiB.
        ttl: Seconds that an object lives, at least 0.1; 0, the default, means no limit.
        max_bytes: Most bytes of the whole bucket; -1, the default, means no limit. A full bucket refuses new
            objects.
        storage: Where objects are kept, by default on disk. Cannot be changed later.
        replicas: Servers that hold a copy, 1 to 5; 1 by default.
        placement: Which servers may host it; by default any.
        compression: Compress the objects on disk; not by default. Server 2.10.
        metadata: Names and values, none by default, at most 128 KiB in all. Server 2.10.
    """

    bucket: str
    description: str | None = None
    ttl: Duration | None = None
    max_bytes: int | None = None
    storage: StorageType | str = StorageType.FILE
    replicas: int | None = None
    placement: Placement | None = None
    compression: bool = False
    metadata: dict[str, str] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        check_bucket(self.bucket, self._argument("bucket"))
        self._check_as(new_object_stream, {"max_age": "ttl", "num_replicas": "replicas"})


def new_object_stream(config: ObjectStoreConfig) -> StreamConfig:
    """The stream of a new bucket. Raises `UsageError`."""
    return StreamConfig(name=object_stream(config.bucket), **_settings(config))  # type: ignore[arg-type]


def changed_object_stream(existing: StreamConfig, config: ObjectStoreConfig) -> StreamConfig:
    """The stream of an existing bucket, with the settings that are not those of buckets as they are."""
    own = {name: value for name, value in existing.metadata.items() if name.startswith("_nats.")}
    return existing.replace(**_settings(config) | {"metadata": config.metadata | own})


def _settings(config: ObjectStoreConfig) -> dict[str, object]:
    return {
        "description": config.description,
        "subjects": [f"$O.{config.bucket}.C.>", f"$O.{config.bucket}.M.>"],
        "max_age": config.ttl,
        "duplicate_window": min(config.ttl, 120.0) if config.ttl else None,
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "compression": StoreCompression.S2 if config.compression else StoreCompression.NONE,
        "discard": DiscardPolicy.NEW,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "metadata": config.metadata,
    }
