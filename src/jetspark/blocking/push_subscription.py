"""A push subscription, as blocking programs see it. Twin of `jetstream/push/subscription.py`."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, cast

from jetspark.blocking.message import JetStreamMsg, Msg
from jetspark.blocking.mirror import calls, mirrors
from jetspark.blocking.subscription import Callback, Subscription
from jetspark.blocking.threads.supply import Supply
from jetspark.core import subscription
from jetspark.jetstream.push import subscription as aio
from jetspark.wire import MsgFrame

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["PushSubscription"]

#: Messages taken from the loop at once, at most up to the next flow control request.
_CHUNK: Final = 1024


@mirrors(aio.PushSubscription)
class PushSubscription(Subscription):
    def __init__(self, bridge: Bridge, inner: subscription.Subscription, callback: Callback | None) -> None:
        super().__init__(bridge, inner, callback)
        self._push = cast(aio.PushSubscription, inner)
        # Messages that the callback's thread had taken when it was stopped.
        self._unread: list[MsgFrame] = []
        self._supply = Supply(bridge.portal, self._take, self._put_back)

    @property
    def stream_name(self) -> str:
        return self._push.stream_name

    @property
    def consumer_name(self) -> str:
        return self._push.consumer_name

    consumer_info = calls(aio.PushSubscription.consumer_info)
    drain = calls(aio.PushSubscription.drain)

    def next(self, timeout: float | None = None) -> JetStreamMsg:
        return cast(JetStreamMsg, super().next(timeout))

    def __next__(self) -> JetStreamMsg:
        return cast(JetStreamMsg, super().__next__())

    def unsubscribe(self) -> None:
        try:
            super().unsubscribe()
        finally:
            # After unsubscribing, or the server would redeliver to this subscription.
            unread, self._unread = self._unread, []
            self._bridge.portal.post(self._push.give_back, unread)

    async def _take(self, timeout: float | None) -> list[Msg]:
        frames = await self._push.take(_CHUNK, timeout)
        kind = self._bridge.connection.class_of(JetStreamMsg)
        return list(map(kind, frames, repeat(self._bridge), repeat(self._push.settled)))

    def _put_back(self, messages: list[Msg]) -> None:
        self._unread += [message._frame for message in messages]

    def _handle(self, message: Msg) -> None:
        super()._handle(message)
        if self._push.acks_itself:
            cast(JetStreamMsg, message).ack()

    def _report(self, error: Exception) -> None:
        self._push.notify(error)
