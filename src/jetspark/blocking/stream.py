"""A stream, as blocking programs see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from jetspark.blocking.consumer import Consumer, OrderedConsumer
from jetspark.blocking.mirror import mirrors
from jetspark.blocking.threads.supply import iterate
from jetspark.jetstream.manage import stream as aio
from jetspark.jetstream.manage.consumers import OrderedKeywords
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo, StreamInfo
from jetspark.jetstream.model.stream import Placement, StreamConfig

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["Stream"]


@mirrors(aio.Stream)
class Stream:
    def __init__(self, bridge: Bridge, inner: aio.Stream) -> None:
        self._bridge = bridge
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def config(self) -> StreamConfig:
        return self._inner.config

    @property
    def cached_info(self) -> StreamInfo:
        return self._inner.cached_info

    def __repr__(self) -> str:
        return repr(self._inner)

    # --- the stream itself

    def info(self, *, deleted_details: bool = False, subjects_filter: str | None = None) -> StreamInfo:
        return self._bridge.run(
            self._inner.info(deleted_details=deleted_details, subjects_filter=subjects_filter)
        )

    def update(self, config: StreamConfig) -> StreamInfo:
        return self._bridge.run(self._inner.update(config))

    def delete(self) -> None:
        self._bridge.run(self._inner.delete())

    def purge(
        self, *, subject: str | None = None, sequence: int | None = None, keep: int | None = None
    ) -> int:
        return self._bridge.run(self._inner.purge(subject=subject, sequence=sequence, keep=keep))

    def seal(self) -> StreamInfo:
        return self._bridge.run(self._inner.seal())

    def stepdown_leader(self, *, placement: Placement | None = None) -> None:
        self._bridge.run(self._inner.stepdown_leader(placement=placement))

    # --- messages

    def get_message(self, sequence: int) -> StoredMessage:
        return self._bridge.run(self._inner.get_message(sequence))

    def get_last_message(self, subject: str) -> StoredMessage:
        return self._bridge.run(self._inner.get_last_message(subject))

    def get_next_message(self, subject: str, *, sequence: int = 1) -> StoredMessage:
        return self._bridge.run(self._inner.get_next_message(subject, sequence=sequence))

    def get_messages(
        self,
        sequence: int | None = None,
        *,
        subject: str | None = None,
        start_time: datetime | None = None,
        batch: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[StoredMessage]:
        return iterate(
            self._bridge.portal,
            self._inner.get_messages(
                sequence, subject=subject, start_time=start_time, batch=batch, max_bytes=max_bytes
            ),
        )

    def get_last_messages(
        self,
        subjects: str | Iterable[str],
        *,
        up_to_sequence: int | None = None,
        up_to_time: datetime | None = None,
        batch: int | None = None,
    ) -> Iterator[StoredMessage]:
        return iterate(
            self._bridge.portal,
            self._inner.get_last_messages(
                subjects, up_to_sequence=up_to_sequence, up_to_time=up_to_time, batch=batch
            ),
        )

    def delete_message(self, sequence: int) -> None:
        self._bridge.run(self._inner.delete_message(sequence))

    def secure_delete_message(self, sequence: int) -> None:
        self._bridge.run(self._inner.secure_delete_message(sequence))

    # --- consumers

    def create_consumer(self, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.create_consumer(config)))

    def update_consumer(self, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.update_consumer(config)))

    def create_or_update_consumer(self, config: ConsumerConfig) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.create_or_update_consumer(config)))

    def get_consumer(self, name: str) -> Consumer:
        return Consumer(self._bridge, self._bridge.run(self._inner.get_consumer(name)))

    def delete_consumer(self, name: str) -> None:
        self._bridge.run(self._inner.delete_consumer(name))

    def consumers(self) -> Iterator[ConsumerInfo]:
        return iterate(self._bridge.portal, self._inner.consumers())

    def consumer_names(self) -> Iterator[str]:
        return iterate(self._bridge.portal, self._inner.consumer_names())

    def ordered_consumer(self, **options: Unpack[OrderedKeywords]) -> OrderedConsumer:
        return OrderedConsumer(self._bridge, self._bridge.run(self._inner.ordered_consumer(**options)))
