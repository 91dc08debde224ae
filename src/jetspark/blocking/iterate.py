"""Endless reading in blocking programs: an iterator, or threads that call a handler.

Twin of `jetstream/pull/iterate.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeAlias

from jetspark.blocking.lazy_reader import SuppliedReader
from jetspark.blocking.message import Batch, JetStreamMsg, blocking_messages
from jetspark.blocking.mirror import Twin, mirrors
from jetspark.blocking.threads.supply import Supply
from jetspark.errors import Error, UsageError
from jetspark.jetstream.pull import iterate as aio

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge
    from jetspark.jetstream.consumer import Consumer
    from jetspark.jetstream.ordered.pull import OrderedConsumer
    from jetspark.jetstream.pull.buffer import OnError
    from jetspark.jetstream.pull.options import PullKeywords

__all__ = ["Consuming", "Handler", "Messages", "open_messages"]

#: A plain function that handles one message, in a thread of the consume.
Handler: TypeAlias = Callable[[JetStreamMsg], object]


def open_messages(
    bridge: Bridge, consumer: Consumer | OrderedConsumer, on_error: OnError | None, options: PullKeywords
) -> aio.Messages:
    """Call `messages` of an asynchronous consumer in the loop, with `on_error` called in a thread."""
    return bridge.portal.call(consumer.messages, on_error=bridge.on_error(on_error), **options)


@mirrors(aio.Messages)
class Messages(SuppliedReader[aio.Messages, JetStreamMsg]):
    def __init__(self, bridge: Bridge, inner: aio.Messages) -> None:
        super().__init__(bridge, inner)
        self._supply = Supply(bridge.portal, self._take, self._put_back)

    def next(self, timeout: float | None = None) -> JetStreamMsg | None:
        return self._supply.next(timeout)

    def batches(self) -> Iterator[Batch]:
        while (first := self._supply.next()) is not None:
            yield Batch([first, *self._supply.take_ready()])

    def stop(self) -> None:
        self.halt()
        self._bridge.run(self._stop())

    def drain(self) -> None:
        self._bridge.run(self._drain())

    def __del__(self) -> None:
        # The program left a loop over `consumer.messages()` without `with`.
        self.halt()
        self._bridge.portal.post(self._inner.stop)

    def halt(self) -> None:
        """Return no more messages."""
        self._supply.stop()

    async def _take(self, timeout: float | None) -> list[JetStreamMsg]:
        return blocking_messages(self._bridge, await self._inner.take(timeout))

    def _put_back(self, messages: list[JetStreamMsg]) -> None:
        self._bridge.portal.post(self._inner.put_back, [message._frame for message in messages])

    async def _stop(self) -> None:
        await self._inner.stop()

    async def _drain(self) -> None:
        await self._inner.drain()


@mirrors(aio.Consuming)
class Consuming(Twin[aio.Messages]):
    def __init__(self, bridge: Bridge, inner: aio.Messages, handler: Handler, concurrency: int) -> None:
        super().__init__(bridge, inner)
        self._handler = handler
        self._error: Error | None = None
        self._messages = Messages(bridge, inner)
        self._messages.__enter__()
        self._threads = [
            bridge.spawn(self._work, f"consume-{number}", self._messages.halt)
            for number in range(1, concurrency + 1)
        ]

    @property
    def active(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._messages.stop()
        self._join()

    def drain(self) -> None:
        self._messages.drain()
        self._join()

    def wait_closed(self) -> None:
        if threading.current_thread() in self._threads:
            raise UsageError(
                "a handler cannot wait for its own consume to end", hint="stop() and drain() can"
            )
        self._join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _join(self) -> None:
        # A handler that ends its own consume must not wait for itself, nor for handlers that do the same.
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        try:
            while (message := self._messages.next()) is not None:
                try:
                    self._handler(message)
                except Exception as error:
                    self._bridge.portal.post(self._inner.notify, error)
                    # If the nak fails, the server redelivers after `ack_wait`.
                    with suppress(Error):
                        message.nak()
        except Error as error:
            self._error = error
