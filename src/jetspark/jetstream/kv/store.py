"""A key-value bucket, as users hold it: reading, writing and watching its keys.

Each write has an id and is published again under it over elections and reconnects, so that it is stored once,
and a `create` or `update` whose answer was lost is not taken for a conflict.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from itertools import count
from typing import Final, Literal

from jetspark.core.numbers import check_count, check_seconds
from jetspark.errors import (
    KeyExists,
    MessageNotFound,
    NoStreamForSubject,
    UsageError,
    WrongLastSequence,
    WrongRevision,
)
from jetspark.jetstream.api import API, DEFAULT_PREFIX
from jetspark.jetstream.kv.backing import await_backing
from jetspark.jetstream.kv.codecs import KeyCodec
from jetspark.jetstream.kv.entry import (
    KEY_OPERATION,
    ROLLUP,
    KeyValueEntry,
    KeyValueOperation,
    operation_of,
)
from jetspark.jetstream.kv.reader import KeyValueReader
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.requests import MsgGetRequest, PurgeRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.publish.headers import Expectations
from jetspark.jetstream.publish.one import publish
from jetspark.jetstream.publish.publisher import Publisher
from jetspark.jetstream.read import direct
from jetspark.jetstream.retry import Backoff
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import has_wildcard

__all__ = ["KeyValue"]

_DELETE: Final = {KEY_OPERATION: KeyValueOperation.DELETE.value}
_PURGE: Final = {KEY_OPERATION: KeyValueOperation.PURGE.value, ROLLUP: "sub"}


class KeyValue(KeyValueReader):
    """A key-value bucket. Made by `js.key_value` and `js.create_key_value`.

    Methods that ask the server raise the errors of those of `JetStream`, and `BucketNotFound`.
    """

    def __init__(self, api: API, info: StreamInfo, codec: KeyCodec | None = None) -> None:
        super().__init__(api, info, codec)
        # The origin of a mirror takes the writes.
        mirror = info.config.mirror
        self._origin = StreamConfig(name=info.config.name if mirror is None else mirror.name)
        self._origin_api = api
        if mirror is not None and mirror.external is not None and mirror.external.api:
            self._origin_api = API(
                api.connection,
                domain=None,
                api_prefix=mirror.external.api,
                timeout=api.timeout,
                timing=api.timing,
            )
        # A domain, or another account, takes messages behind the prefix of its API.
        elsewhere = self._origin_api.prefix
        self._put_prefix = "" if elsewhere == DEFAULT_PREFIX else f"{elsewhere}."
        self._ids = (f"{prefix}-{number}" for prefix in [secrets.token_urlsafe(9)] for number in count(1))

    # --- writing

    async def put(self, key: str, value: bytes, *, ttl: float | Literal["never"] | None = None) -> int:
        """Set a key to a value and return the revision.

        With `ttl` it expires after so many seconds, rounded up; then the bucket must have `limit_marker_ttl`
        and a `history` of 1, since an older revision would come back otherwise.
        """
        await self._check_ttl(ttl, replaces=True)
        return await self._publish(key, value, ttl=ttl)

    async def put_many(self, values: Mapping[str, bytes]) -> int:
        """Set many keys, many writes in flight at once, and return the highest revision; 0 without keys.

        Raises `PublishError` when some were not stored; its cause is the error of the first.
        """
        if not isinstance(values, Mapping):
            raise UsageError(f"values must be a mapping of keys to bytes, not {type(values).__name__}")
        ready = {self._put_prefix + self._keys.subject(key): value for key, value in values.items()}
        last = None
        async with Publisher(self._api) as publisher:
            for subject, value in ready.items():
                last = await publisher.send(subject, value)
        return 0 if last is None else (await last).sequence

    async def create(self, key: str, value: bytes, *, ttl: float | Literal["never"] | None = None) -> int:
        """Set a key that has no value, and return the revision. Raises `KeyExists`.

        With `ttl` it expires after so many seconds, rounded up; the bucket must have `limit_marker_ttl`.
        """
        await self._check_ttl(ttl)
        backoff = Backoff(self._api.timeout)
        expected = 0
        while True:
            try:
                return await self._publish(key, value, revision=expected, ttl=ttl)
            except WrongRevision as error:
                last = await self._last(key, error.last_sequence)
                exists = last is not None and not last.deleted
                known = expected
                expected = 0 if last is None else last.revision
                # The same tombstone once more: another write is being stored.
                if exists or (known == expected and not await backoff.pause()):
                    raise KeyExists(
                        f"key {key!r} of bucket {self.bucket} exists, at revision {expected}",
                        code=error.code,
                        err_code=error.err_code,
                        description=f"wrong last sequence: {expected}",
                        stream=error.stream,
                        hint="Use update() with its revision, or put()",
                    ) from None

    async def update(
        self, key: str, value: bytes, revision: int, *, ttl: float | Literal["never"] | None = None
    ) -> int:
        """Set a key that is at `revision`, and return the new one. Raises `WrongRevision` if it changed.

        The revision may be that of a tombstone; 0 stands for a key without one. `ttl` as for `put`.
        """
        check_count("revision", revision, least=0)
        await self._check_ttl(ttl, replaces=True)
        return await self._publish(key, value, revision=revision, ttl=ttl)

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        """Delete a key and return the revision of its tombstone. Earlier revisions stay, as far as kept.

        With `revision` only if the key is at it, else it raises `WrongRevision`.
        """
        return await self._publish(key, b"", headers=_DELETE, revision=revision)

    async def purge(self, key: str, *, revision: int | None = None, ttl: float | None = None) -> int:
        """Delete a key and its earlier revisions, and return the revision of its tombstone.

        With `revision` only if the key is at it, else it raises `WrongRevision`. With `ttl` the tombstone
        expires after so many seconds; the bucket must have `limit_marker_ttl`.
        """
        await self._check_ttl(ttl)
        return await self._publish(key, b"", headers=_PURGE, revision=revision, ttl=ttl)

    async def purge_deletes(self, *, older_than: float = 1800.0) -> int:
        """Remove tombstones older than so many seconds, and all revisions before any tombstone.

        Younger tombstones stay, so that others can still see them. Returns how many revisions were removed.
        """
        check_seconds("older_than", older_than, zero=True)
        feed = self._feed(self._keys.subjects(">"), DeliverPolicy.LAST_PER_SUBJECT, headers_only=True)
        purged = 0
        tombstones = [
            delivered
            async for delivered in self._messages(feed)
            if operation_of(delivered.frame.header)[0] is not KeyValueOperation.PUT
        ]
        oldest = time.time_ns() - older_than * 1e9
        for frame, metadata in tombstones:
            # Only revisions before the tombstone, or the tombstone too: never a later value.
            revision = metadata.sequence.stream
            subject = frame.subject.decode(errors="surrogateescape")
            if has_wildcard(subject):
                continue  # Not of a client for buckets; a purge of it would remove other keys.
            request = PurgeRequest(
                subject=subject,
                sequence=revision + 1 if metadata.timestamp_ns <= oldest else revision,
            )
            purged += await streams.purge(self._api, self.stream_name, request)
        return purged

    # --- publishing

    async def _last(self, key: str, revision: int | None) -> KeyValueEntry | None:
        """The last revision of a key, as the leader has it, or None."""
        request = MsgGetRequest(last_by_subj=self._keys.subject(key))
        if revision:
            request = MsgGetRequest(seq=revision)
        try:
            return self._entry(await direct.get(self._origin_api, self._origin, request), key)
        except MessageNotFound:
            return None

    async def _check_ttl(self, ttl: float | str | None, *, replaces: bool = False) -> None:
        """Refuse a TTL that the bucket does not support, or with which an older revision would come back."""
        if ttl is None:
            return
        if not self._config.allow_msg_ttl and not (await self.status()).stream_info.config.allow_msg_ttl:
            raise UsageError(
                f"bucket {self.bucket} does not support a ttl of single keys",
                hint="Update it with limit_marker_ttl. Requires nats-server 2.11 or later",
            )
        if replaces and (self._config.max_msgs_per_subject or 0) > 1:
            raise UsageError(
                f"bucket {self.bucket} keeps {self._config.max_msgs_per_subject} revisions of a key: "
                "an older one would come back when this one expires",
                hint="Use create(), or a bucket with history=1",
            )

    async def _publish(
        self,
        key: str,
        value: bytes,
        *,
        headers: HeadersLike | None = None,
        revision: int | None = None,
        ttl: float | Literal["never"] | None = None,
    ) -> int:
        subject = self._put_prefix + self._keys.subject(key)
        expectations: Expectations = {"expected_last_subject_sequence": revision, "ttl": ttl}
        msg_id = next(self._ids)
        try:
            try:
                ack = await publish(self._api, subject, value, headers=headers, msg_id=msg_id, **expectations)
            except NoStreamForSubject:
                # Perhaps of a server that has just started.
                await await_backing(self._api, self.stream_name)
                ack = await publish(self._api, subject, value, headers=headers, msg_id=msg_id, **expectations)
        except WrongLastSequence as error:
            raise WrongRevision(
                f"key {key!r} of bucket {self.bucket} is not at revision {revision}: {error.description}",
                code=error.code,
                err_code=error.err_code,
                description=error.description,
                stream=error.stream,
                hint="It changed meanwhile: get() it and decide again",
            ) from None
        return ack.sequence
