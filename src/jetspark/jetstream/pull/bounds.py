"""The limits of a consumer on one pull request. Pure.

They are read from its configuration as it was last seen. The server refuses a request that exceeds them; the
refusal names the limit, so the next request is smaller (ADR-37 leaves it at a warning).
"""

from __future__ import annotations

from typing import Final, TypeVar

from jetspark.jetstream.message.status import Exceeded
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.requests import PullRequest

__all__ = ["Bounds"]

T = TypeVar("T", int, float)

#: Seconds: the shortest `max_expires` that the server accepts.
_SHORTEST: Final = 0.001


class Bounds:
    """The largest values that one consumer accepts in a request; None where it has no limit."""

    __slots__ = ("batch", "expires", "max_bytes")

    def __init__(self, config: ConsumerConfig | None = None) -> None:
        self.batch: int | None = None
        self.max_bytes: int | None = None
        #: Seconds.
        self.expires: float | None = None
        if config is not None:
            self.read(config)

    def read(self, config: ConsumerConfig) -> None:
        """Take the limits of a configuration, and forget those that refusals named."""
        self.batch = _limit(config.max_batch)
        self.max_bytes = _limit(config.max_bytes)
        self.expires = _limit(config.max_expires)

    def fit(self, request: PullRequest) -> PullRequest:
        """The request, or one for fewer messages and bytes, which the consumer accepts."""
        changes: dict[str, object] = {}
        for field in ("batch", "max_bytes"):
            asked, most = getattr(request, field), getattr(self, field)
            if asked is not None and most is not None and asked > most:
                changes[field] = most
        return request.replace(**changes) if changes else request

    def learn(self, exceeded: Exceeded | None, request: PullRequest) -> None:
        """The server refused a request. Without a number, half of the amount is tried next."""
        asked = getattr(request, exceeded.field) if exceeded is not None else None
        if exceeded is None or asked is None:
            return
        limit = asked / 2 if exceeded.limit is None else exceeded.limit
        if limit >= asked:
            return
        if exceeded.field == "expires":
            self.expires = max(limit, _SHORTEST)
        else:
            setattr(self, exceeded.field, max(int(limit), 1))


def _limit(value: T | None) -> T | None:
    """A limit of the configuration; 0 or less means none."""
    return value if value is not None and value > 0 else None
