"""A pull subscription, as blocking programs see it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

from jetspark.blocking.message import Batch, JetStreamMsg, blocking_messages
from jetspark.blocking.mirror import mirrors
from jetspark.jetstream.message import delivered as message
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.subscribe import pull as aio

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["PullSubscription"]


@mirrors(aio.PullSubscription)
class PullSubscription:
    def __init__(self, bridge: Bridge, inner: aio.PullSubscription) -> None:
        self._bridge = bridge
        self._inner = inner
        # What arrived when a fetch was interrupted; the next one hands it out.
        self._kept: deque[JetStreamMsg] = deque()

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

    def consumer_info(self) -> ConsumerInfo:
        return self._bridge.run(self._inner.consumer_info())

    def __repr__(self) -> str:
        return repr(self._inner)

    def fetch(self, batch: int = 1, timeout: float = 5.0) -> Batch:
        fetching = self._inner.fetch(batch, timeout)
        if self._kept:
            fetching.close()
            return Batch([self._kept.popleft() for _ in range(min(batch, len(self._kept)))])
        fetched = self._bridge.run(fetching, self._keep)
        return Batch(blocking_messages(self._bridge, fetched), fetched.error)

    def _keep(self, batch: message.Batch) -> None:
        self._kept.extend(blocking_messages(self._bridge, batch))

    def unsubscribe(self) -> None:
        self._bridge.run(self._inner.unsubscribe())

    def drain(self) -> None:
        self._bridge.run(self._inner.drain())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()
