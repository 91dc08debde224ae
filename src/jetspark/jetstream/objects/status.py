"""The state of an object store: what it holds, and how it is configured."""

from __future__ import annotations

import msgspec

from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import StorageType, StoreCompression

__all__ = ["ObjectStoreStatus"]


class ObjectStoreStatus(msgspec.Struct, frozen=True):
    """An object store, as the server described it."""

    #: Everything about its stream.
    stream_info: StreamInfo

    @property
    def bucket(self) -> str:
        """Its name."""
        return self.stream_info.config.name.removeprefix("OBJ_")

    @property
    def description(self) -> str | None:
        """For people."""
        return self.stream_info.config.description

    @property
    def size(self) -> int:
        """The bytes of everything in it, metadata included."""
        return self.stream_info.state.bytes

    @property
    def ttl(self) -> float | None:
        """Seconds that an object lives; None for no limit."""
        return self.stream_info.config.max_age or None

    @property
    def storage(self) -> StorageType | str:
        """Where objects are kept."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int:
        """How many servers hold a copy."""
        return self.stream_info.config.num_replicas or 1

    @property
    def sealed(self) -> bool:
        """Whether nothing can be changed any more."""
        return self.stream_info.config.sealed

    @property
    def compressed(self) -> bool:
        """Whether objects are compressed on disk."""
        return self.stream_info.config.compression == StoreCompression.S2

    @property
    def backing_store(self) -> str:
        """The kind of storage behind it."""
        return "JetStream"

    @property
    def metadata(self) -> dict[str, str]:
        """Names and values, with those of the server."""
        return self.stream_info.config.metadata
