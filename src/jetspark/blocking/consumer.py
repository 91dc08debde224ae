"""A pull consumer, as blocking programs see it. Twin of `jetstream/consumer.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from jetspark.blocking.fetch import Fetching, fetches
from jetspark.blocking.iterate import Consuming, Handler, Messages, open_messages
from jetspark.blocking.message import JetStreamMsg
from jetspark.blocking.mirror import calls, iterates, mirrors
from jetspark.blocking.threads.worker import plain
from jetspark.core.numbers import check_count
from jetspark.jetstream import consumer as aio
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.pull.buffer import OnError
from jetspark.jetstream.pull.options import PullKeywords
from jetspark.jetstream.pull.pin import OnPin

__all__ = ["Consumer"]


@mirrors(aio.Consumer)
class Consumer(Fetching[aio.Consumer]):
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

    # --- managing

    info = calls(aio.Consumer.info)
    delete = calls(aio.Consumer.delete)
    pause = calls(aio.Consumer.pause)
    resume = calls(aio.Consumer.resume)
    reset = calls(aio.Consumer.reset)
    unpin = calls(aio.Consumer.unpin)

    def on_pin(self, listener: OnPin) -> Callable[[], None]:
        aside = self._bridge.aside("listener", listener)
        remove = self._bridge.portal.call(self._inner.on_pin, aside)
        return lambda: self._bridge.portal.call(remove)

    dead_letters = iterates(aio.Consumer.dead_letters, ahead=0)

    # --- consuming

    fetch = fetches(aio.Consumer.fetch)
    fetch_no_wait = fetches(aio.Consumer.fetch_no_wait)

    def next(
        self,
        expires: float = 5.0,
        *,
        idle_heartbeat: float | None = None,
        group: str | None = None,
        priority: int | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        timeout: float | None = None,
    ) -> JetStreamMsg | None:
        batch = self.fetch(
            1,
            expires=expires,
            timeout=timeout,
            idle_heartbeat=idle_heartbeat,
            group=group,
            priority=priority,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
        )
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        return Messages(self._bridge, open_messages(self._bridge, self._inner, on_error, options))

    def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        on_error: OnError | None = None,
        **options: Unpack[PullKeywords],
    ) -> Consuming:
        check_count("concurrency", concurrency)
        messages = open_messages(self._bridge, self._inner, on_error, options)
        kind = self._bridge.connection.class_of(Consuming)
        return kind(self._bridge, messages, plain("handler", handler), concurrency)
