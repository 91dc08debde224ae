"""The state of an object store: its contents and its configuration."""

from __future__ import annotations

from typing import ClassVar

from jetspark.jetstream.kv.backing import BucketStatus
from jetspark.jetstream.objects.names import STORE_PREFIX

__all__ = ["ObjectStoreStatus"]


class ObjectStoreStatus(BucketStatus, frozen=True):
    """An object store, as the server described it."""

    PREFIX: ClassVar[str] = STORE_PREFIX

    @property
    def size(self) -> int:
        """The bytes of everything in it, metadata included."""
        return self.stream_info.state.bytes

    @property
    def sealed(self) -> bool:
        """Whether nothing can be changed any more."""
        return self.stream_info.config.sealed
