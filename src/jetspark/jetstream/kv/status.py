"""The state of a bucket: its contents and its configuration."""

from __future__ import annotations

from typing import ClassVar

from jetspark.jetstream.kv.backing import BucketStatus
from jetspark.jetstream.kv.names import BUCKET_PREFIX

__all__ = ["KeyValueStatus"]


class KeyValueStatus(BucketStatus, frozen=True):
    """A bucket, as the server described it."""

    PREFIX: ClassVar[str] = BUCKET_PREFIX

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
    def limit_marker_ttl(self) -> float | None:
        """Seconds that the tombstone of an expired key lives; None if expired keys leave none."""
        return self.stream_info.config.subject_delete_marker_ttl or None
