"""An ordered consumer, as blocking programs see it. Twin of `jetstream/ordered/pull.py`."""

from __future__ import annotations

from typing import Unpack

from jetspark.blocking.fetch import Fetching, fetches
from jetspark.blocking.iterate import Consuming, Handler, Messages, open_messages
from jetspark.blocking.message import JetStreamMsg
from jetspark.blocking.mirror import calls, mirrors
from jetspark.blocking.threads.worker import plain
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.ordered import pull as aio
from jetspark.jetstream.pull.buffer import OnError
from jetspark.jetstream.pull.options import PullKeywords

__all__ = ["OrderedConsumer"]


@mirrors(aio.OrderedConsumer)
class OrderedConsumer(Fetching[aio.OrderedConsumer]):
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

    fetch = fetches(aio.OrderedConsumer.fetch)
    fetch_no_wait = fetches(aio.OrderedConsumer.fetch_no_wait)
    delete = calls(aio.OrderedConsumer.delete)

    def next(self, expires: float = 5.0, *, timeout: float | None = None) -> JetStreamMsg | None:
        batch = self.fetch(1, expires=expires, timeout=timeout)
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        return Messages(self._bridge, open_messages(self._bridge, self._inner, on_error, options))

    def consume(
        self, handler: Handler, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]
    ) -> Consuming:
        messages = open_messages(self._bridge, self._inner, on_error, options)
        kind = self._bridge.connection.class_of(Consuming)
        return kind(self._bridge, messages, plain("handler", handler), 1)
