"""Reading a bucket: its keys, their values, histories and changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Final

from jetspark.core.numbers import check_count
from jetspark.core.server_info import Feature
from jetspark.errors import (
    KeyNotFound,
    MessageNotFound,
    StreamNotFound,
    UsageError,
)
from jetspark.jetstream.api import API
from jetspark.jetstream.kv.backing import Bucket, await_backing, find_backing
from jetspark.jetstream.kv.cache import KeyValueCache
from jetspark.jetstream.kv.codecs import KeyCodec
from jetspark.jetstream.kv.entry import (
    KeyValueEntry,
    operation_in,
    operation_of,
)
from jetspark.jetstream.kv.feed import Feed, FeedMessage
from jetspark.jetstream.kv.keyspace import KeySpace
from jetspark.jetstream.kv.names import BUCKET_PREFIX, key_prefix
from jetspark.jetstream.kv.status import KeyValueStatus
from jetspark.jetstream.kv.watch import KeyValueWatch
from jetspark.jetstream.message.stored import StoredMessage, from_frame
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.on_error import OnError
from jetspark.jetstream.read import direct
from jetspark.jetstream.read.listing import concurrently
from jetspark.wire.subjects import text_list

__all__ = ["KeyValueReader"]

#: Keys that are read at once; the server takes 1024.
_AT_ONCE: Final = 1000


class KeyValueReader(Bucket):
    """The half of `KeyValue` that reads."""

    _PREFIX = BUCKET_PREFIX

    def __init__(self, api: API, info: StreamInfo, codec: KeyCodec | None = None) -> None:
        super().__init__(api, info)
        # A mirror keeps the subjects of its origin.
        mirror = info.config.mirror
        origin = info.config.name if mirror is None else mirror.name
        self._keys = KeySpace(key_prefix(origin.removeprefix(BUCKET_PREFIX)), codec)

    async def status(self) -> KeyValueStatus:
        """Its contents and configuration, requested from the server."""
        info = await find_backing(self._api, self.stream_name)
        self._config = info.config
        return KeyValueStatus(info)

    # --- reading

    async def get(self, key: str, *, revision: int | None = None) -> KeyValueEntry:
        """The value of a key, now or at a revision.

        Raises `KeyNotFound`, which carries the tombstone if the key was deleted. A bucket that is read from
        any replica (`direct`, the default) may miss a write that was just made.
        """
        subject = self._keys.subject(key)
        if revision is None:
            request = MsgGetRequest(last_by_subj=subject)
        else:
            check_count("revision", revision)
            request = MsgGetRequest(seq=revision)
        try:
            message = await self._get(request)
        except MessageNotFound:
            raise KeyNotFound(bucket=self.bucket, key=key) from None
        if message.subject != subject:
            raise KeyNotFound(
                f"revision {revision} of bucket {self.bucket} is not of key {key!r}",
                bucket=self.bucket,
                key=key,
            )
        entry = self._entry(message, key)
        if entry.deleted:
            raise KeyNotFound(
                bucket=self.bucket,
                key=key,
                operation=entry.operation.value,
                revision=entry.revision,
                created=entry.created,
            )
        return entry

    async def get_many(self, keys: Iterable[str]) -> AsyncIterator[KeyValueEntry]:
        """The values of many keys, those that have one, in the order of their revisions for each thousand."""
        wanted = [(key, self._keys.subject(key)) for key in text_list(keys, "keys")]
        at_once = self._config.allow_direct and await self._api.supports(Feature.BATCH_DIRECT_GET)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            if at_once:
                found = self._last_messages({subject: key for key, subject in some})
            else:
                found = self._one_by_one([key for key, _ in some])
            async with aclosing(found):
                async for entry in found:
                    yield entry

    async def history(self, key: str) -> list[KeyValueEntry]:
        """The revisions of a key that are kept, tombstones included, oldest first; perhaps none."""
        feed = self._feed([self._keys.subject(key)], DeliverPolicy.ALL)
        return [entry async for entry in self._current(feed)]

    async def keys(self, filters: str | Iterable[str] = ">") -> AsyncIterator[str]:
        """The keys that have a value, as they arrive. `*` is one part of a key, `>` all further ones."""
        feed = self._feed(self._keys.subjects(filters), DeliverPolicy.LAST_PER_SUBJECT, headers_only=True)
        async for entry in self._current(feed):
            if not entry.deleted:
                yield entry.key

    def watch(
        self,
        filters: str | Iterable[str] = ">",
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        from_revision: int | None = None,
        on_error: OnError | None = None,
    ) -> KeyValueWatch:
        """The entries of keys, and each change: `async with` it, then `async for` over it.

        It misses and repeats no revision, whatever happens to connections, leaders and consumers. Of a key
        that changed several times meanwhile it may return only the revisions that are kept (`history`).

        Args:
            filters: Which keys; `*` is one part of a key, `>` all further ones.
            include_history: Begin with all revisions that are kept, not only the last of each key.
            updates_only: Begin with the next change.
            ignore_deletes: Leave out tombstones.
            meta_only: Leave out the values.
            from_revision: Begin with this revision: after an interruption, with one more than the last that
                was seen.
            on_error: Called with errors after which it continues; else the connection's `on_error` is.
        """
        if sum((include_history, updates_only, from_revision is not None)) > 1:
            raise UsageError("include_history, updates_only and from_revision exclude each other")
        policy = DeliverPolicy.LAST_PER_SUBJECT
        if from_revision is not None:
            check_count("from_revision", from_revision)
            policy = DeliverPolicy.BY_START_SEQUENCE
        elif include_history or updates_only:
            policy = DeliverPolicy.ALL if include_history else DeliverPolicy.NEW
        feed = self._feed(
            self._keys.subjects(filters),
            policy,
            start_seq=from_revision,
            headers_only=meta_only,
            on_error=on_error,
        )
        return KeyValueWatch(feed, self._read_value if ignore_deletes else self._read)

    def cache(self, filters: str | Iterable[str] = ">", *, on_error: OnError | None = None) -> KeyValueCache:
        """The values of keys, kept current by a watch and read without asking the server: `async with` it.

        Args:
            filters: Which keys; `*` is one part of a key, `>` all further ones.
            on_error: Called with errors after which it continues; else the connection's `on_error` is.
        """
        watch = self.watch(filters, on_error=on_error)
        config = self._config
        return KeyValueCache(
            watch, self._api.connection, config.max_age, bool(config.subject_delete_marker_ttl)
        )

    # --- messages

    def _feed(
        self,
        subjects: list[str],
        policy: DeliverPolicy,
        *,
        start_seq: int | None = None,
        headers_only: bool = False,
        on_error: OnError | None = None,
    ) -> Feed:
        return Feed(
            self._api,
            self.stream_name,
            subjects,
            policy,
            start_seq=start_seq,
            headers_only=headers_only,
            on_error=on_error,
        )

    async def _messages(self, feed: Feed) -> AsyncGenerator[FeedMessage, None]:
        """The messages of a feed until it has caught up."""
        await feed.start()
        try:
            while not feed.caught_up and not feed.ended:
                for delivered in await feed.take():
                    yield delivered
        finally:
            await feed.stop()

    async def _current(self, feed: Feed) -> AsyncIterator[KeyValueEntry]:
        async with aclosing(self._messages(feed)) as messages:
            async for delivered in messages:
                yield self._read(delivered)

    async def _get(self, request: MsgGetRequest) -> StoredMessage:
        try:
            return await direct.get(self._api, self._config, request)
        except StreamNotFound:
            # Perhaps of a server that has just started.
            await await_backing(self._api, self.stream_name)
        return await direct.get(self._api, self._config, request)

    def _read(self, delivered: FeedMessage) -> KeyValueEntry:
        frame, metadata = delivered
        operation, ttl = operation_of(frame.header)
        return KeyValueEntry(
            bucket=self._bucket,
            key=self._keys.key(frame.subject.decode("utf-8", "surrogateescape")),
            value=frame.data,
            revision=metadata.sequence.stream,
            created=metadata.timestamp,
            operation=operation,
            delta=metadata.num_pending,
            ttl=ttl,
        )

    def _read_value(self, delivered: FeedMessage) -> KeyValueEntry | None:
        entry = self._read(delivered)
        return None if entry.deleted else entry

    def _entry(self, message: StoredMessage, key: str) -> KeyValueEntry:
        operation, ttl = operation_in(message.headers)
        return KeyValueEntry(
            bucket=self._bucket,
            key=key,
            value=message.data,
            revision=message.sequence,
            created=message.timestamp,
            operation=operation,
            ttl=ttl,
        )

    async def _last_messages(self, keys: dict[str, str]) -> AsyncGenerator[KeyValueEntry, None]:
        """The values of the keys of these subjects, as of one moment."""
        request = MsgGetRequest(multi_last=list(keys))
        async with aclosing(direct.batches(self._api, self.stream_name, request)) as batches:
            async for frames in batches:
                for message in map(from_frame, frames):
                    if message.subject in keys:
                        entry = self._entry(message, keys[message.subject])
                        if not entry.deleted:
                            yield entry

    async def _one_by_one(self, keys: list[str]) -> AsyncGenerator[KeyValueEntry, None]:
        async def get(key: str) -> KeyValueEntry | None:
            try:
                return await self.get(key)
            except KeyNotFound:
                return None

        for entry in await concurrently(get, keys):
            if entry is not None:
                yield entry
