"""The JetStream context: where everything of JetStream begins, for one account and one connection.

It manages streams and, with the name of their stream in front, consumers. What the methods do is in
`manage/streams.py`, `manage/consumers.py`, `publish/one.py`, `subscribe/workflow.py` and `advisories.py`;
what they mean is here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, Unpack

from jetspark.jetstream import api as endpoints
from jetspark.jetstream.advisories import CAPTURED_SUBJECT, Advisories, advisory_subjects
from jetspark.jetstream.api import API
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.dead_letters import DeadLetter, dead_letters
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.manage.consumers import OrderedKeywords
from jetspark.jetstream.model.advisories import Advisory
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.info import AccountInfo, ConsumerInfo, StreamInfo
from jetspark.jetstream.model.requests import PauseResponse, PubAck, ResetResponse
from jetspark.jetstream.model.stream import Placement, StreamConfig
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
    """JetStream through a connection. Made by `Connection.jetstream`; as many as needed, they are cheap.

    `domain` names the JetStream domain, `api_prefix` replaces `$JS.API` where an account imports the API
    of another; one excludes the other. Every call ends within `timeout` seconds.

    All methods that ask the server raise `APIError` and what is below it when the server refuses,
    `Timeout`, `JetStreamNotEnabled` when nobody answers, `PermissionsViolation`, and those that change
    something `ConnectionLost`: then it is unknown whether they did.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        domain: str | None = None,
        api_prefix: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._connection = connection
        self._api = API(connection, domain=domain, api_prefix=api_prefix, timeout=timeout)

    @property
    def connection(self) -> Connection:
        """The connection that it uses."""
        return self._connection

    @property
    def api(self) -> API:
        """The subjects of the API and how to ask on them."""
        return self._api

    @property
    def timeout(self) -> float:
        """Seconds that a call may take."""
        return self._api.timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._api.prefix} of {self._connection!r}>"

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
        timeout: float | None = None,
        retry_for: float = 15.0,
    ) -> PubAck:
        """Publish a message and return the acknowledgement of the stream that has it.

        While nobody answers, as during an election, it is tried again for `retry_for` seconds; with a
        `msg_id` also when no answer comes or the connection breaks. The stream stores one message of an id,
        whatever happens, within its `duplicate_window`; the acknowledgement says `duplicate` if it had it
        before.

        Args:
            subject: Where to.
            data: The payload.
            headers: Names and values.
            msg_id: Unique id of the message.
            expected_stream: Name of the stream that must store it.
            expected_last_sequence: Sequence that the last message of the stream must have; 0 for none.
            expected_last_subject_sequence: The same for the last message of the subject.
            expected_last_subject_sequence_subject: Another subject for that, or a pattern. Server 2.11.
            expected_last_msg_id: Id that the last message of the stream must have.
            ttl: Seconds that the message lives, or "never". Needs `allow_msg_ttl`. Server 2.11.
            timeout: Seconds that one try may take; by default those of the context.
            retry_for: Seconds during which it is tried again.

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
        )

    def publisher(
        self,
        max_pending: int = 4096,
        *,
        timeout: float = 30.0,
        ack_timeout: float = 5.0,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> Publisher:
        """Publish many messages: `async with` it, `publish` on it, and every one is acknowledged or an error.

        Args:
            max_pending: How many messages are under way at most.
            timeout: Seconds after which a message without acknowledgement fails.
            ack_timeout: Seconds after which it is published again, under the same id.
            max_buffered_bytes: What may wait behind those that are under way.
        """
        return Publisher(
            self._api,
            max_pending,
            timeout=timeout,
            ack_timeout=ack_timeout,
            max_buffered_bytes=max_buffered_bytes,
        )

    def atomic_batch(self, *, timeout: float | None = None, retry_for: float = 15.0) -> AtomicBatch:
        """Messages that a stream stores together or not at all. Needs `allow_atomic`. Server 2.12.

        `async with` it and `add` to it; leaving the context commits. A try to commit waits `timeout` seconds
        for the answer (by default those of the context), and while nobody answers it is tried again for
        `retry_for` seconds.
        """
        return AtomicBatch(self._api, timeout=timeout, retry_for=retry_for)

    # --- streams

    async def create_stream(self, config: StreamConfig) -> Stream:
        """Create a stream; or take the one that is there, if its configuration is the same.

        Raises `StreamNameInUse` if it is another, `StreamSubjectOverlap` if another stream stores some of
        its subjects.
        """
        return Stream(self._api, await streams.create(self._api, config))

    async def update_stream(self, config: StreamConfig) -> Stream:
        """Change a stream. What `config` leaves out goes back to its default: start from `info.config`.

        Raises `StreamNotFound`.
        """
        return Stream(self._api, await streams.update(self._api, config))

    async def create_or_update_stream(self, config: StreamConfig) -> Stream:
        """Make sure that there is a stream of this configuration."""
        return Stream(self._api, await streams.create_or_update(self._api, config))

    async def get_stream(self, name: str) -> Stream:
        """A stream that exists. Raises `StreamNotFound`."""
        return Stream(self._api, await streams.info(self._api, name))

    async def delete_stream(self, name: str) -> None:
        """Delete a stream, its messages and its consumers. Raises `StreamNotFound`."""
        await streams.delete(self._api, name)

    def streams(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        """All streams; or those that store something of `subject`, which may have wildcards."""
        return streams.infos(self._api, subject)

    def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """The names of all streams; or of those that store something of `subject`."""
        return streams.names(self._api, subject)

    async def stepdown_stream_leader(self, name: str, *, placement: Placement | None = None) -> None:
        """Make the server that leads a stream hand over to another; `placement` says to which (2.11)."""
        await streams.stepdown(self._api, name, placement)

    async def account_info(self) -> AccountInfo:
        """What the account uses and may use."""
        return AccountInfo.from_wire(await self._api.call(endpoints.ACCOUNT_INFO))

    # --- consumers

    async def create_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Create a consumer; or take the one that is there, if its configuration is the same.

        Without a name it gets one, at random. Raises `ConsumerNameInUse` if there is one of another
        configuration, `StreamNotFound`.
        """
        return Consumer(self._api, await consumers.create_or_update(self._api, stream, config, "create"))

    async def update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Change a consumer. What `config` leaves out goes back to its default: start from `info.config`.

        Raises `ConsumerNotFound`.
        """
        return Consumer(self._api, await consumers.create_or_update(self._api, stream, config, "update"))

    async def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Make sure that there is a consumer of this configuration."""
        return Consumer(self._api, await consumers.create_or_update(self._api, stream, config, ""))

    async def get_consumer(self, stream: str, name: str) -> Consumer:
        """A consumer that exists. Raises `ConsumerNotFound`, `StreamNotFound`."""
        return Consumer(self._api, await self.consumer_info(stream, name))

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        """How a consumer is configured and how far it has come. Raises `ConsumerNotFound`."""
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
        """Let a consumer deliver nothing until a time, or for so many seconds. Server 2.11."""
        return await consumers.pause(self._api, stream, name, until)

    async def resume_consumer(self, stream: str, name: str) -> PauseResponse:
        """Let a paused consumer go on. Server 2.11."""
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

    async def ordered_consumer(self, stream: str, **options: Unpack[OrderedKeywords]) -> OrderedConsumer:
        """Read a stream in order and without gaps, whatever happens to consumers, leaders and connections.

        Raises `StreamNotFound`.

        Args:
            stream: Name of the stream.
            filter_subjects: Only messages whose subject matches one of these.
            deliver_policy: Where it starts (at the first message); not needed with one of the next two.
            opt_start_seq: First sequence.
            opt_start_time: Earliest time.
            replay_policy: How fast (instant).
            headers_only: Headers without payloads.
            inactive_threshold: Seconds of disuse after which the server deletes what stands behind it (300).
            name_prefix: What the names of the consumers behind it begin with.
        """
        consumer = OrderedConsumer(self._api, stream, **options)
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
        """Let a push consumer send its messages here: to `next()`, `async for`, or a `callback`.

        A consumer that is not there is created, and deleted by `unsubscribe()` and `drain()`; one that is
        there must be what is asked for. docs/subscribe.md has the rules.

        Args:
            subject: What to read. Finds the stream, if none is given, and filters.
            queue: Share the messages with the members of this group. Names the consumer if nothing else does.
            callback: Called with one message after the other. With asyncio, it may be a coroutine function.
            durable: Name of a consumer that stays when nobody is subscribed.
            stream: Name of the stream.
            consumer: Name of a consumer that exists.
            config: What else the consumer is to be.
            ordered: Every message once and in order, whatever happens; without acknowledgements.
            idle_heartbeat: Seconds of silence after which the server sends a heartbeat.
            flow_control: Let the server wait for the reader; with heartbeats, every 5 seconds if not given.
            deliver_policy, headers_only, inactive_threshold: As in `ConsumerConfig`.
            manual_ack: Do not acknowledge by itself after a callback that returned.
            alarm_after: Seconds without message and heartbeat until `MissedHeartbeat` (three heartbeats).
            pending_msgs_limit, pending_bytes_limit: What waits for the reader at most; more is dropped.
            on_error: Called with errors that no call can raise; else they go to the connection's `on_error`.

        Raises `UsageError` for what contradicts itself, `SubscribeError` and what is below it when the server
        has something else, `ConsumerNotFound`, `StreamNotFound`.
        """
        told = PushOptions(**options)
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
            changes=told.changes,
        )
        return await (subscribe_ordered if ordered else subscribe)(self._api, asked, callback, told)

    async def pull_subscribe(
        self,
        subject: str = "",
        durable: str | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
        config: ConsumerConfig | None = None,
    ) -> PullSubscription:
        """Pull from a consumer with `fetch`, which raises `Timeout` when nothing comes.

        The consumer is found, created and deleted as by `subscribe`, with the same errors. With `consumer`
        it is taken to exist, also when it cannot be looked up. New programs may prefer `Consumer.fetch`.
        """
        asked = ask(
            pull=True, subject=subject, durable=durable, stream=stream, consumer=consumer, config=config
        )
        return await pull_subscribe(self._api, asked)

    # --- advisories

    def advisories(
        self,
        kinds: Iterable[str | type[Advisory]] | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
    ) -> Advisories:
        """What JetStream tells about itself, as typed events: `async with` it, then `async for` over it.

        All of it; or only `kinds`, by their short names (`max_deliver`, see `ADVISORIES`) or classes; only
        what is about `stream` or `consumer`. Events that jetspark does not know are a plain `Advisory`.
        What happens while the connection is down is not heard.
        """
        return Advisories(self._connection, advisory_subjects(kinds, stream, consumer))

    async def create_advisory_stream(
        self, name: str = "ADVISORIES", *, max_age: float = WEEK, num_replicas: int | None = None
    ) -> Stream:
        """Create a stream that captures all advisories and keeps them for `max_age` seconds.

        With it `dead_letters` knows what happened while nobody listened.
        """
        return await self.create_stream(
            StreamConfig(
                name=name,
                description="Advisories of JetStream",
                subjects=[CAPTURED_SUBJECT],
                max_age=max_age,
                num_replicas=num_replicas,
                allow_direct=True,
            )
        )

    def dead_letters(
        self, stream: str, consumer: str, *, since: datetime | None = None, follow: bool = False
    ) -> AsyncIterator[DeadLetter]:
        """The messages that a consumer gave up: delivered `max_deliver` times in vain, or terminated.

        They are read from the stream that captures `$JS.EVENT.ADVISORY.>`, from `since` on or from its
        beginning, and each is joined with the message, which stays in its stream. With `follow` it goes on
        with those to come, and needs no such stream for them. Each comes once.

        Raises `UsageError` without `follow` when there is no such stream; `create_advisory_stream` makes it.
        """
        return dead_letters(self._api, stream, consumer, since=since, follow=follow)
