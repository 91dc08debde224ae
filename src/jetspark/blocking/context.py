"""The JetStream context, as blocking programs see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Unpack

from jetspark.blocking.advisory import Advisories
from jetspark.blocking.consumer import Consumer, OrderedConsumer
from jetspark.blocking.consuming import Handler
from jetspark.blocking.mirror import mirrors
from jetspark.blocking.publisher import AtomicBatch, Publisher
from jetspark.blocking.pull_subscribe import PullSubscription
from jetspark.blocking.push import PushSubscription
from jetspark.blocking.stream import Stream
from jetspark.blocking.threads.supply import iterate
from jetspark.jetstream import context as aio
from jetspark.jetstream.dead_letters import DeadLetter
from jetspark.jetstream.manage.consumers import OrderedKeywords
from jetspark.jetstream.model.advisories import Advisory
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import AccountInfo, ConsumerInfo, StreamInfo
from jetspark.jetstream.model.requests import PauseResponse, PubAck, ResetResponse
from jetspark.jetstream.model.stream import Placement, StreamConfig
from jetspark.jetstream.publish.publisher import MAX_BUFFERED_BYTES
from jetspark.jetstream.push.options import PushKeywords
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.blocking.connection import Connection
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["JetStream"]


@mirrors(aio.JetStream)
class JetStream:
    def __init__(self, connection: Connection, bridge: Bridge, inner: aio.JetStream) -> None:
        self._connection = connection
        self._bridge = bridge
        self._inner = inner

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def timeout(self) -> float:
        return self._inner.timeout

    def __repr__(self) -> str:
        return repr(self._inner)

    # --- publishing

    def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_sequence: int | None = None,
        expected_last_subject_sequence: int | None = None,
        expected_last_subject_sequence_subject: str | None = None,
        expected_last_msg_id: str | None = None,
        ttl: float | Literal["never"] | None = None,
        timeout: float | None = None,
        retry_for: float = 15.0,
    ) -> PubAck:
        return self._bridge.run(
            self._inner.publish(
                subject,
                data,
                headers=headers,
                msg_id=msg_id,
                expected_stream=expected_stream,
                expected_last_sequence=expected_last_sequence,
                expected_last_subject_sequence=expected_last_subject_sequence,
                expected_last_subject_sequence_subject=expected_last_subject_sequence_subject,
                expected_last_msg_id=expected_last_msg_id,
                ttl=ttl,
                timeout=timeout,
                retry_for=retry_for,
            )
        )

    def publisher(
        self,
        max_pending: int = 4096,
        *,
        timeout: float = 30.0,
        ack_timeout: float = 5.0,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> Publisher:
        inner = self._bridge.portal.call(
            self._inner.publisher,
            max_pending,
            timeout=timeout,
            ack_timeout=ack_timeout,
            max_buffered_bytes=max_buffered_bytes,
        )
        return Publisher(self._bridge, inner)

    def atomic_batch(self, *, timeout: float | None = None, retry_for: float = 15.0) -> AtomicBatch:
        return AtomicBatch(self._bridge, self._inner.atomic_batch(timeout=timeout, retry_for=retry_for))

    # --- streams

    def create_stream(self, config: StreamConfig) -> Stream:
        return Stream(self._bridge, self._bridge.run(self._inner.create_stream(config)))

    def update_stream(self, config: StreamConfig) -> Stream:
        return Stream(self._bridge, self._bridge.run(self._inner.update_stream(config)))

    def create_or_update_stream(self, config: StreamConfig) -> Stream:
        return Stream(self._bridge, self._bridge.run(self._inner.create_or_update_stream(config)))

    def get_stream(self, name: str) -> Stream:
        return Stream(self._bridge, self._bridge.run(self._inner.get_stream(name)))

    def delete_stream(self, name: str) -> None:
        self._bridge.run(self._inner.delete_stream(name))

    def streams(self, subject: str | None = None) -> Iterator[StreamInfo]:
        return iterate(self._bridge.portal, self._inner.streams(subject))

    def stream_names(self, subject: str | None = None) -> Iterator[str]:
        return iterate(self._bridge.portal, self._inner.stream_names(subject))

    def stepdown_stream_leader(self, name: str, *, placement: Placement | None = None) -> None:
        self._bridge.run(self._inner.stepdown_stream_leader(name, placement=placement))

    def account_info(self) -> AccountInfo:
        return self._bridge.run(self._inner.account_info())

    # --- consumers

    def create_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.create_consumer(stream, config)))

    def update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.update_consumer(stream, config)))

    def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.create_or_update_consumer(stream, config)))

    def get_consumer(self, stream: str, name: str) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.get_consumer(stream, name)))

    def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        return self._bridge.run(self._inner.consumer_info(stream, name))

    def delete_consumer(self, stream: str, name: str) -> None:
        self._bridge.run(self._inner.delete_consumer(stream, name))

    def consumers(self, stream: str) -> Iterator[ConsumerInfo]:
        return iterate(self._bridge.portal, self._inner.consumers(stream))

    def consumer_names(self, stream: str) -> Iterator[str]:
        return iterate(self._bridge.portal, self._inner.consumer_names(stream))

    def pause_consumer(self, stream: str, name: str, until: datetime | float) -> PauseResponse:
        return self._bridge.run(self._inner.pause_consumer(stream, name, until))

    def resume_consumer(self, stream: str, name: str) -> PauseResponse:
        return self._bridge.run(self._inner.resume_consumer(stream, name))

    def reset_consumer(self, stream: str, name: str, sequence: int | None = None) -> ResetResponse:
        return self._bridge.run(self._inner.reset_consumer(stream, name, sequence))

    def unpin_consumer(self, stream: str, name: str, group: str) -> None:
        self._bridge.run(self._inner.unpin_consumer(stream, name, group))

    def stepdown_consumer_leader(self, stream: str, name: str, *, placement: Placement | None = None) -> None:
        self._bridge.run(self._inner.stepdown_consumer_leader(stream, name, placement=placement))

    def ordered_consumer(self, stream: str, **options: Unpack[OrderedKeywords]) -> OrderedConsumer:
        return OrderedConsumer(
            self._bridge, self._bridge.run(self._inner.ordered_consumer(stream, **options))
        )

    # --- subscribing

    def subscribe(
        self,
        subject: str = "",
        queue: str = "",
        *,
        callback: Handler | None = None,
        durable: str | None = None,
        stream: str | None = None,
        consumer: str | None = None,
        config: ConsumerConfig | None = None,
        ordered: bool = False,
        idle_heartbeat: float | None = None,
        flow_control: bool = False,
        **options: Unpack[PushKeywords],
    ) -> PushSubscription:
        if (on_error := options.get("on_error")) is not None:
            options["on_error"] = self._bridge.aside("on_error", on_error)
        subscribing = self._inner.subscribe(
            subject,
            queue,
            durable=durable,
            stream=stream,
            consumer=consumer,
            config=config,
            ordered=ordered,
            idle_heartbeat=idle_heartbeat,
            flow_control=flow_control,
            **options,
        )
        return PushSubscription.open(self._bridge, subscribing, callback)  # type: ignore[arg-type]

    def pull_subscribe(
        self,
        subject: str = "",
        durable: str | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
        config: ConsumerConfig | None = None,
    ) -> PullSubscription:
        inner = self._inner.pull_subscribe(subject, durable, stream=stream, consumer=consumer, config=config)
        return PullSubscription(self._bridge, self._bridge.run(inner))

    # --- advisories

    def advisories(
        self,
        kinds: Iterable[str | type[Advisory]] | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
    ) -> Advisories:
        inner = self._inner.advisories(kinds, stream=stream, consumer=consumer)
        return Advisories(self._bridge, inner)

    def create_advisory_stream(
        self, name: str = "ADVISORIES", *, max_age: float = aio.WEEK, num_replicas: int | None = None
    ) -> Stream:
        return Stream(
            self._bridge,
            self._bridge.run(
                self._inner.create_advisory_stream(name, max_age=max_age, num_replicas=num_replicas)
            ),
        )

    def dead_letters(
        self, stream: str, consumer: str, *, since: datetime | None = None, follow: bool = False
    ) -> Iterator[DeadLetter]:
        return iterate(
            self._bridge.portal, self._inner.dead_letters(stream, consumer, since=since, follow=follow)
        )
