"""Consumers, as blocking programs see them."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from jetspark.blocking.consuming import Consuming, Handler, Messages
from jetspark.blocking.message import Batch, JetStreamMsg, blocking_messages
from jetspark.blocking.mirror import mirrors
from jetspark.blocking.threads.supply import iterate
from jetspark.blocking.threads.worker import plain
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.message import delivered as aio_message
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.ordered import pull as aio_ordered
from jetspark.jetstream.pull import consumer as aio
from jetspark.jetstream.pull.buffer import OnError
from jetspark.jetstream.pull.iterate import Messages as AsyncMessages
from jetspark.jetstream.pull.iterate import check_concurrency
from jetspark.jetstream.pull.options import PullKeywords

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Consumer", "OrderedConsumer"]


class _Reader:
    """What both kinds of consumers do in the same way."""

    def __init__(self, bridge: Bridge, inner: aio.Consumer | aio_ordered.OrderedConsumer) -> None:
        self._bridge = bridge
        self._source = inner
        # What arrived when a fetch was interrupted; the next one hands it out.
        self._kept: deque[JetStreamMsg] = deque()

    def _fetch(self, limit: int | None, fetch: Coroutine[Any, Any, aio_message.Batch]) -> Batch:
        if self._kept:
            fetch.close()
            count = len(self._kept) if limit is None else min(limit, len(self._kept))
            return Batch([self._kept.popleft() for _ in range(count)])
        batch = self._bridge.run(fetch, self._keep)
        return Batch(blocking_messages(self._bridge, batch), batch.error)

    def _keep(self, batch: aio_message.Batch) -> None:
        self._kept.extend(blocking_messages(self._bridge, batch))

    def _messages(self, on_error: OnError | None, options: PullKeywords) -> AsyncMessages:
        told = None if on_error is None else self._bridge.aside("on_error", on_error)
        return self._bridge.portal.call(self._source.messages, on_error=told, **options)


@mirrors(aio.Consumer)
class Consumer(_Reader):
    def __init__(self, bridge: Bridge, inner: aio.Consumer) -> None:
        super().__init__(bridge, inner)
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def stream_name(self) -> str:
        return self._inner.stream_name

    @property
    def config(self) -> ConsumerConfig:
        return self._inner.config

    @property
    def cached_info(self) -> ConsumerInfo:
        return self._inner.cached_info

    def __repr__(self) -> str:
        return repr(self._inner)

    # --- managing

    def info(self) -> ConsumerInfo:
        return self._bridge.run(self._inner.info())

    def delete(self) -> None:
        self._bridge.run(self._inner.delete())

    def pause(self, until: datetime | float) -> None:
        self._bridge.run(self._inner.pause(until))

    def resume(self) -> None:
        self._bridge.run(self._inner.resume())

    def reset(self, sequence: int | None = None) -> None:
        self._bridge.run(self._inner.reset(sequence))

    def unpin(self, group: str) -> None:
        self._bridge.run(self._inner.unpin(group))

    def dead_letters(self, *, since: datetime | None = None, follow: bool = False) -> Iterator[DeadLetter]:
        return iterate(self._bridge.portal, self._inner.dead_letters(since=since, follow=follow))

    # --- consuming

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float = 5.0,
        idle_heartbeat: float | None = None,
        group: str | None = None,
        priority: int | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
    ) -> Batch:
        fetch = self._inner.fetch(
            max_messages,
            max_bytes=max_bytes,
            expires=expires,
            idle_heartbeat=idle_heartbeat,
            group=group,
            priority=priority,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
        )
        return self._fetch(max_messages, fetch)

    def fetch_no_wait(
        self, max_messages: int, *, group: str | None = None, priority: int | None = None
    ) -> Batch:
        fetch = self._inner.fetch_no_wait(max_messages, group=group, priority=priority)
        return self._fetch(max_messages, fetch)

    def next(
        self, expires: float = 5.0, *, idle_heartbeat: float | None = None, group: str | None = None
    ) -> JetStreamMsg | None:
        batch = self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat, group=group)
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        return Messages(self._bridge, self._messages(on_error, options))

    def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        on_error: OnError | None = None,
        **options: Unpack[PullKeywords],
    ) -> Consuming:
        check_concurrency(concurrency)
        messages = self._messages(on_error, options)
        return Consuming(self._bridge, messages, plain("handler", handler), concurrency)


@mirrors(aio_ordered.OrderedConsumer)
class OrderedConsumer(_Reader):
    def __init__(self, bridge: Bridge, inner: aio_ordered.OrderedConsumer) -> None:
        super().__init__(bridge, inner)
        self._inner = inner

    @property
    def stream_name(self) -> str:
        """The name of the stream."""
        return self._inner.stream_name

    @property
    def cached_info(self) -> ConsumerInfo | None:
        return self._inner.cached_info

    @property
    def last_sequence(self) -> int:
        return self._inner.last_sequence

    def __repr__(self) -> str:
        return repr(self._inner)

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float = 5.0,
        idle_heartbeat: float | None = None,
    ) -> Batch:
        fetch = self._inner.fetch(
            max_messages, max_bytes=max_bytes, expires=expires, idle_heartbeat=idle_heartbeat
        )
        return self._fetch(max_messages, fetch)

    def fetch_no_wait(self, max_messages: int) -> Batch:
        return self._fetch(max_messages, self._inner.fetch_no_wait(max_messages))

    def next(self, expires: float = 5.0) -> JetStreamMsg | None:
        batch = self.fetch(1, expires=expires)
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        return Messages(self._bridge, self._messages(on_error, options))

    def consume(
        self,
        handler: Handler,
        *,
        on_error: OnError | None = None,
        **options: Unpack[PullKeywords],
    ) -> Consuming:
        return Consuming(self._bridge, self._messages(on_error, options), plain("handler", handler), 1)

    def delete(self) -> None:
        self._bridge.run(self._inner.delete())
