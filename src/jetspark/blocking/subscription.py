"""A subscription, as blocking programs see it: read in any thread, or by a callback in its own thread.

Twin of `core/subscription.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from jetspark.blocking.message import Msg
from jetspark.blocking.mirror import Twin, calls, mirrors
from jetspark.blocking.threads.supply import Supply
from jetspark.blocking.threads.worker import plain
from jetspark.core import subscription as aio
from jetspark.core.events import Event
from jetspark.errors import Error, SubscriptionClosed, Timeout, UsageError

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Callback", "Subscription"]

S = TypeVar("S", bound="Subscription")

#: A plain function that handles one message, in a thread of the subscription.
Callback: TypeAlias = Callable[[Msg], object]

#: Messages taken from the loop at once.
_CHUNK: Final = 1024


@mirrors(aio.Subscription)
class Subscription(Twin[aio.Subscription]):
    def __init__(self, bridge: Bridge, inner: aio.Subscription, callback: Callback | None) -> None:
        super().__init__(bridge, inner)
        self._callback = callback
        self._supply = Supply(bridge.portal, self._take)

    @classmethod
    def open(
        cls: type[S],
        bridge: Bridge,
        subscribing: Coroutine[Any, Any, aio.Subscription],
        callback: Callback | None,
    ) -> S:
        """Subscribe, and start the thread of the callback."""
        if callback is None:
            return cls(bridge, bridge.run(subscribing), None)
        try:
            if not callable(plain("callback", callback)):
                raise UsageError(f"callback must be a function, not {type(callback).__name__}")
        except UsageError:
            subscribing.close()
            raise

        async def begin() -> tuple[S, asyncio.Future[None], asyncio.Task[None]]:
            subscription = cls(bridge, await subscribing, callback)
            worked = asyncio.get_running_loop().create_future()
            return subscription, worked, subscription._inner.hand_to(subscription._attend(worked))

        subscription, worked, task = bridge.run(begin())
        bridge.spawn(
            lambda: subscription._work(worked, task),
            f"subscription-{subscription.subject}",
            subscription._supply.stop,
        )
        return subscription

    @property
    def subject(self) -> str:
        return self._inner.subject

    @property
    def queue(self) -> str:
        return self._inner.queue

    @property
    def pending_msgs(self) -> int:
        return self._inner.pending_msgs + len(self._supply)

    @property
    def pending_bytes(self) -> int:
        return self._inner.pending_bytes + sum(message._frame.size for message in self._supply.waiting)

    @property
    def received(self) -> int:
        return self._inner.received

    @property
    def dropped(self) -> int:
        return self._inner.dropped

    @property
    def active(self) -> bool:
        return self._inner.active

    # --- reading

    def next(self, timeout: float | None = None) -> Msg:
        self._check_no_callback()
        seconds = self._bridge.connection.options.request_timeout if timeout is None else timeout
        message = self._supply.next(seconds)
        if message is not None:
            return message
        if self._inner.active:
            raise Timeout(f"no message on {self.subject!r} within {seconds} s")
        raise SubscriptionClosed(f"the subscription to {self.subject!r} is closed")

    def __iter__(self) -> Self:
        self._check_no_callback()
        return self

    def __next__(self) -> Msg:
        message = self._supply.next()
        if message is None:
            raise StopIteration
        return message

    async def _take(self, timeout: float | None) -> list[Msg]:
        kind = self._bridge.connection.class_of(Msg)
        return list(map(kind, await self._inner.take(_CHUNK, timeout), repeat(self._bridge)))

    def _check_no_callback(self) -> None:
        if self._callback is not None:
            raise UsageError("this subscription has a callback, which receives its messages")

    # --- the callback's thread

    def _work(self, worked: asyncio.Future[None], task: asyncio.Task[None]) -> None:
        aio.acting_for.set(task)
        portal = self._bridge.portal
        try:
            while (message := self._supply.next()) is not None:
                try:
                    self._handle(message)
                except Exception as error:
                    portal.post(self._report, error)
        except Error:
            pass  # The connection has failed and called its listeners.
        finally:
            portal.post(_resolve, worked)

    def _handle(self, message: Msg) -> None:
        assert self._callback is not None
        self._callback(message)

    def _report(self, error: Exception) -> None:
        self._bridge.connection.report(error, Event.ERROR)

    async def _attend(self, worked: asyncio.Future[None]) -> None:
        """Represent the thread in the loop: end with it, and stop it when cancelled."""
        try:
            await worked
            # A drain also waits for the last messages that the callback published.
            await self._bridge.writer.settle(self._bridge.connection.options.drain_timeout)
        finally:
            self._supply.stop()

    # --- ending

    def unsubscribe(self) -> None:
        if self._callback is not None:
            self._supply.stop()
        self._bridge.run(self._inner.unsubscribe())

    drain = calls(aio.Subscription.drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
