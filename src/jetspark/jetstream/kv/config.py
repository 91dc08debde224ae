"""The settings of a bucket, and the stream that they make."""

from __future__ import annotations

from typing import Final

import msgspec

from jetspark.jetstream.kv.names import check_bucket, key_prefix, stream_of
from jetspark.jetstream.model.base import Duration, Int32, Model
from jetspark.jetstream.model.stream import (
    DiscardPolicy,
    Placement,
    RePublish,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)

__all__ = ["KeyValueConfig", "changed_stream", "new_stream"]

MAX_HISTORY: Final = 64
#: ADR-8: the duplicate window, in seconds, unless values live shorter.
_DUPLICATE_WINDOW: Final = 120.0


#: The fields of the stream that have other names here.
_FIELDS: Final = {
    "max_age": "ttl",
    "max_msg_size": "max_value_size",
    "num_replicas": "replicas",
    "subject_delete_marker_ttl": "limit_marker_ttl",
}


class KeyValueConfig(Model, frozen=True, kw_only=True):
    """The settings of a key-value bucket. Only `bucket` is required.

    Raises `UsageError` at construction for settings that the server would refuse, with the field named.

    Attributes:
        bucket: Name: letters, digits, - and _. Required.
        description: Free text, none by default. At most 4 KiB.
        history: Revisions that are kept of each key, 1 to 64; 1 by default.
        ttl: Seconds that a revision lives, at least 0.1; 0, the default, means no limit.
        max_value_size: Largest value in bytes, headers included; -1, the default, means no limit but that of
            the server.
        max_bytes: Most bytes of the whole bucket; -1, the default, means no limit. A full bucket refuses new
            values.
        storage: Where values are kept, by default on disk. Cannot be changed later.
        replicas: Servers that hold a copy, 1 to 5; 1 by default.
        placement: Which servers may host it; by default any.
        republish: Publish stored values again, for subscribers without JetStream; not by default.
        mirror: Be a copy of this bucket, by the name of the bucket: reads are answered here, writes go to the
            origin. By default it is not a copy.
        sources: Copy the keys of these buckets in, by the names of the buckets; none by default.
        compression: Compress the values on disk; not by default. Server 2.10.
        limit_marker_ttl: Leave a tombstone for this many seconds, at least 1, when a key expires, so that
            watches see it; none by default. Also allows a `ttl` for a single key, which is never shorter than
            this. Server 2.11.
        direct: Let every replica and mirror answer reads, as by default: fast, but a read may miss a write
            that was just made. Without it the leader answers all reads.
        metadata: Names and values, none by default, at most 128 KiB in all. Server 2.10.
    """

    bucket: str
    description: str | None = None
    history: int = 1
    ttl: Duration | None = None
    max_value_size: Int32 | None = None
    max_bytes: int | None = None
    storage: StorageType | str = StorageType.FILE
    replicas: int | None = None
    placement: Placement | None = None
    republish: RePublish | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = msgspec.field(default_factory=list)
    compression: bool = False
    limit_marker_ttl: Duration | None = None
    direct: bool = True
    metadata: dict[str, str] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        check_bucket(self.bucket, self._argument("bucket"))
        if not 1 <= self.history <= MAX_HISTORY:
            self._refuse("history", f"is not from 1 to {MAX_HISTORY}")
        if self.mirror is not None and self.sources:
            self._refuse("sources", "exclude a mirror")
        self._check_as(new_stream, _FIELDS)


def new_stream(config: KeyValueConfig) -> StreamConfig:
    """The stream of a new bucket. Raises `UsageError`."""
    return StreamConfig(name=stream_of(config.bucket), **_settings(config))  # type: ignore[arg-type]


def changed_stream(existing: StreamConfig, config: KeyValueConfig) -> StreamConfig:
    """The stream of an existing bucket, with the settings that are not those of buckets as they are."""
    settings = _settings(config)
    own = {name: value for name, value in existing.metadata.items() if name.startswith("_nats.")}
    return existing.replace(**settings | {"metadata": config.metadata | own})


def _settings(config: KeyValueConfig) -> dict[str, object]:
    markers = config.limit_marker_ttl or None
    window = min(config.ttl, _DUPLICATE_WINDOW) if config.ttl else _DUPLICATE_WINDOW
    mirror = None if config.mirror is None else _origin(config.mirror)
    return {
        "description": config.description,
        "subjects": [] if mirror else [f"{key_prefix(config.bucket)}>"],
        "max_msgs_per_subject": config.history,
        "max_age": config.ttl,
        "max_msg_size": config.max_value_size,
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "republish": config.republish,
        "mirror": mirror,
        "mirror_direct": mirror is not None and config.direct,
        "sources": [_source(source, config.bucket) for source in config.sources],
        "compression": StoreCompression.S2 if config.compression else StoreCompression.NONE,
        "duplicate_window": window,
        "discard": DiscardPolicy.NEW,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": config.direct,
        "allow_msg_ttl": markers is not None,
        "subject_delete_marker_ttl": markers,
        "metadata": config.metadata,
    }


def _origin(source: StreamSource) -> StreamSource:
    """The stream of a bucket, whose name may be given as that of its stream."""
    return source if source.name.startswith("KV_") else source.replace(name=stream_of(source.name))


def _source(source: StreamSource, bucket: str) -> StreamSource:
    """A bucket whose keys are copied: they get the subjects of this one, unless the user says which."""
    origin = _origin(source)
    name = origin.name.removeprefix("KV_")
    if name == bucket or origin.subject_transforms or origin.filter_subject:
        return origin
    transform = SubjectTransform(src=f"{key_prefix(name)}>", dest=f"{key_prefix(bucket)}>")
    return origin.replace(subject_transforms=[transform])
