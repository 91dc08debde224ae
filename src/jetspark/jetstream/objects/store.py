"""An object store, as users hold it: putting, getting, linking, listing and watching objects."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import msgspec

from jetspark.core.numbers import check_seconds
from jetspark.errors import (
    Error,
    MessageNotFound,
    ObjectExists,
    ObjectNotFound,
    RemoteProtocolError,
    StreamNotFound,
    UsageError,
    WrongLastSequence,
)
from jetspark.jetstream.kv.backing import Bucket, find_backing, not_found
from jetspark.jetstream.kv.entry import ROLLUP
from jetspark.jetstream.kv.feed import Feed, FeedMessage
from jetspark.jetstream.kv.names import check_bucket
from jetspark.jetstream.kv.watch import Changes
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.model.requests import MsgGetRequest, PurgeRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.objects.info import (
    ObjectInfo,
    ObjectLink,
    ObjectMeta,
    ObjectOptions,
    digest_text,
    stored_info,
)
from jetspark.jetstream.objects.names import STORE_PREFIX, meta_subject, object_stream
from jetspark.jetstream.objects.orphans import purge_orphans
from jetspark.jetstream.objects.reader import ObjectReader
from jetspark.jetstream.objects.save import as_path, save
from jetspark.jetstream.objects.source import ObjectData, Source
from jetspark.jetstream.objects.status import ObjectStoreStatus
from jetspark.jetstream.objects.upload import discard, new_nuid, to_the_end, upload
from jetspark.jetstream.on_error import OnError
from jetspark.jetstream.publish.one import publish
from jetspark.jetstream.read import direct
from jetspark.jetstream.retry import Backoff, retry
from jetspark.wire.subjects import check_text

__all__ = ["ObjectStore", "ObjectWatch"]

#: Links that are followed; more are a circle.
_MAX_LINKS: Final = 8
#: Seconds before a change is repeated for the first time: the other client's is stored already.
_CONFLICT_WAIT: Final = 0.02


class ObjectWatch(Changes[ObjectInfo]):
    """The changes of a store: `async with store.watch() as changes: async for info in changes: ...`.

    It begins with the current objects, unless it was asked for updates only, and continues with each change,
    once and in order, across lost connections, leaders and consumers. Leaving the context ends it.
    """


class _Stored(NamedTuple):
    #: None if the metadata cannot be read: it can be replaced.
    info: ObjectInfo | None
    sequence: int


class ObjectStore(Bucket):
    """An object store. Made by `js.object_store` and `js.create_object_store`.

    Methods that ask the server raise the errors of those of `JetStream`, and `BucketNotFound`.
    """

    _PREFIX = STORE_PREFIX

    async def status(self) -> ObjectStoreStatus:
        """Its contents and configuration, requested from the server."""
        return ObjectStoreStatus(await find_backing(self._api, self.stream_name))

    async def seal(self) -> ObjectStoreStatus:
        """Allow no further changes. This cannot be undone."""
        config = (await self.status()).stream_info.config
        return ObjectStoreStatus(await streams.update(self._api, config.replace(sealed=True)))

    # --- storing

    async def put(self, name: str | ObjectMeta, data: ObjectData) -> ObjectInfo:
        """Store an object, in place of the one of this name, and return its info.

        The data is bytes, a binary file or an iterable of bytes. With asyncio, it may be an asynchronous one.
        It is sent while it is read: a few megabytes are in memory at a time. Until it is complete the old
        object can be read; if it fails or is cancelled, the old one stays and nothing of the new one is left.
        Only a process that is killed may leave chunks: see `purge_orphans`.
        """
        meta = _meta(name)
        subject = meta_subject(self.bucket, meta.name)
        source = Source(data)
        stored = await upload(self._api, self.bucket, source, meta.chunk_size)
        info = ObjectInfo(
            name=meta.name,
            bucket=self.bucket,
            nuid=stored.nuid,
            size=stored.size,
            chunks=stored.chunks,
            digest=digest_text(stored.digest),
            description=meta.description,
            headers=meta.headers,
            metadata=meta.metadata,
            options=ObjectOptions(max_chunk_size=meta.chunk_size),
        )
        return await to_the_end(self._complete(subject, info))

    async def put_file(
        self, path: str | os.PathLike[str], name: str | ObjectMeta | None = None
    ) -> ObjectInfo:
        """Store a file, under its own name without the directory if no other is given; otherwise as `put`."""
        source = as_path(path)
        meta = _meta(source.name if name is None else name)
        meta_subject(self.bucket, meta.name)
        file = await asyncio.to_thread(source.open, "rb")
        try:
            return await self.put(meta, file)
        finally:
            await asyncio.to_thread(file.close)

    async def update_meta(self, name: str, meta: ObjectMeta) -> ObjectInfo:
        """Change the name, description, headers and metadata of an object, and return its info.

        Raises `ObjectNotFound`, and `ObjectExists` if there is an object of the new name.
        """
        ObjectMeta.check_type(meta, "meta")
        subject = meta_subject(self.bucket, meta.name)
        backoff = self._backoff()
        while True:
            old = await self._last(name)
            if old is None or (old.info is not None and old.info.deleted):
                raise ObjectNotFound(bucket=self.bucket, name=name, deleted=old is not None)
            if old.info is None:
                await self.info(name)  # Raises the reason why it cannot be read, or it was replaced just now.
                continue
            renamed = meta.name != name
            expected = await self._check_free(meta.name, links_too=True) if renamed else old.sequence
            info = msgspec.structs.replace(
                old.info,
                name=meta.name,
                description=meta.description,
                headers=meta.headers,
                metadata=meta.metadata,
            )
            try:
                changed = await self._publish(subject, info, expected)
                break
            except WrongLastSequence:
                if not await backoff.pause():
                    raise
        if renamed:
            # Not an object that another client has stored under the old name since then.
            request = PurgeRequest(subject=meta_subject(self.bucket, name), sequence=old.sequence + 1)
            await retry(partial(streams.purge, self._api, self.stream_name, request))
        return changed

    async def delete(self, name: str) -> ObjectInfo:
        """Delete an object; return its info, with `deleted`. Raises `ObjectNotFound` if it never existed."""
        stored = await self._last(name)
        if stored is None:
            raise ObjectNotFound(bucket=self.bucket, name=name)
        if stored.info is None:
            info = ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), deleted=True)
        elif stored.info.deleted:
            return stored.info
        else:
            # Other clients may have stored another name.
            info = msgspec.structs.replace(stored.info, name=name, deleted=True, size=0, chunks=0, digest="")
        return await to_the_end(self._replace(meta_subject(self.bucket, name), info))

    async def purge_orphans(self, *, older_than: float = 3600.0) -> int:
        """Remove chunks that belong to no object, and return how many.

        A process that is killed during a put, or a put of another client that failed, may leave them. The
        chunks of a put in progress look the same, so chunks stay while the last one is younger than so many
        seconds.
        """
        check_seconds("older_than", older_than, zero=True)
        try:
            return await purge_orphans(self._api, self.bucket, older_than)
        except StreamNotFound as error:
            raise not_found(self.stream_name, error) from None

    async def add_link(self, name: str, target: ObjectInfo) -> ObjectInfo:
        """Add an object that is a link to another one, of this store or another, and return its info.

        `target` is the info of that object, which is neither deleted nor a link. Raises `ObjectExists` if
        there is an object of this name that is not a link.
        """
        ObjectInfo.check_type(target, "target")
        if target.deleted or target.link is not None:
            raise UsageError(f"target: object {target.name!r} is {'deleted' if target.deleted else 'a link'}")
        return await self._add_link(name, ObjectLink(bucket=target.bucket, name=target.name))

    async def add_bucket_link(self, name: str, bucket: str) -> ObjectInfo:
        """Add an object that is a link to a whole store, and return its info. Raises `ObjectExists`."""
        return await self._add_link(name, ObjectLink(bucket=check_bucket(bucket)))

    # --- reading

    async def info(self, name: str, *, include_deleted: bool = False) -> ObjectInfo:
        """The metadata of an object. Raises `ObjectNotFound`, also if it was deleted."""
        request = MsgGetRequest(last_by_subj=meta_subject(self.bucket, name))
        try:
            message = await direct.get(self._api, self._config, request)
        except MessageNotFound:
            raise ObjectNotFound(bucket=self.bucket, name=name) from None
        except StreamNotFound as error:
            raise not_found(self.stream_name, error) from None
        info = stored_info(message.data, message.timestamp, self.bucket)
        if info.deleted and not include_deleted:
            raise ObjectNotFound(bucket=self.bucket, name=name, deleted=True)
        return info

    async def open(self, name: str) -> ObjectReader:
        """Read an object chunk by chunk: `async with await store.open(name) as reader`. Links are followed.

        Raises `ObjectNotFound`.
        """
        store, info = self, await self.info(name)
        for _ in range(_MAX_LINKS):
            link = info.link
            if link is None:
                return ObjectReader(self._api, info)
            if not link.name:
                raise UsageError(
                    f"object {name!r} is a link to the whole store {link.bucket}", hint="Open that store"
                )
            store = await self._other(link.bucket)
            info = await store.info(link.name)
        raise UsageError(f"object {name!r} is a link that leads to more than {_MAX_LINKS} others")

    async def get(self, name: str) -> bytes:
        """The data of an object. Raises `ObjectNotFound`, `DigestMismatch`. Use `open` for large objects."""
        async with await self.open(name) as reader:
            return await reader.read()

    async def get_file(self, name: str, path: str | os.PathLike[str]) -> ObjectInfo:
        """Write the data of an object to a file and return its info.

        The file appears when it is complete and its digest was checked. Raises `ObjectNotFound`,
        `DigestMismatch`.
        """
        target = as_path(path)
        async with await self.open(name) as reader:
            await save(reader, target)
            return reader.info

    async def list(self, *, include_deleted: bool = False) -> AsyncIterator[ObjectInfo]:
        """The objects, as they arrive."""
        async with self.watch(ignore_deletes=not include_deleted) as changes:
            async for info in changes.initial():
                yield info

    def watch(
        self,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        on_error: OnError | None = None,
    ) -> ObjectWatch:
        """The objects, and each change: `async with` it, then `async for` over it.

        Args:
            include_history: Begin with everything that is kept, not only the last of each object.
            updates_only: Begin with the next change.
            ignore_deletes: Leave out deleted objects.
            on_error: Called with errors after which it continues; else the connection's `on_error` is.
        """
        if include_history and updates_only:
            raise UsageError("include_history and updates_only exclude each other")
        policy = DeliverPolicy.NEW if updates_only else DeliverPolicy.LAST_PER_SUBJECT
        if include_history:
            policy = DeliverPolicy.ALL
        feed = Feed(self._api, self.stream_name, [f"$O.{self.bucket}.M.>"], policy, on_error=on_error)

        def read(delivered: FeedMessage) -> ObjectInfo | None:
            try:
                info = stored_info(delivered.frame.data, delivered.metadata.timestamp, self.bucket)
            except RemoteProtocolError as error:
                self._api.connection.report(error)
                return None
            return None if info.deleted and ignore_deletes else info

        return ObjectWatch(feed, read)

    # --- metadata

    async def _last(self, name: str) -> _Stored | None:
        """The metadata of an object, as the leader has it."""
        request = MsgGetRequest(last_by_subj=meta_subject(self.bucket, name))
        try:
            message = await direct.get(self._api, StreamConfig(name=self.stream_name), request)
        except MessageNotFound:
            return None
        except StreamNotFound as error:
            raise not_found(self.stream_name, error) from None
        try:
            info = stored_info(message.data, message.timestamp, self.bucket)
        except RemoteProtocolError:
            info = None
        return _Stored(info, message.sequence)

    async def _check_free(self, name: str, *, links_too: bool = False) -> int:
        """The sequence of the metadata that a new object replaces; 0 for none. Raises `ObjectExists`."""
        stored = await self._last(name)
        info = stored.info if stored is not None else None
        if info is not None and not info.deleted and (links_too or info.link is None):
            raise ObjectExists(bucket=self.bucket, name=name)
        return stored.sequence if stored is not None else 0

    async def _add_link(self, name: str, link: ObjectLink) -> ObjectInfo:
        subject = meta_subject(self.bucket, name)
        info = ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), options=ObjectOptions(link=link))
        backoff = self._backoff()
        while True:
            try:
                return await self._publish(subject, info, await self._check_free(name))
            except WrongLastSequence:
                if not await backoff.pause():
                    raise

    async def _complete(self, subject: str, info: ObjectInfo) -> ObjectInfo:
        """Store the metadata of an object whose chunks are stored. If that fails they are removed."""
        try:
            return await self._replace(subject, info)
        except Error:
            await discard(self._api, self.bucket, info.nuid, unless=lambda: self._is_last(info))
            raise

    async def _replace(self, subject: str, info: ObjectInfo) -> ObjectInfo:
        """Store metadata in place of the existing one, and remove the chunks that then belong to no object.

        Another client may do the same meanwhile: then its metadata is the existing one.
        """
        backoff = self._backoff()
        while True:
            existing = await self._last(info.name)
            try:
                published = await self._publish(subject, info, existing.sequence if existing else 0)
                break
            except WrongLastSequence:
                if not await backoff.pause():
                    raise
            except Error as error:
                if not (error.transient and await self._is_last(info)):
                    raise
                published = info  # Only the answer was lost.
                break
        if existing is not None and existing.info is not None and existing.info.chunks:
            await discard(self._api, self.bucket, existing.info.nuid)
        return published

    async def _is_last(self, info: ObjectInfo) -> bool:
        stored = await self._last(info.name)
        last = stored.info if stored is not None else None
        return last is not None and (last.nuid, last.deleted) == (info.nuid, info.deleted)

    async def _publish(self, subject: str, info: ObjectInfo, expected: int) -> ObjectInfo:
        await publish(
            self._api,
            subject,
            msgspec.structs.replace(info, modified=None).to_json(),
            headers={ROLLUP: "sub"},
            msg_id=secrets.token_urlsafe(12),
            expected_last_subject_sequence=expected,
        )
        return msgspec.structs.replace(info, modified=datetime.now(UTC))

    def _backoff(self) -> Backoff:
        """The waits before a change is repeated because another client changed the same object meanwhile."""
        return Backoff(self._api.timeout, first=_CONFLICT_WAIT)

    async def _other(self, bucket: str) -> ObjectStore:
        return ObjectStore(self._api, await find_backing(self._api, object_stream(check_bucket(bucket))))


def _meta(name: str | ObjectMeta) -> ObjectMeta:
    return name if isinstance(name, ObjectMeta) else ObjectMeta(name=check_text(name, "name"))
