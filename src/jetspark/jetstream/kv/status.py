"""The state of a bucket: what it holds, and how it is configured."""

from __future__ import annotations

import msgspec

from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import StorageType, StoreCompression

__all__ = ["KeyValueStatus"]


class KeyValueStatus(msgspec.Struct, frozen=True):
    """A bucket, as the server described it."""

    #: Everything about its stream.
    stream_info: StreamInfo

    @property
    def bucket(self) -> str:
        """Its name."""
        return self.stream_info.config.name.removeprefix("KV_")

    @property
    def description(self) -> str | None:
        """For people."""
        return self.stream_info.config.description

    @property
    def values(self) -> int:
        """How many revisions it holds, tombstones included."""
        return self.stream_info.state.messages

    @property
    def bytes(self) -> int:
        """Their size together."""
        return self.stream_info.state.bytes

    @property
    def last_revision(self) -> int:
        """The last revision that was stored."""
        return self.stream_info.state.last_seq

    @property
    def history(self) -> int:
        """Revisions that are kept of each key."""
        return self.stream_info.config.max_msgs_per_subject or 1

    @property
    def ttl(self) -> float | None:
        """Seconds that a revision lives; None for no limit."""
        return self.stream_info.config.max_age or None

    @property
    def limit_marker_ttl(self) -> float | None:
        """Seconds that the tombstone of an expired key lives; None if expired keys leave none."""
        return self.stream_info.config.subject_delete_marker_ttl or None

    @property
    def storage(self) -> StorageType | str:
        """Where values are kept."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int:
        """How many servers hold a copy."""
        return self.stream_info.config.num_replicas or 1

    @property
    def compressed(self) -> bool:
        """Whether values are compressed on disk."""
        return self.stream_info.config.compression == StoreCompression.S2

    @property
    def backing_store(self) -> str:
        """The kind of storage behind it."""
        return "JetStream"

    @property
    def metadata(self) -> dict[str, str]:
        """Names and values, with those of the server."""
        return self.stream_info.config.metadata
