"""The JetStream context: the entry to JetStream for one account and one connection.

It manages streams and consumers, publishes, subscribes and reads. The methods delegate to `manage/`,
`publish/`, `subscribe/`, `kv/`, `objects/` and `advisories.py`; they are documented here.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, Unpack

from jetspark.jetstream import api as endpoints
from jetspark.jetstream.advisories import CAPTURED_SUBJECT, Advisories, advisory_subjects
from jetspark.jetstream.api import API
from jetspark.jetstream.backup import restore
from jetspark.jetstream.consumer import Consumer, described
from jetspark.jetstream.counters import increment
from jetspark.jetstream.dead_letters import DeadLetter, dead_letters, purge, replay
from jetspark.jetstream.kv import buckets
from jetspark.jetstream.kv.codecs import KeyCodec
from jetspark.jetstream.kv.config import KeyValueConfig
from jetspark.jetstream.kv.status import KeyValueStatus
from jetspark.jetstream.kv.store import KeyValue
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.model.advisories import Advisory
from jetspark.jetstream.model.consumer import ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.model.info import AccountInfo, ConsumerInfo, StreamInfo
from jetspark.jetstream.model.requests import PauseResponse, PubAck, ResetResponse
from jetspark.jetstream.model.stream import Placement, StreamConfig
from jetspark.jetstream.objects import stores
from jetspark.jetstream.objects.config import ObjectStoreConfig
from jetspark.jetstream.objects.status import ObjectStoreStatus
from jetspark.jetstream.objects.store import ObjectStore
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.publish.atomic import AtomicBatch
from jetspark.jetstream.publish.one import publish
from jetspark.jetstream.publish.publisher import MAX_BUFFERED_BYTES, Publisher
from jetspark.jetstream.push.options import PushKeywords, PushOptions
from jetspark.jetstream.push.subscription import PushSubscription
from jetspark.jetstream.stream import Stream
from jetspark.jetstream.subscribe.pull import PullSubscription
from jetspark.jetstream.subscribe.rules import ask
from jetspark.jetstream.subscribe.workflow import pull_subscribe, subscribe, subscribe_ordered
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.core.connection import Connection
    from jetspark.jetstream.pull.iterate import Handler

__all__ = ["JetStream"]

WEEK: Final = 7 * 24 * 3600.0


class JetStream:
    """JetStream through a connection. Made by `Connection.jetstream`, which has the same options.

    All methods that ask the server raise `APIError` or a subclass when the server refuses, `Timeout`,
    `JetStreamNotEnabled` when no server answers, and `PermissionsViolation`. A request that can be repeated
    without a further effect is repeated within `timeout` when its answer does not come; other methods that
    change something raise `ConnectionLost` when it is unknown whether they succeeded.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        domain: str | None = None,
        api_prefix: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._api = API(connection, domain=domain, api_prefix=api_prefix, timeout=timeout)

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._api.connection

    @property
    def api(self) -> API:
        """The subjects of the API and the calls to them."""
        return self._api

    @property
    def timeout(self) -> float:
        """Seconds that a call may take."""
        return self._api.timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._api.prefix} of {self.connection!r}>"

    # --- publishing

    async def publish(
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
        rollup: Literal["sub", "all"] | None = None,
        schedule: datetime | str | None = None,
        schedule_target: str | None = None,
        schedule_ttl: float | Literal["never"] | None = None,
        schedule_source: str | None = None,
        schedule_time_zone: str | None = None,
        schedule_rollup: Literal["sub"] | None = None,
        timeout: float | None = None,
        retry_for: float = 15.0,
    ) -> PubAck:
        """Publish a message and return the acknowledgement of the stream that stored it.

        While there is no leader, as during an election, it is published again for `retry_for` seconds; with
        a `msg_id` also after a timeout and when the connection breaks. Within its `duplicate_window` the
        stream stores one message per id; the acknowledgement says `duplicate` if it was stored before.

        Args:
            subject: The subject to publish to.
            data: The payload.
            headers: Names and values.
            msg_id: Unique id of the message.
            expected_stream: Name of the stream that must store it.
            expected_last_sequence: Sequence that the last message of the stream must have; 0 for none.
            expected_last_subject_sequence: The same for the last message of the subject.
            expected_last_subject_sequence_subject: Another subject for that, or a pattern. Server 2.11.
            expected_last_msg_id: Id that the last message of the stream must have.
            ttl: Seconds that the message lives, or "never". Needs `allow_msg_ttl`. Server 2.11.
            rollup: Replace all earlier messages of the subject ("sub") or of the stream ("all"). Needs
                `allow_rollup_hdrs`.
            schedule: When the stream publishes it to `schedule_target`: a time with a zone, or "@every 5m",
                "@hourly", or six fields of cron, seconds first. Needs `allow_msg_schedules`. Server 2.12 for
                a time, 2.14 for the others.
            schedule_target: Subject, of the same stream, of the scheduled messages.
            schedule_ttl: The `ttl` of the scheduled messages.
            schedule_source: Subject whose last message is published in place of this one. Server 2.14.
            schedule_time_zone: Time zone of the fields of cron, such as "Europe/Berlin". Server 2.14.
            schedule_rollup: "sub": a scheduled message replaces all earlier ones of its subject. Server 2.14.
            timeout: Seconds that one attempt may take; by default the `timeout` of the context.
            retry_for: Seconds during which it is published again.

        Raises `WrongLastSequence` and other `APIError` when the stream refuses the message,
        `NoStreamForSubject`, `NoResponders`, `Timeout`, and without `msg_id` `ConnectionLost`.
        """
        return await publish(
            self._api,
            subject,
            data,
            headers=headers,
            msg_id=msg_id,
            timeout=timeout,
            retry_for=retry_for,
            expected_stream=expected_stream,
            expected_last_sequence=expected_last_sequence,
            expected_last_subject_sequence=expected_last_subject_sequence,
            expected_last_subject_sequence_subject=expected_last_subject_sequence_subject,
            expected_last_msg_id=expected_last_msg_id,
            ttl=ttl,
            rollup=rollup,
            schedule=schedule,
            schedule_target=schedule_target,
            schedule_ttl=schedule_ttl,
            schedule_source=schedule_source,
            schedule_time_zone=schedule_time_zone,
            schedule_rollup=schedule_rollup,
        )

    async def increment(
        self,
        subject: str,
        by: int = 1,
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        timeout: float | None = None,
        retry_for: float = 15.0,
    ) -> int:
        """Add `by`, which may be negative, to the counter of a subject, and return its new value.

        The stream must have `allow_msg_counter`; server 2.12. The increment is repeated as a `publish` with a
        `msg_id` is, and counts once: without an id it gets a generated one. `Stream.counter_value` reads a
        counter. Raises the errors of `publish`.
        """
        return await increment(
            self._api, subject, by, headers=headers, msg_id=msg_id, timeout=timeout, retry_for=retry_for
        )

    def publisher(
        self,
        max_pending: int = 4096,
        *,
        timeout: float = 30.0,
        ack_timeout: float = 5.0,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> Publisher:
        """Publish many messages: `async with` it and `publish` on it. Each is acknowledged or fails.

        Args:
            max_pending: Most messages in flight.
            timeout: Seconds after which a message without acknowledgement fails.
            ack_timeout: Seconds after which it is published again, under the same id.
            max_buffered_bytes: Most bytes that wait behind the messages in flight.
        """
        return self.connection.class_of(Publisher)(
            self._api,
            max_pending,
            timeout=timeout,
            ack_timeout=ack_timeout,
            max_buffered_bytes=max_buffered_bytes,
        )

    def atomic_batch(self, *, timeout: float | None = None, retry_for: float = 15.0) -> AtomicBatch:
        """Messages that a stream stores together or not at all. Needs `allow_atomic`. Server 2.12.

        `async with` it and `add` to it; leaving the context commits. A commit waits `timeout` seconds for
        the answer (by default the `timeout` of the context), and is repeated for `retry_for` seconds while
        there is no leader.
        """
        return self.connection.class_of(AtomicBatch)(self._api, timeout=timeout, retry_for=retry_for)

    # --- streams

    async def create_stream(self, config: StreamConfig) -> Stream:
        """Create a stream; or return the existing one, if its configuration is the same.

        Raises `StreamNameInUse` if its configuration differs, `StreamSubjectOverlap` if another stream stores
        some of its subjects.
        """
        return Stream(self._api, await streams.create(self._api, config))

    async def update_stream(self, config: StreamConfig) -> Stream:
        """Change a stream. Settings that `config` leaves out get their defaults: start from `info.config`.

        Raises `StreamNotFound`.
        """
        return Stream(self._api, await streams.update(self._api, config))

    async def create_or_update_stream(self, config: StreamConfig) -> Stream:
        """Create a stream, or change the existing one to this configuration."""
        return Stream(self._api, await streams.create_or_update(self._api, config))

    async def get_stream(self, name: str) -> Stream:
        """An existing stream. Raises `StreamNotFound`."""
        return Stream(self._api, await streams.info(self._api, name))

    async def restore_stream(
        self,
        directory: str | os.PathLike[str],
        *,
        config: StreamConfig | None = None,
        timeout: float = 60.0,
        progress: Callable[[int], object] | None = None,
    ) -> Stream:
        """Create a stream again from a backup, which `Stream.backup` or the `nats` CLI wrote.

        `config` replaces the configuration in the backup, for other replicas or another cluster; the name
        must be the same. `progress` is called with the bytes so far.

        Raises `UsageError` if the directory holds no backup, `StreamNameInUse` if the stream exists.
        """
        info = await restore(self._api, directory, config=config, timeout=timeout, progress=progress)
        return Stream(self._api, info)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream, its messages and its consumers. Raises `StreamNotFound`."""
        await streams.delete(self._api, name)

    def streams(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        """All streams, or those that store messages of `subject`, which may have wildcards."""
        return streams.infos(self._api, subject)

    def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """The names of all streams, or of those that store messages of `subject`."""
        return streams.names(self._api, subject)

    async def stepdown_stream_leader(self, name: str, *, placement: Placement | None = None) -> None:
        """Make the server that leads a stream hand over to another; `placement` says to which (2.11)."""
        await streams.stepdown(self._api, name, placement)

    async def account_info(self) -> AccountInfo:
        """The usage and the limits of the account."""
        return AccountInfo.from_wire(await self._api.call(endpoints.ACCOUNT_INFO))

    # --- consumers

    async def create_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Create a consumer; or return the existing one, if its configuration is the same.

        Without a name it gets a random one. Raises `ConsumerNameInUse` if the configuration of the existing
        one differs, and `StreamNotFound`.
        """
        return described(self._api, await consumers.create_or_update(self._api, stream, config, "create"))

    async def update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Change a consumer. Settings that `config` leaves out get their defaults: start from `info.config`.

        Raises `ConsumerNotFound`.
        """
        return described(self._api, await consumers.create_or_update(self._api, stream, config, "update"))

    async def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Create a consumer, or change the existing one to this configuration."""
        return described(self._api, await consumers.create_or_update(self._api, stream, config, ""))

    async def get_consumer(self, stream: str, name: str, *, look_up: bool = True) -> Consumer:
        """An existing consumer. Raises `ConsumerNotFound`, `StreamNotFound`.

        With `look_up=False` it sends no request and never asks about the consumer: for accounts that may pull
        and have no right to `CONSUMER.INFO`. Its configuration is not known then: messages are acknowledged
        as with `ack_policy="explicit"`, and a priority group has to be named.
        """
        info = await self.consumer_info(stream, name) if look_up else None
        return Consumer(self._api, stream, name, info)

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        """The configuration and state of a consumer. Raises `ConsumerNotFound`."""
        return await consumers.info(self._api, stream, name)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer. Raises `ConsumerNotFound`."""
        await consumers.delete(self._api, stream, name)

    def consumers(self, stream: str) -> AsyncIterator[ConsumerInfo]:
        """All consumers of a stream."""
        return consumers.infos(self._api, stream)

    def consumer_names(self, stream: str) -> AsyncIterator[str]:
        """The names of all consumers of a stream."""
        return consumers.names(self._api, stream)

    async def pause_consumer(self, stream: str, name: str, until: datetime | float) -> PauseResponse:
        """Pause a consumer until a time, or for so many seconds. Server 2.11."""
        return await consumers.pause(self._api, stream, name, until)

    async def resume_consumer(self, stream: str, name: str) -> PauseResponse:
        """Resume a paused consumer. Server 2.11."""
        return await consumers.pause(self._api, stream, name, None)

    async def reset_consumer(self, stream: str, name: str, sequence: int | None = None) -> ResetResponse:
        """Deliver again from `sequence` on, or everything that is not acknowledged. Server 2.14."""
        return await consumers.reset(self._api, stream, name, sequence)

    async def unpin_consumer(self, stream: str, name: str, group: str) -> None:
        """Let another client be pinned in a priority group. Server 2.11."""
        await consumers.unpin(self._api, stream, name, group)

    async def stepdown_consumer_leader(
        self, stream: str, name: str, *, placement: Placement | None = None
    ) -> None:
        """Make the server that leads a consumer hand over to another; `placement` says to which (2.11)."""
        await consumers.stepdown(self._api, stream, name, placement)

    async def ordered_consumer(
        self,
        stream: str,
        *,
        filter_subjects: Sequence[str] | str = (),
        deliver_policy: DeliverPolicy | str | None = None,
        opt_start_seq: int | None = None,
        opt_start_time: datetime | None = None,
        replay_policy: ReplayPolicy | str = ReplayPolicy.INSTANT,
        headers_only: bool = False,
        inactive_threshold: float = 300.0,
        name_prefix: str | None = None,
    ) -> OrderedConsumer:
        """Read a stream in order and without gaps, across lost consumers, leaders and connections.

        Raises `StreamNotFound`.

        Args:
            stream: Name of the stream.
            filter_subjects: Only messages whose subject matches one of these; by default all.
            deliver_policy: Where it starts (at the first message); not needed with one of the next two.
            opt_start_seq: First sequence; by default `deliver_policy` decides.
            opt_start_time: Earliest time; by default `deliver_policy` decides.
            replay_policy: How fast (instant).
            headers_only: Headers without payloads (False).
            inactive_threshold: Seconds without use until the server deletes the consumer behind it (300).
            name_prefix: Prefix of the names of the consumers behind it; by default a random one.
        """
        consumer = OrderedConsumer(
            self._api,
            stream,
            filter_subjects=filter_subjects,
            deliver_policy=deliver_policy,
            opt_start_seq=opt_start_seq,
            opt_start_time=opt_start_time,
            replay_policy=replay_policy,
            headers_only=headers_only,
            inactive_threshold=inactive_threshold,
            name_prefix=name_prefix,
        )
        await streams.info(self._api, stream)
        return consumer

    # --- subscribing

    async def subscribe(
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
        """Receive the messages of a push consumer: with `next()`, `async for`, or a `callback`.

        A missing consumer is created, and deleted by `unsubscribe()` and `drain()` of the subscription, but a
        durable not by those of the connection; an existing one must match the arguments. docs/subscribe.md
        has the rules.

        Args:
            subject: Subject to read. Finds the stream, if none is given, and filters.
            queue: Share the messages with the members of this group. Names the consumer if nothing else does.
            callback: Called with one message after the other. With asyncio, it may be a coroutine function.
            durable: Name of a consumer that stays without subscribers.
            stream: Name of the stream.
            consumer: Name of an existing consumer.
            config: Further settings of the consumer.
            ordered: Every message once and in order, across failures; without acknowledgements.
            idle_heartbeat: Seconds of silence after which the server sends a heartbeat.
            flow_control: Let the server wait for the reader; with heartbeats, every 5 seconds if not given.
            deliver_policy, headers_only, inactive_threshold: As in `ConsumerConfig`.
            manual_ack: Do not acknowledge a message when the callback returns.
            keep_consumer: Do not delete the consumer at the end, though this subscription created it.
            alarm_after: Seconds without message and heartbeat until `MissedHeartbeat` (three heartbeats);
                without heartbeats, until it looks whether the consumer still exists (60).
            pending_msgs_limit, pending_bytes_limit: The most that may wait for the reader (524,288 messages,
                128 MiB of them); more is dropped.
            on_error: Called with errors that no call can raise; by default the connection's `on_error` is.

        Raises `UsageError` for contradictory arguments, `SubscribeError` or a subclass when the existing
        stream or consumer does not match, `ConsumerNotFound`, `StreamNotFound`.
        """
        chosen = PushOptions(**options)
        asked = ask(
            pull=False,
            subject=subject,
            queue=queue,
            durable=durable,
            stream=stream,
            consumer=consumer,
            config=config,
            idle_heartbeat=idle_heartbeat,
            flow_control=flow_control,
            changes=chosen.changes,
        )
        return await (subscribe_ordered if ordered else subscribe)(self._api, asked, callback, chosen)

    async def pull_subscribe(
        self,
        subject: str = "",
        durable: str | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
        config: ConsumerConfig | None = None,
        keep_consumer: bool = False,
    ) -> PullSubscription:
        """Pull from a consumer with `fetch`, which raises `Timeout` when no message arrives.

        The consumer is found, created and deleted as by `subscribe`, with the same errors; `keep_consumer`
        keeps it. With `consumer` it is assumed to exist, even if it cannot be looked up. New programs may
        prefer `Consumer.fetch`.
        """
        asked = ask(
            pull=True, subject=subject, durable=durable, stream=stream, consumer=consumer, config=config
        )
        return await pull_subscribe(self._api, asked, keep=keep_consumer)

    # --- key-value buckets

    async def key_value(self, bucket: str, *, codec: KeyCodec | None = None) -> KeyValue:
        """An existing key-value bucket. Raises `BucketNotFound`.

        With a `codec`, such as `EscapedKeys()`, other text than valid keys can be used as keys.
        """
        return await buckets.find(self._api, bucket, codec)

    async def create_key_value(self, config: KeyValueConfig, *, codec: KeyCodec | None = None) -> KeyValue:
        """Create a key-value bucket; or return the existing one, if its settings are the same.

        Raises `BucketExists` if they differ. `codec` as for `key_value`.
        """
        return await buckets.create(self._api, config, codec)

    async def update_key_value(self, config: KeyValueConfig, *, codec: KeyCodec | None = None) -> KeyValue:
        """Change a bucket. Settings that `config` leaves out get their defaults. Raises `BucketNotFound`."""
        return await buckets.update(self._api, config, codec)

    async def create_or_update_key_value(
        self, config: KeyValueConfig, *, codec: KeyCodec | None = None
    ) -> KeyValue:
        """Create a bucket, or change the existing one to these settings."""
        return await buckets.create_or_update(self._api, config, codec)

    async def delete_key_value(self, bucket: str) -> None:
        """Delete a bucket and all its keys. Raises `BucketNotFound`."""
        await buckets.delete(self._api, bucket)

    def key_values(self) -> AsyncIterator[KeyValueStatus]:
        """All key-value buckets."""
        return buckets.statuses(self._api)

    def key_value_names(self) -> AsyncIterator[str]:
        """The names of all key-value buckets."""
        return buckets.names(self._api)

    # --- object stores

    async def object_store(self, bucket: str) -> ObjectStore:
        """An existing object store. Raises `BucketNotFound`."""
        return await stores.find(self._api, bucket)

    async def create_object_store(self, config: ObjectStoreConfig) -> ObjectStore:
        """Create an object store; or return the existing one, if its settings are the same.

        Raises `BucketExists` if they differ.
        """
        return await stores.create(self._api, config)

    async def update_object_store(self, config: ObjectStoreConfig) -> ObjectStore:
        """Change a store. Settings that `config` leaves out get their defaults. Raises `BucketNotFound`."""
        return await stores.update(self._api, config)

    async def delete_object_store(self, bucket: str) -> None:
        """Delete an object store and all its objects. Raises `BucketNotFound`."""
        await stores.delete(self._api, bucket)

    def object_stores(self) -> AsyncIterator[ObjectStoreStatus]:
        """All object stores."""
        return stores.statuses(self._api)

    def object_store_names(self) -> AsyncIterator[str]:
        """The names of all object stores."""
        return stores.names(self._api)

    # --- advisories

    def advisories(
        self,
        kinds: Iterable[str | type[Advisory]] | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
    ) -> Advisories:
        """The events of JetStream, as typed objects: `async with` it, then `async for` over it.

        All events; or only `kinds`, by their short names (`max_deliver`, see `ADVISORIES`) or classes; only
        those about `stream` or `consumer`. Events that jetspark does not know are a plain `Advisory`.
        Events that happen while the connection is down are lost.
        """
        return Advisories(self.connection, advisory_subjects(kinds, stream, consumer))

    async def create_advisory_stream(
        self, name: str = "ADVISORIES", *, max_age: float = WEEK, num_replicas: int | None = None
    ) -> Stream:
        """Create a stream that captures all advisories and keeps them for `max_age` seconds.

        With it `dead_letters` finds messages that were given up earlier. The same as `jetspark stream add
        ADVISORIES --subjects '$JS.EVENT.ADVISORY.>' --max-age 7d`; calling it again changes nothing.
        """
        return await self.create_stream(
            StreamConfig(name=name, subjects=[CAPTURED_SUBJECT], max_age=max_age, num_replicas=num_replicas)
        )

    def dead_letters(
        self,
        stream: str,
        consumer: str,
        *,
        since: datetime | None = None,
        follow: bool = False,
        durable: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """The messages that a consumer gave up: delivered `max_deliver` times without success, or terminated.

        They are read from the stream that captures `$JS.EVENT.ADVISORY.>`, from `since` on or from its
        beginning, and each is joined with the message, which stays in its stream. `follow` continues with
        future ones, which need no such stream. Each is returned once.

        A follower that is started again with the same `durable` continues where the last one ended: a durable
        consumer of this name, on the stream with the advisories, keeps the position. A dead letter is done
        when the program asks for the next one; one that is not done is returned again. `since` then counts
        for the first start only. Use a name for each consumer whose dead letters are followed.

        Raises `UsageError` if there is no such stream, without `follow` and with `durable`;
        `create_advisory_stream` makes it. Raises `ConsumerMismatch` if `durable` names another consumer.
        """
        return dead_letters(self._api, stream, consumer, since=since, follow=follow, durable=durable)

    async def replay_dead_letter(
        self, letter: DeadLetter, *, to: str | None = None, again: bool = False
    ) -> PubAck:
        """Publish a dead letter again, to its subject or to another one.

        It has the data and the headers of the message, except those that command the server or were added
        by it, and the header `Jetspark-Replayed-From` with the stream and sequence of the original, which
        stays. A second replay within the duplicate window of the stream is dropped. A message that is a
        replay itself is refused, so that no loop arises when it fails each time; `again` replays it
        nevertheless.

        Raises `UsageError` for such a message and for one that no longer exists, and the errors of `publish`.
        """
        return await replay(self._api, letter, to=to, again=again)

    async def purge_dead_letters(self, stream: str, consumer: str, *, messages: bool = False) -> int:
        """Forget the dead letters of a consumer: delete the captured advisories, and return their number.

        With `messages`, their messages are deleted as well, for all consumers of the stream. Dead letters
        that arise meanwhile stay. Raises `UsageError` if no stream captures advisories.
        """
        return await purge(self._api, stream, consumer, messages=messages)
