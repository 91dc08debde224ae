"""Counts of a connection that outlive its publishers, consumers and subscriptions.

They grow by chunks, or where rates are low. `jetspark.metrics` adds the publishers that are not closed yet.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ConsumerCounts", "Tally"]

#: Consumers that are counted by name; those that come later are counted together.
_MOST: Final = 1000


class ConsumerCounts:
    """The deliveries of a consumer."""

    __slots__ = ("delivered", "redelivered")

    def __init__(self) -> None:
        self.delivered = 0
        #: How many of them had been delivered before.
        self.redelivered = 0

    def add(self, delivered: int, redelivered: int) -> None:
        self.delivered += delivered
        self.redelivered += redelivered


class Tally:
    """The counts of one connection."""

    __slots__ = ("acks", "consumers", "dropped", "errors", "publish_acks", "publish_failures", "published")

    def __init__(self) -> None:
        #: Messages that were published for an acknowledgement, and what became of them; of publishers that
        #: are closed, and of `js.publish`.
        self.published = self.publish_acks = self.publish_failures = 0
        #: Acknowledgements of messages, without those that the outbox counts.
        self.acks = 0
        #: Messages that subscriptions dropped, and errors that no call raised.
        self.dropped = self.errors = 0
        #: By `STREAM.NAME`; empty for those that are not counted by name.
        self.consumers: dict[bytes, ConsumerCounts] = {}

    def consumer(self, names: bytes) -> ConsumerCounts:
        """The counts of a consumer."""
        found = self.consumers.get(names)
        if found is None:
            if len(self.consumers) >= _MOST:
                names = b""
            found = self.consumers.setdefault(names, ConsumerCounts())
        return found
