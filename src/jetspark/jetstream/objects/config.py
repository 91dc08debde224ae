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
    """

    #: Name: letters, digits, - and _.
    bucket: str
    #: For people. At most 4 KiB.
    description: str | None = None
    #: Seconds that an object lives; 0 is no limit, else at least 0.1.
    ttl: Duration | None = None
    #: Most bytes of the whole bucket; -1 is no limit. A full bucket refuses new objects.
    max_bytes: int | None = None
    #: Where objects are kept. Cannot be changed later.
    storage: StorageType | str = StorageType.FILE
    #: Servers that hold a copy, 1 to 5.
    replicas: int | None = None
    #: Which servers may host it.
    placement: Placement | None = None
    #: Compress the objects on disk. Server 2.10.
    compression: bool = False
    #: Names and values, at most 128 KiB in all. Server 2.10.
    metadata: dict[str, str] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        check_bucket(self.bucket, self._argument("bucket"))
        new_object_stream(self)


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
