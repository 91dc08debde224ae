"""A pull subscription, as blocking programs see it. Twin of `jetstream/subscribe/pull.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from jetspark.blocking.fetch import Fetching, fetches
from jetspark.blocking.mirror import calls, mirrors
from jetspark.jetstream.subscribe import pull as aio

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["PullSubscription"]


@mirrors(aio.PullSubscription)
class PullSubscription(Fetching):
    def __init__(self, bridge: Bridge, inner: aio.PullSubscription) -> None:
        super().__init__(bridge)
        self._inner = inner

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

    def __repr__(self) -> str:
        return repr(self._inner)

    fetch = fetches(aio.PullSubscription.fetch)
    unsubscribe = calls(aio.PullSubscription.unsubscribe)
    drain = calls(aio.PullSubscription.drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()
