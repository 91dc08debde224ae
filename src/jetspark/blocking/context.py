"""The JetStream context, as blocking programs see it. Twin of `jetstream/context.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetspark.blocking.advisories import Advisories
from jetspark.blocking.atomic import AtomicBatch
from jetspark.blocking.consumer import Consumer
from jetspark.blocking.iterate import Handler
from jetspark.blocking.kv import KeyValue
from jetspark.blocking.mirror import Twin, calls, iterates, makes, mirrors
from jetspark.blocking.objects import ObjectStore
from jetspark.blocking.ordered import OrderedConsumer
from jetspark.blocking.publisher import Publisher
from jetspark.blocking.pull_subscription import PullSubscription
from jetspark.blocking.push_subscription import PushSubscription
from jetspark.blocking.stream import Stream
from jetspark.jetstream import context as aio
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.push.options import PushKeywords

if TYPE_CHECKING:
    from jetspark.blocking.connection import Connection
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["JetStream"]


@mirrors(aio.JetStream)
class JetStream(Twin[aio.JetStream]):
    def __init__(self, connection: Connection, bridge: Bridge, inner: aio.JetStream) -> None:
        super().__init__(bridge, inner)
        self._connection = connection

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def timeout(self) -> float:
        return self._inner.timeout

    # --- publishing

    publish = calls(aio.JetStream.publish)
    increment = calls(aio.JetStream.increment)
    atomic_batch = makes(aio.JetStream.atomic_batch, AtomicBatch)
    publisher = makes(aio.JetStream.publisher, Publisher, in_loop=True)

    # --- streams

    create_stream = calls(aio.JetStream.create_stream, Stream)
    update_stream = calls(aio.JetStream.update_stream, Stream)
    create_or_update_stream = calls(aio.JetStream.create_or_update_stream, Stream)
    get_stream = calls(aio.JetStream.get_stream, Stream)
    restore_stream = calls(aio.JetStream.restore_stream, Stream)
    delete_stream = calls(aio.JetStream.delete_stream)
    streams = iterates(aio.JetStream.streams)
    stream_names = iterates(aio.JetStream.stream_names)
    stepdown_stream_leader = calls(aio.JetStream.stepdown_stream_leader)
    account_info = calls(aio.JetStream.account_info)

    # --- consumers

    create_consumer = calls(aio.JetStream.create_consumer, Consumer)
    update_consumer = calls(aio.JetStream.update_consumer, Consumer)
    create_or_update_consumer = calls(aio.JetStream.create_or_update_consumer, Consumer)
    get_consumer = calls(aio.JetStream.get_consumer, Consumer)
    consumer_info = calls(aio.JetStream.consumer_info)
    delete_consumer = calls(aio.JetStream.delete_consumer)
    consumers = iterates(aio.JetStream.consumers)
    consumer_names = iterates(aio.JetStream.consumer_names)
    pause_consumer = calls(aio.JetStream.pause_consumer)
    resume_consumer = calls(aio.JetStream.resume_consumer)
    reset_consumer = calls(aio.JetStream.reset_consumer)
    unpin_consumer = calls(aio.JetStream.unpin_consumer)
    stepdown_consumer_leader = calls(aio.JetStream.stepdown_consumer_leader)
    ordered_consumer = calls(aio.JetStream.ordered_consumer, OrderedConsumer)

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
        kind = self._bridge.connection.class_of(PushSubscription)
        return kind.open(self._bridge, subscribing, callback)  # type: ignore[arg-type]

    pull_subscribe = calls(aio.JetStream.pull_subscribe, PullSubscription)

    # --- key-value buckets

    key_value = calls(aio.JetStream.key_value, KeyValue)
    create_key_value = calls(aio.JetStream.create_key_value, KeyValue)
    update_key_value = calls(aio.JetStream.update_key_value, KeyValue)
    create_or_update_key_value = calls(aio.JetStream.create_or_update_key_value, KeyValue)
    delete_key_value = calls(aio.JetStream.delete_key_value)
    key_values = iterates(aio.JetStream.key_values)
    key_value_names = iterates(aio.JetStream.key_value_names)

    # --- object stores

    object_store = calls(aio.JetStream.object_store, ObjectStore)
    create_object_store = calls(aio.JetStream.create_object_store, ObjectStore)
    update_object_store = calls(aio.JetStream.update_object_store, ObjectStore)
    delete_object_store = calls(aio.JetStream.delete_object_store)
    object_stores = iterates(aio.JetStream.object_stores)
    object_store_names = iterates(aio.JetStream.object_store_names)

    # --- advisories

    advisories = makes(aio.JetStream.advisories, Advisories)
    create_advisory_stream = calls(aio.JetStream.create_advisory_stream, Stream)
    dead_letters = iterates(aio.JetStream.dead_letters, ahead=0)
    replay_dead_letter = calls(aio.JetStream.replay_dead_letter)
    purge_dead_letters = calls(aio.JetStream.purge_dead_letters)
