"""A stream: its state, its messages one by one, its consumers.

The context (`context.py`) creates and finds streams. Messages are read by direct get from any replica when
the stream allows it (`read/direct.py`), else through the stream's leader.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime

from jetspark.core.numbers import check_count
from jetspark.errors import UsageError
from jetspark.jetstream import counters
from jetspark.jetstream.api import API
from jetspark.jetstream.backup import backup
from jetspark.jetstream.consumer import Consumer, described
from jetspark.jetstream.manage import consumers, streams
from jetspark.jetstream.message.stored import StoredMessage, from_frame
from jetspark.jetstream.model.consumer import ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.model.info import ConsumerInfo, StreamInfo, StreamState
from jetspark.jetstream.model.requests import MsgDeleteRequest, MsgGetRequest, PurgeRequest
from jetspark.jetstream.model.stream import Placement, StreamConfig
from jetspark.jetstream.ordered.pull import OrderedConsumer
from jetspark.jetstream.read import direct, leader
from jetspark.wire.subjects import text_list

__all__ = ["Stream"]


class Stream:
    """A stream that existed when it was looked up. The methods raise the errors of those of `JetStream`."""

    def __init__(self, api: API, info: StreamInfo) -> None:
        self._api = api
        self._info = info

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.config.name

    @property
    def config(self) -> StreamConfig:
        """Its configuration at the last request to the server."""
        return self._info.config

    @property
    def cached_info(self) -> StreamInfo:
        """The info of the last request to the server. `info()` sends a new one."""
        return self._info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # --- the stream itself

    async def info(self, *, deleted_details: bool = False, subjects_filter: str | None = None) -> StreamInfo:
        """Its configuration and state, requested from the server.

        `deleted_details` lists the deleted sequences in `state.deleted`, `subjects_filter` counts the
        messages of each subject that matches in `state.subjects`; both can be large.
        """
        self._info = await streams.info(
            self._api, self.name, deleted_details=deleted_details, subjects_filter=subjects_filter
        )
        return self._info

    async def update(self, config: StreamConfig) -> StreamInfo:
        """Change it. Settings that `config` leaves out get their defaults: start from `self.config`."""
        self._info = await streams.update(self._api, config)
        return self._info

    async def delete(self) -> None:
        """Delete it, its messages and its consumers."""
        await streams.delete(self._api, self.name)

    async def purge(
        self, *, subject: str | None = None, sequence: int | None = None, keep: int | None = None
    ) -> int:
        """Delete messages, all of them without arguments, and return their number.

        Only those of `subject`, which may have wildcards; only those before `sequence`; all but the last
        `keep`. `sequence` and `keep` exclude each other. Up to a `sequence` it is repeated when the answer is
        lost, and then returns what the repetition deleted.
        """
        request = PurgeRequest(subject=subject, sequence=sequence, keep=keep)
        return await streams.purge(self._api, self.name, request)

    async def seal(self) -> StreamInfo:
        """Allow no further stores and deletes. This cannot be undone."""
        info = await self.info()
        return await self.update(info.config.replace(sealed=True))

    async def stepdown_leader(self, *, placement: Placement | None = None) -> None:
        """Make the server that leads it hand over to another; `placement` says to which (2.11)."""
        await streams.stepdown(self._api, self.name, placement)

    # --- messages

    async def get_message(self, sequence: int, *, headers: bool = True) -> StoredMessage:
        """The message with this sequence. Raises `MessageNotFound`.

        With `headers=False` its own headers stay on the server (2.12), and its leader is asked: a direct get
        returns sequence, subject and time in headers.
        """
        request = MsgGetRequest(seq=_at_least_1("sequence", sequence), no_hdr=not headers)
        return await direct.get(self._api, self.config, request)

    async def get_last_message(self, subject: str, *, headers: bool = True) -> StoredMessage:
        """The last message whose subject matches; `headers` as for `get_message`.

        Raises `MessageNotFound`.
        """
        request = MsgGetRequest(last_by_subj=subject, no_hdr=not headers)
        return await direct.get(self._api, self.config, request)

    async def backup(
        self,
        directory: str | os.PathLike[str],
        *,
        consumers: bool = True,
        check: bool = False,
        timeout: float = 60.0,
        progress: Callable[[int], object] | None = None,
    ) -> StreamState:
        """Write a backup of the stream into a directory, which is created; returns the stream's state.

        The directory is as the `nats` CLI writes it; `JetStream.restore_stream` reads it. `consumers=False`
        leaves the consumers out, `check=True` lets the server check its store first. `progress` is called
        with the bytes so far.

        Raises `UsageError` if there is a backup already, `Timeout` when nothing arrives for `timeout`
        seconds.
        """
        return await backup(
            self._api,
            self.name,
            directory,
            consumers=consumers,
            check=check,
            timeout=timeout,
            progress=progress,
        )

    async def counter_value(self, subject: str) -> int:
        """The value of the counter of a subject, in a stream with `allow_msg_counter`. Server 2.12.

        Raises `MessageNotFound` if it was never incremented.
        """
        return await counters.value_of(self._api, self.config, subject)

    async def get_next_message(
        self, subject: str, *, sequence: int = 1, headers: bool = True
    ) -> StoredMessage:
        """The first message from `sequence` on whose subject matches; `headers` as for `get_message`.

        Raises `MessageNotFound`.
        """
        request = MsgGetRequest(
            seq=_at_least_1("sequence", sequence), next_by_subj=subject, no_hdr=not headers
        )
        return await direct.get(self._api, self.config, request)

    async def get_messages(
        self,
        sequence: int | None = None,
        *,
        subject: str | None = None,
        start_time: datetime | None = None,
        batch: int | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[StoredMessage]:
        """Many messages in order, read without a consumer.

        From `sequence` or `start_time` on, or from the first; only those whose subject matches `subject`; at
        most `batch` messages and about `max_bytes` bytes, or everything. When the connection breaks, it
        continues where it was. A stream with `allow_direct` sends thousands with one request (server 2.11);
        otherwise each message takes a request to the leader.

        Raises `Timeout` when nothing arrives.
        """
        if sequence is not None and start_time is not None:
            raise UsageError("sequence and start_time exclude each other: give one of them")
        request = MsgGetRequest(
            seq=_at_least_1("sequence", sequence) or (1 if start_time is None else None),
            start_time=start_time,
            next_by_subj=subject,
            batch=_at_least_1("batch", batch),
            max_bytes=_at_least_1("max_bytes", max_bytes),
        )
        async for message in self._read(request):
            yield message

    async def get_last_messages(
        self,
        subjects: str | Iterable[str],
        *,
        up_to_sequence: int | None = None,
        up_to_time: datetime | None = None,
        batch: int | None = None,
    ) -> AsyncIterator[StoredMessage]:
        """The last message of each subject that matches, in the order of the stream, as of one moment.

        Up to and including `up_to_sequence`, or before `up_to_time`, else as of now; at most `batch`
        messages. With `allow_direct` it takes one request (server 2.11), else some for each subject.

        Raises `StatusError` 413 when more than 1024 subjects of a stream with `allow_direct` match, and the
        errors of `get_messages`.
        """
        if up_to_sequence is not None and up_to_time is not None:
            raise UsageError("up_to_sequence and up_to_time exclude each other: give one of them")
        request = MsgGetRequest(
            multi_last=text_list(subjects, "subjects"),
            up_to_seq=up_to_sequence,
            up_to_time=up_to_time,
            batch=_at_least_1("batch", batch),
        )
        if not request.multi_last:
            raise UsageError("subjects must not be empty; '>' stands for all")
        async for message in self._read(request):
            yield message

    async def _read(self, request: MsgGetRequest) -> AsyncIterator[StoredMessage]:
        if not (self.config.allow_direct or self.config.mirror_direct):
            read = leader.last_messages if request.multi_last else leader.messages
            async for message in read(self._api, self.name, request):
                yield message
            return
        async with aclosing(direct.batches(self._api, self.name, request)) as batches:
            async for frames in batches:
                for frame in frames:
                    yield from_frame(frame)

    async def delete_message(self, sequence: int) -> None:
        """Delete a message. Raises `MessageNotFound`, `StreamSealed`."""
        await streams.delete_message(self._api, self.name, MsgDeleteRequest(seq=sequence, no_erase=True))

    async def secure_delete_message(self, sequence: int) -> None:
        """Delete a message and overwrite it with random bytes, which takes longer."""
        await streams.delete_message(self._api, self.name, MsgDeleteRequest(seq=sequence))

    # --- consumers

    async def create_consumer(self, config: ConsumerConfig) -> Consumer:
        """Create a consumer; see `JetStream.create_consumer`."""
        return await self._make_consumer(config, "create")

    async def update_consumer(self, config: ConsumerConfig) -> Consumer:
        """Change a consumer; see `JetStream.update_consumer`."""
        return await self._make_consumer(config, "update")

    async def create_or_update_consumer(self, config: ConsumerConfig) -> Consumer:
        """Create a consumer, or change the existing one to this configuration."""
        return await self._make_consumer(config, "")

    async def get_consumer(self, name: str, *, look_up: bool = True) -> Consumer:
        """An existing consumer; see `JetStream.get_consumer`."""
        info = await consumers.info(self._api, self.name, name) if look_up else None
        return Consumer(self._api, self.name, name, info)

    async def delete_consumer(self, name: str) -> None:
        """Delete a consumer. Raises `ConsumerNotFound`."""
        await consumers.delete(self._api, self.name, name)

    def consumers(self) -> AsyncIterator[ConsumerInfo]:
        """All its consumers."""
        return consumers.infos(self._api, self.name)

    def consumer_names(self) -> AsyncIterator[str]:
        """The names of all its consumers."""
        return consumers.names(self._api, self.name)

    async def ordered_consumer(
        self,
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
        """Read it in order and without gaps; options as for `JetStream.ordered_consumer`."""
        consumer = OrderedConsumer(
            self._api,
            self.name,
            filter_subjects=filter_subjects,
            deliver_policy=deliver_policy,
            opt_start_seq=opt_start_seq,
            opt_start_time=opt_start_time,
            replay_policy=replay_policy,
            headers_only=headers_only,
            inactive_threshold=inactive_threshold,
            name_prefix=name_prefix,
        )
        await streams.info(self._api, self.name)
        return consumer

    async def _make_consumer(self, config: ConsumerConfig, action: str) -> Consumer:
        return described(self._api, await consumers.create_or_update(self._api, self.name, config, action))


def _at_least_1(argument: str, value: int | None) -> int | None:
    if value is not None:
        check_count(argument, value)
    return value
