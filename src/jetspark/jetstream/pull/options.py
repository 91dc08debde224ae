"""The options of `messages` and `consume`: their defaults and limits, all in one place. Pure."""

from __future__ import annotations

import math
from typing import Final, TypedDict

import msgspec

from jetspark.core.numbers import check_count
from jetspark.errors import UsageError
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.bounds import Bounds

__all__ = ["BATCH_FOR_BYTES", "MOST_BYTES", "PullKeywords", "PullOptions", "default_heartbeat"]

DEFAULT_MAX_MESSAGES: Final = 500
#: Messages per request when bytes are the limit: without it the server sends one message (ADR-37).
BATCH_FOR_BYTES: Final = 1_000_000
#: Bytes that are asked for at once when messages are the limit: twice the largest message of any server.
MOST_BYTES: Final = 128 * 1024 * 1024


def default_heartbeat(expires: float) -> float:
    """Half of `expires`, at most 30 seconds; rounded down, as the server refuses a nanosecond more."""
    return min(math.floor(expires * 500) / 1000, 30.0)


class PullKeywords(TypedDict, total=False):
    """The options of `messages` and `consume`, for their signatures; `PullOptions` has the defaults."""

    max_messages: int | None
    max_bytes: int | None
    expires: float
    idle_heartbeat: float | None
    threshold_messages: int | None
    threshold_bytes: int | None
    group: str | None
    priority: int | None
    min_pending: int | None
    min_ack_pending: int | None


class PullOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `messages` and `consume`, checked, with their defaults computed."""

    max_messages: int | None = None
    max_bytes: int | None = None
    expires: float = 30.0
    idle_heartbeat: float | None = None
    threshold_messages: int | None = None
    threshold_bytes: int | None = None
    group: str | None = None
    priority: int | None = None
    min_pending: int | None = None
    min_ack_pending: int | None = None
    #: The limits of the consumer. They may get smaller while it is read.
    bounds: Bounds = msgspec.field(default_factory=Bounds)

    def __post_init__(self) -> None:
        if self.max_messages is not None and self.max_bytes is not None:
            raise UsageError("max_messages and max_bytes exclude each other")
        if not 1 <= self.expires < math.inf:
            raise UsageError(f"expires must be at least 1 second, not {self.expires!r}")
        heartbeat = default_heartbeat(self.expires) if self.idle_heartbeat is None else self.idle_heartbeat
        if not 0.5 <= heartbeat <= 30 or 2 * heartbeat > self.expires:
            raise UsageError(
                "idle_heartbeat must be from 0.5 to 30 seconds and at most half of expires, "
                f"not {heartbeat!r}"
            )
        for unit in ("messages", "bytes"):
            limit = self.wanted if unit == self.unit else None
            threshold = getattr(self, f"threshold_{unit}")
            if limit is not None:
                check_count(f"max_{unit}", limit)
            if threshold is not None and limit is None:
                raise UsageError(f"threshold_{unit} needs max_{unit}")
            if threshold is not None and limit is not None and not 0 <= threshold <= limit:
                raise UsageError(f"threshold_{unit} must be from 0 to {limit}, not {threshold}")
        self.request(self.limit, None)  # Checks the other options.

    @property
    def unit(self) -> str:
        """The unit of the limit."""
        return "messages" if self.max_bytes is None else "bytes"

    @property
    def wanted(self) -> int:
        """The largest amount that the user wants buffered or asked for."""
        if self.max_bytes is not None:
            return self.max_bytes
        return DEFAULT_MAX_MESSAGES if self.max_messages is None else self.max_messages

    @property
    def limit(self) -> int:
        """The largest amount that is buffered or asked for: one request must be able to ask for all of it."""
        most = self.bounds.batch if self.max_bytes is None else self.bounds.max_bytes
        return self.wanted if most is None else min(self.wanted, most)

    @property
    def most_bytes(self) -> int:
        """The bytes of a request for everything."""
        return MOST_BYTES if self.max_bytes is None else self.limit

    @property
    def threshold(self) -> int:
        """The amount pending at which more is asked for; half of the limit, rounded up."""
        given = self.threshold_messages if self.max_bytes is None else self.threshold_bytes
        half = (self.limit + 1) // 2
        if given is None:
            return half
        return given if self.limit == self.wanted else min(given, half)

    @property
    def seconds(self) -> float:
        """How long a request lives: `expires`, or as long as the consumer allows."""
        most = self.bounds.expires
        return self.expires if most is None else min(self.expires, most)

    @property
    def heartbeat(self) -> float:
        """Seconds; half of the time that a request lives, at most 30."""
        half = default_heartbeat(self.seconds)
        return half if self.idle_heartbeat is None else min(self.idle_heartbeat, half)

    def request(self, amount: int, pin_id: str | None) -> PullRequest:
        """The request for `amount` messages or bytes.

        One for messages has its share of the bytes too, so that large messages fill the buffer with fewer.
        """
        batch = amount
        if self.max_bytes is not None:
            batch = min(BATCH_FOR_BYTES, self.bounds.batch or BATCH_FOR_BYTES)
        max_bytes: int | None = max(self.most_bytes * amount // self.limit, 1)
        if self.max_bytes is None and (self.bounds.max_bytes or MOST_BYTES) < MOST_BYTES:
            max_bytes = None  # A request that names no bytes is never refused for them.
        return PullRequest(
            batch=batch,
            max_bytes=max_bytes,
            expires=self.seconds,
            idle_heartbeat=self.heartbeat or None,
            group=self.group,
            priority=self.priority,
            min_pending=self.min_pending,
            min_ack_pending=self.min_ack_pending,
            id=pin_id,
        )
