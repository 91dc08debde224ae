"""The options of `messages` and `consume`: their defaults and limits, all in one place. Pure."""

from __future__ import annotations

import math
from typing import Final, TypedDict

import msgspec

from jetspark.errors import UsageError
from jetspark.jetstream.model.requests import PullRequest

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
    #: Whether requests for messages are bounded in bytes too: not if the consumer takes no such requests.
    bounds_bytes: bool = True

    def __post_init__(self) -> None:
        if self.max_messages is not None and self.max_bytes is not None:
            raise UsageError("max_messages and max_bytes exclude each other")
        if not 1 <= self.expires < math.inf:
            raise UsageError(f"expires must be at least 1 second, not {self.expires!r}")
        if not 0.5 <= self.heartbeat <= 30 or 2 * self.heartbeat > self.expires:
            raise UsageError(
                "idle_heartbeat must be from 0.5 to 30 seconds and at most half of expires, "
                f"not {self.heartbeat!r}"
            )
        for unit in ("messages", "bytes"):
            limit = self.limit if unit == self.unit else None
            threshold = getattr(self, f"threshold_{unit}")
            if limit is not None and limit < 1:
                raise UsageError(f"max_{unit} must be at least 1, not {limit}")
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
    def limit(self) -> int:
        """The largest amount that is buffered or asked for."""
        if self.max_bytes is not None:
            return self.max_bytes
        return DEFAULT_MAX_MESSAGES if self.max_messages is None else self.max_messages

    @property
    def most_bytes(self) -> int:
        """The bytes of a request for everything."""
        return MOST_BYTES if self.max_bytes is None else self.max_bytes

    @property
    def threshold(self) -> int:
        """The amount pending at which more is asked for; half of the limit, rounded up."""
        given = self.threshold_messages if self.max_bytes is None else self.threshold_bytes
        return (self.limit + 1) // 2 if given is None else given

    @property
    def heartbeat(self) -> float:
        """Seconds; half of `expires`, at most 30."""
        return default_heartbeat(self.expires) if self.idle_heartbeat is None else self.idle_heartbeat

    def request(self, amount: int, pin_id: str | None) -> PullRequest:
        """The request for `amount` messages or bytes.

        One for messages has its share of the bytes too, so that large messages fill the buffer with fewer.
        """
        return PullRequest(
            batch=amount if self.max_bytes is None else BATCH_FOR_BYTES,
            max_bytes=max(self.most_bytes * amount // self.limit, 1)
            if self.max_bytes is not None or self.bounds_bytes
            else None,
            expires=self.expires,
            idle_heartbeat=self.heartbeat,
            group=self.group,
            priority=self.priority,
            min_pending=self.min_pending,
            min_ack_pending=self.min_ack_pending,
            id=pin_id,
        )
