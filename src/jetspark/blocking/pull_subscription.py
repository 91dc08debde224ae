"""A pull subscription, as blocking programs see it. Twin of `jetstream/subscribe/pull.py`."""

from __future__ import annotations

from typing import Self

from jetspark.blocking.fetch import Fetching, fetches
from jetspark.blocking.mirror import calls, mirrors
from jetspark.jetstream.subscribe import pull as aio

__all__ = ["PullSubscription"]


@mirrors(aio.PullSubscription)
class PullSubscription(Fetching[aio.PullSubscription]):
    @property
    def stream_name(self) -> str:
        return self._inner.stream_name

    @property
    def consumer_name(self) -> str:
        return self._inner.consumer_name

    @property
    def active(self) -> bool:
        return self._inner.active

    @property
    def pending_msgs(self) -> int:
        return self._inner.pending_msgs + len(self._kept)

    consumer_info = calls(aio.PullSubscription.consumer_info)

    fetch = fetches(aio.PullSubscription.fetch)
    unsubscribe = calls(aio.PullSubscription.unsubscribe)
    drain = calls(aio.PullSubscription.drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()
