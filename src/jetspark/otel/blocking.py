"""The classes that an instrumented blocking connection and its objects have. Twins of `classes.py`.

Calls that cross into the loop need none: the loop runs them in the context of the calling thread, and the
asynchronous objects make the spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Unpack

from jetspark.blocking import connection, iterate, message, publisher, push_subscription, subscription
from jetspark.jetstream.message.delivered import ACK
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.headers import Expectations
from jetspark.jetstream.pull import iterate as aio
from jetspark.otel.classes import settlement, tracing_of
from jetspark.otel.context import with_context
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge
    from jetspark.core import subscription as core

__all__ = ["CLASSES", "TracedBlockingConnection"]


class TracedBlockingConnection(connection.Connection):
    """A connection whose messages are traced."""

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> None:
        with tracing_of(self._inner).sending("publish", subject, data):
            super().publish(subject, data, reply=reply, headers=with_context(headers))


class TracedBlockingPublisher(publisher.Publisher):
    """A publisher whose messages each have a span, which ends with the acknowledgement."""

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> Future[PubAck]:
        tracing = tracing_of(self._bridge.connection)
        with tracing.sending("publish", subject, data, msg_id, ends=False) as span:
            carried = with_context(headers)
            future = super().publish(subject, data, headers=carried, msg_id=msg_id, **expectations)
        future.add_done_callback(lambda done: tracing.answered(span, done))
        return future


class TracedBlockingMsg(message.Msg, gc=False, eq=False):
    """A message whose response is traced."""

    def respond(self, data: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        with tracing_of(self._bridge.connection).sending("publish", self.reply, data):
            super().respond(data, headers=with_context(headers))


class TracedBlockingJetStreamMsg(message.JetStreamMsg, gc=False, eq=False):
    """A message whose acknowledgement has a span."""

    def ack(self) -> None:
        self._settle(ACK)

    def ack_sync(self, timeout: float | None = None) -> None:
        if not self._settled:
            with tracing_of(self._bridge.connection).settling("ack", [self]):
                super().ack_sync(timeout)

    def ack_next(self, expires: float = 5.0) -> message.JetStreamMsg | None:
        if self._settled:
            return None
        with tracing_of(self._bridge.connection).settling("ack", [self]):
            return super().ack_next(expires)

    def _settle(self, kind: bytes) -> None:
        if not self._settled:
            with tracing_of(self._bridge.connection).settling(settlement(kind), [self]):
                super()._settle(kind)

    def _ack_all(self, messages: Sequence[message.JetStreamMsg]) -> None:
        with tracing_of(self._bridge.connection).settling("ack", messages):
            super()._ack_all(messages)


class TracedBlockingSubscription(subscription.Subscription):
    """A subscription whose callback runs in a span."""

    def __init__(
        self, bridge: Bridge, inner: core.Subscription, callback: subscription.Callback | None
    ) -> None:
        if callback is not None:
            callback = tracing_of(bridge.connection).handler(callback, inner.queue)
        super().__init__(bridge, inner, callback)


class TracedBlockingPushSubscription(push_subscription.PushSubscription):
    """The same for a push consumer."""

    def __init__(
        self, bridge: Bridge, inner: core.Subscription, callback: subscription.Callback | None
    ) -> None:
        if callback is not None:
            callback = tracing_of(bridge.connection).handler(callback)
        super().__init__(bridge, inner, callback)


class TracedBlockingConsuming(iterate.Consuming):
    """A consume whose handler runs in a span."""

    def __init__(
        self, bridge: Bridge, inner: aio.Messages, handler: iterate.Handler, concurrency: int
    ) -> None:
        super().__init__(bridge, inner, tracing_of(bridge.connection).handler(handler), concurrency)


#: The classes of an instrumented blocking connection, by those that others have.
CLASSES: Final[dict[object, object]] = {
    connection.Connection: TracedBlockingConnection,
    publisher.Publisher: TracedBlockingPublisher,
    message.Msg: TracedBlockingMsg,
    message.JetStreamMsg: TracedBlockingJetStreamMsg,
    subscription.Subscription: TracedBlockingSubscription,
    push_subscription.PushSubscription: TracedBlockingPushSubscription,
    iterate.Consuming: TracedBlockingConsuming,
}
