"""A push subscription: the public class, and the life of the consumer behind it.

`subscribe/workflow.py` finds or creates the consumer, and `reader.py` reads its messages. Here are missed
heartbeats, reconnects, and the end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from jetspark.errors import ConsumerDeleted, Error, MissedHeartbeat
from jetspark.jetstream.api import API
from jetspark.jetstream.heartbeat import HeartbeatMonitor
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.manage.ownership import Ownership
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.message.delivered import give_back
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.pull.iterate import Handler
from jetspark.jetstream.push.gaps import Gaps
from jetspark.jetstream.push.options import PushOptions
from jetspark.jetstream.push.reader import PushReader
from jetspark.wire import MsgFrame
from jetspark.wire.subjects import check_filter, check_queue

__all__ = ["PushSubscription"]

#: ADR-15: heartbeats that may be missed before an error is reported.
_MISSED: Final = 3
#: Seconds without a message after which a consumer without heartbeats is looked for.
_LOOK_AFTER: Final = 60.0
_DELETED_HINT: Final = "Subscribe again; an ephemeral consumer is deleted after inactive_threshold (5 s)"


class PushSubscription(PushReader):
    """Made by `js.subscribe`. Read it with `next()` or `async for`, unless it has a callback."""

    _silence_hint = "The consumer has no leader or was deleted, or the network loses messages"

    def __init__(
        self, api: API, stream: str, config: ConsumerConfig, *, callback: Handler | None, options: PushOptions
    ) -> None:
        super().__init__(api.connection, stream, config, callback=callback, options=options)
        self._api = api
        self._ownership: Ownership | None = None
        # Drained, with unread messages: the consumer is deleted when they are read.
        self._delete_at_end = False
        self._looking: asyncio.Task[None] | None = None

    # --- properties

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._stream

    @property
    def consumer_name(self) -> str:
        """Name of the consumer behind it."""
        return self._name

    async def consumer_info(self) -> ConsumerInfo:
        """The state of the consumer. Raises `ConsumerNotFound`."""
        return await consumers.info(self._api, self._stream, self._name)

    def __repr__(self) -> str:
        return f"<PushSubscription {self._stream} > {self._name}>"

    # --- missed heartbeats

    def _on_missed_heartbeat(self, allowed: float) -> None:
        message = f"{self._name} of {self._stream} was silent for {allowed:g} s"
        self.notify(MissedHeartbeat(message, hint=self._silence_hint))
        self._look()

    def _look(self) -> None:
        """Check in the background whether the consumer still exists."""
        if not self._closed and self._name and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_for_consumer())

    async def _look_for_consumer(self) -> None:
        presence = Presence(self._api, self._stream, self._name, hint=_DELETED_HINT)
        error = await presence.deletion()
        if error is not None:
            self._on_deleted(error)

    def _on_deleted(self, error: ConsumerDeleted) -> None:
        """Report it. A durable may be created again; with an ephemeral one the subscription ends."""
        if self._ownership is not None and self._ownership.ends_with_us:
            self._ownership.forget()
            self._finish(error)
        else:
            self.notify(error)

    # --- for the session

    def disconnected(self) -> None:
        """Flow control answers in flight are lost."""
        self._flow.forget()

    def reconnected(self) -> None:
        """Look for the consumer: the server deletes an ephemeral one soon after the connection is lost."""
        if self._heartbeat is not None:
            self._heartbeat.seen()
        self._look()

    def closed(self, error: Error | None) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._looking is not None:
            self._looking.cancel()
        super().closed(error)

    # --- ending

    async def unsubscribe(self) -> None:
        """Stop at once, then delete the consumer if this subscription created it, unless `keep_consumer`.

        Queued messages can still be read. A callback is not called again, and its queued messages go back to
        the server. The consumer of a queue stays: other members may use it. Raises what deleting raises.
        """
        unread = list(self._pending) if self._task is not None else []
        await super().unsubscribe()
        self.give_back(unread)
        if self._ownership is not None:
            await self._ownership.delete()

    async def drain(self) -> None:
        """Stop without loss: hand out messages in flight, then delete the consumer as `unsubscribe` does.

        Returns when everything has arrived and a callback has handled it. Without a callback the consumer is
        deleted after the last message is read. Errors of deleting go to the error callback.
        Raises `Timeout` after the connection's `drain_timeout`; then the consumer stays.
        """
        if self._closed:
            return
        await super().drain()
        if self._task is None and (self._pending or self._lent):
            self._delete_at_end = True
        elif self._ownership is not None:
            await self._ownership.delete_quietly()

    async def _at_end(self) -> None:
        """The reader has read and handled everything: nothing is acknowledged after this."""
        if self._delete_at_end and self._ownership is not None:
            self._delete_at_end = False
            await self._ownership.delete_quietly()

    def give_back(self, frames: list[MsgFrame]) -> None:
        """Return unhandled messages to the server, for redelivery."""
        give_back(self._connection, self._config.ack_policy, frames)

    # --- for the subscribe workflow

    def begin(self, deliver_subject: str, queue: str) -> None:
        """Subscribe to the deliver subject: before the consumer is created, so that it finds interest."""
        session = self._connection.session
        if self.sid:
            self._leave()
        self.sid = session.new_sid()
        self.subject_filter = check_filter(deliver_subject)
        self.queue_group = check_queue(queue) if queue else b""
        session.add(self)

    def bind(self, info: ConsumerInfo, *, created: bool) -> None:
        """The consumer exists. Subscribe again if it delivers to another subject."""
        self._name = info.name
        self.names = self._api.names_in_replies(self._stream, info.name)
        self._take_config(info.config)
        if not created:
            self._gaps = Gaps(None)
        if (info.config.deliver_subject or "") != self.subject:
            self.begin(info.config.deliver_subject or "", info.config.deliver_group or "")
        self._ownership = Ownership(
            self._api, info, created=created, keep=self._options.keep_consumer, notify=self.notify
        )
        self._watch()
        self._start()

    def _watch(self) -> None:
        if self._closed:
            return
        heartbeat = self._config.idle_heartbeat
        # A queue has no heartbeats: when it is quiet, only a lookup shows whether its consumer still exists.
        self._heartbeat = HeartbeatMonitor(
            self._options.alarm_after or (_MISSED * heartbeat if heartbeat else _LOOK_AFTER),
            _MISSED,
            is_expected=lambda: self._connection.session.attached,
            on_missed=self._on_missed_heartbeat if heartbeat else lambda _: self._look(),
        )
        self._heartbeat.start()

    def abandon(self) -> None:
        """Subscribing failed."""
        self._leave()
        self.closed(None)
