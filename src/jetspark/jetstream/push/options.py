"""The options of a push subscription, beside the subject and the consumer."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

from jetspark.core.connection import PENDING_BYTES_LIMIT, PENDING_MSGS_LIMIT
from jetspark.core.numbers import check_count, check_seconds
from jetspark.errors import UsageError
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.on_error import OnError

__all__ = ["PushKeywords", "PushOptions"]


class PushKeywords(TypedDict, total=False):
    """The options, for signatures. The defaults are those of `PushOptions`."""

    #: Do not acknowledge a message when the callback returns.
    manual_ack: bool
    #: Do not delete the consumer in `unsubscribe()` and `drain()`, though this subscription created it.
    keep_consumer: bool
    #: Seconds without a heartbeat until `MissedHeartbeat` is reported, or without a message until a consumer
    #: without heartbeats is looked for.
    alarm_after: float | None
    #: The most messages, and bytes of them, that may wait for the reader.
    pending_msgs_limit: int
    pending_bytes_limit: int
    #: Called with errors that no call raises.
    on_error: OnError | None
    #: Where the consumer starts in the stream.
    deliver_policy: DeliverPolicy | str | None
    #: Deliver headers without payloads.
    headers_only: bool | None
    #: The server deletes the consumer after so many seconds without a subscriber.
    inactive_threshold: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Validated options. `JetStream.subscribe` documents them."""

    manual_ack: bool = False
    keep_consumer: bool = False
    #: None for three heartbeats.
    alarm_after: float | None = None
    pending_msgs_limit: int = PENDING_MSGS_LIMIT
    pending_bytes_limit: int = PENDING_BYTES_LIMIT
    on_error: OnError | None = None
    deliver_policy: DeliverPolicy | str | None = None
    headers_only: bool | None = None
    inactive_threshold: float | None = None

    def __post_init__(self) -> None:
        for name in ("pending_msgs_limit", "pending_bytes_limit"):
            check_count(name, getattr(self, name))
        if self.alarm_after is not None:
            check_seconds("alarm_after", self.alarm_after)
        if self.on_error is not None and not callable(self.on_error):
            raise UsageError(f"on_error must be a function, not {type(self.on_error).__name__}")

    @property
    def changes(self) -> dict[str, object]:
        """The consumer configuration fields that are set by options."""
        fields = ("deliver_policy", "headers_only", "inactive_threshold")
        return {field: value for field in fields if (value := getattr(self, field)) is not None}
