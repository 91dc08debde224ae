"""The classes that an instrumented connection and its objects have. Each makes spans, then does as its base.

`CLASSES` says which takes the place of which; `Connection.class_of` in `core/connection.py` reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from opentelemetry.trace import Link

from jetspark import client
from jetspark.core import subscription
from jetspark.core.message import Msg
from jetspark.jetstream import context
from jetspark.jetstream.message import delivered
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.ordered import push as ordered
from jetspark.jetstream.publish import atomic, publisher
from jetspark.jetstream.publish.headers import Expectations
from jetspark.jetstream.pull import iterate
from jetspark.jetstream.pull.buffer import PullBuffer
from jetspark.jetstream.push import subscription as push
from jetspark.otel.context import with_context
from jetspark.otel.spans import Tracing
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["CLASSES", "TracedConnection", "settlement", "tracing_of"]

#: The names of acknowledgements in spans, by their first bytes.
_SETTLEMENTS: Final = {delivered.ACK: "ack", delivered.NAK: "nak", delivered.TERM: "term"}


def tracing_of(connection: Connection) -> Tracing:
    """The tracing of an instrumented connection."""
    return cast(TracedConnection, connection).tracing


def settlement(body: bytes) -> str:
    """The name of an acknowledgement."""
    return _SETTLEMENTS[body.split(b" ")[0]]


class TracedConnection(client.Connection):
    """A connection whose messages are traced."""

    tracing: Tracing

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> Awaitable[None]:
        with self.tracing.sending("publish", subject, data):
            return super().publish(subject, data, reply=reply, headers=with_context(headers))

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Msg:
        with self.tracing.sending("request", subject, data):
            return await super().request(subject, data, timeout=timeout, headers=with_context(headers))


class TracedJetStream(context.JetStream):
    """JetStream through a connection whose messages are traced."""

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **options: Any,
    ) -> PubAck:
        tracing = tracing_of(self.connection)
        with tracing.sending("publish", subject, data, msg_id) as span:
            ack = await super().publish(
                subject, data, headers=with_context(headers), msg_id=msg_id, **options
            )
            tracing.stored(span, ack)
            return ack

    async def increment(
        self, subject: str, by: int = 1, *, headers: HeadersLike | None = None, **options: Any
    ) -> int:
        with tracing_of(self.connection).sending("publish", subject, b"", options.get("msg_id")):
            return await super().increment(subject, by, headers=with_context(headers), **options)


class TracedPublisher(publisher.Publisher):
    """A publisher whose messages each have a span, which ends with the acknowledgement."""

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> asyncio.Future[PubAck]:
        tracing = tracing_of(self._connection)
        with tracing.sending("publish", subject, data, msg_id, ends=False) as span:
            carried = with_context(headers)
            if carried is None and msg_id is None and not expectations:
                future = super()._publish_plain(subject, data)
            else:
                future = super().publish(subject, data, headers=carried, msg_id=msg_id, **expectations)
        future.add_done_callback(lambda done: tracing.answered(span, done))
        return future

    def _publish_plain(self, subject: str, data: bytes) -> asyncio.Future[PubAck]:
        return self.publish(subject, data)


class TracedAtomicBatch(atomic.AtomicBatch):
    """A batch: a span for each message that is added, and one for the commit, with links to them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._links: list[Link] = []

    def add(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> None:
        tracing = tracing_of(self._api.connection)
        with tracing.sending("create", subject, data, msg_id, kind="create") as span:
            super().add(subject, data, headers=with_context(headers), msg_id=msg_id, **expectations)
        self._links.append(Link(span.get_span_context()))

    async def commit(self) -> PubAck:
        tracing = tracing_of(self._api.connection)
        subject = self._messages[0].subject if self._messages else ""
        with tracing.sending_batch(subject, len(self), self._links) as span:
            ack = await super().commit()
            tracing.stored(span, ack)
            return ack


class TracedJetStreamMsg(delivered.JetStreamMsg, gc=False, eq=False):
    """A message whose acknowledgement has a span."""

    def ack(self) -> Awaitable[None]:
        return self._settle(delivered.ACK)

    async def ack_sync(self, timeout: float | None = None) -> None:
        if not self._settled:
            with tracing_of(self._connection).settling("ack", [self]):
                await super().ack_sync(timeout)

    async def ack_next(self, expires: float = 5.0) -> delivered.JetStreamMsg | None:
        if self._settled:
            return None
        with tracing_of(self._connection).settling("ack", [self]):
            return await super().ack_next(expires)

    def _settle(self, kind: bytes) -> Awaitable[None]:
        if self._settled:
            return super()._settle(kind)
        with tracing_of(self._connection).settling(settlement(kind), [self]):
            return super()._settle(kind)

    def _ack_all(self, messages: Sequence[delivered.JetStreamMsg]) -> Awaitable[None]:
        with tracing_of(self._connection).settling("ack", messages):
            return super()._ack_all(messages)


class TracedSubscription(subscription.Subscription):
    """A subscription whose callback runs in a span."""

    def __init__(
        self,
        connection: Connection,
        sid: bytes,
        subject: bytes,
        queue: bytes,
        *,
        callback: subscription.Callback | None,
        **limits: Any,
    ) -> None:
        if callback is not None:
            callback = tracing_of(connection).async_handler(callback, queue.decode())
        super().__init__(connection, sid, subject, queue, callback=callback, **limits)


class TracedPushSubscription(push.PushSubscription):
    """The same for a push consumer."""

    def _start(self) -> None:
        if self._callback is not None:
            self._callback = tracing_of(self._connection).async_handler(self._callback)
        super()._start()


class TracedOrderedSubscription(TracedPushSubscription, ordered.OrderedSubscription):
    """The same in order."""


class TracedConsuming(iterate.Consuming):
    """A consume whose handler runs in a span."""

    def __init__(self, buffer: PullBuffer, handler: iterate.Handler, concurrency: int) -> None:
        tracing = tracing_of(buffer.target.connection)
        super().__init__(buffer, tracing.async_handler(handler), concurrency)


#: The classes of an instrumented connection, by those that others have.
CLASSES: Final[dict[object, object]] = {
    client.Connection: TracedConnection,
    context.JetStream: TracedJetStream,
    publisher.Publisher: TracedPublisher,
    atomic.AtomicBatch: TracedAtomicBatch,
    delivered.JetStreamMsg: TracedJetStreamMsg,
    subscription.Subscription: TracedSubscription,
    push.PushSubscription: TracedPushSubscription,
    ordered.OrderedSubscription: TracedOrderedSubscription,
    iterate.Consuming: TracedConsuming,
}
