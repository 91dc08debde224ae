"""A stream, as blocking programs see it. Twin of `jetstream/stream.py`."""

from __future__ import annotations

from jetspark.blocking.consumer import Consumer
from jetspark.blocking.mirror import Twin, calls, iterates, mirrors
from jetspark.blocking.ordered import OrderedConsumer
from jetspark.jetstream import stream as aio
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import StreamConfig

__all__ = ["Stream"]


@mirrors(aio.Stream)
class Stream(Twin[aio.Stream]):
    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def config(self) -> StreamConfig:
        return self._inner.config

    @property
    def cached_info(self) -> StreamInfo:
        return self._inner.cached_info

    # --- the stream itself

    info = calls(aio.Stream.info)
    update = calls(aio.Stream.update)
    delete = calls(aio.Stream.delete)
    purge = calls(aio.Stream.purge)
    seal = calls(aio.Stream.seal)
    stepdown_leader = calls(aio.Stream.stepdown_leader)

    # --- messages

    get_message = calls(aio.Stream.get_message)
    get_last_message = calls(aio.Stream.get_last_message)
    counter_value = calls(aio.Stream.counter_value)
    backup = calls(aio.Stream.backup)
    get_next_message = calls(aio.Stream.get_next_message)
    get_messages = iterates(aio.Stream.get_messages)
    get_last_messages = iterates(aio.Stream.get_last_messages)
    delete_message = calls(aio.Stream.delete_message)
    secure_delete_message = calls(aio.Stream.secure_delete_message)

    # --- consumers

    create_consumer = calls(aio.Stream.create_consumer, Consumer)
    update_consumer = calls(aio.Stream.update_consumer, Consumer)
    create_or_update_consumer = calls(aio.Stream.create_or_update_consumer, Consumer)
    get_consumer = calls(aio.Stream.get_consumer, Consumer)
    delete_consumer = calls(aio.Stream.delete_consumer)
    consumers = iterates(aio.Stream.consumers)
    consumer_names = iterates(aio.Stream.consumer_names)
    ordered_consumer = calls(aio.Stream.ordered_consumer, OrderedConsumer)
