"""A pull consumer, as blocking programs see it. Twin of `jetstream/consumer.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetspark.blocking.fetch import Fetching, fetches
from jetspark.blocking.iterate import Consuming, Handler, Messages, open_messages
from jetspark.blocking.message import JetStreamMsg
from jetspark.blocking.mirror import calls, iterates, mirrors
from jetspark.blocking.threads.worker import plain
from jetspark.jetstream import consumer as aio
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.pull.buffer import OnError
from jetspark.jetstream.pull.iterate import check_concurrency
from jetspark.jetstream.pull.options import PullKeywords

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Consumer"]


@mirrors(aio.Consumer)
class Consumer(Fetching):
    def __init__(self, bridge: Bridge, inner: aio.Consumer) -> None:
        super().__init__(bridge)
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

    info = calls(aio.Consumer.info)
    delete = calls(aio.Consumer.delete)
    pause = calls(aio.Consumer.pause)
    resume = calls(aio.Consumer.resume)
    reset = calls(aio.Consumer.reset)
    unpin = calls(aio.Consumer.unpin)
    dead_letters = iterates(aio.Consumer.dead_letters)

    # --- consuming

    fetch = fetches(aio.Consumer.fetch)
    fetch_no_wait = fetches(aio.Consumer.fetch_no_wait)

    def next(
        self, expires: float = 5.0, *, idle_heartbeat: float | None = None, group: str | None = None
    ) -> JetStreamMsg | None:
        batch = self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat, group=group)
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
        check_concurrency(concurrency)
        messages = open_messages(self._bridge, self._inner, on_error, options)
        return Consuming(self._bridge, messages, plain("handler", handler), concurrency)
