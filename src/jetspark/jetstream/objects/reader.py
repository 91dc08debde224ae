"""Reading the chunks of an object: in order, at the reader's speed, and with a check of the digest."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from typing import Final, Self

from jetspark.errors import DigestMismatch, Timeout
from jetspark.jetstream.api import API
from jetspark.jetstream.kv.feed import Feed
from jetspark.jetstream.model.consumer import DeliverPolicy
from jetspark.jetstream.objects.info import ObjectInfo, same_digest
from jetspark.jetstream.objects.names import chunk_subject, object_stream
from jetspark.jetstream.read.lookup import next_stored
from jetspark.jetstream.retry import OUTAGE

__all__ = ["ObjectReader"]

#: Seconds after which the leader is asked for a chunk that the consumer does not have: a replica may lag
#: behind.
_SILENCE: Final = 0.5
#: More bytes than these are hashed in a thread.
_SMALL: Final = 16 * 1024


class ObjectReader:
    """The data of an object: `async with await store.open("name") as reader: async for chunk in reader: ...`.

    `read()` returns all of it. Raises `DigestMismatch` at the end if the data does not match its stored size
    or digest.
    """

    def __init__(self, api: API, info: ObjectInfo) -> None:
        self._info = info
        self._api = api
        self._stream = object_stream(info.bucket)
        self._subject = chunk_subject(info.bucket, info.nuid)
        self._feed = Feed(api, self._stream, [self._subject], DeliverPolicy.ALL)
        self._hash = hashlib.sha256()
        # Resolved when a thread has hashed the chunks that arrived last.
        self._hashed: asyncio.Future[None] | None = None
        self._ready: deque[bytes] = deque()
        self._last = 0
        self._chunks = 0
        self._size = 0
        self._started = False
        self._done = False

    @property
    def info(self) -> ObjectInfo:
        """The metadata of the object."""
        return self._info

    async def next(self) -> bytes | None:
        """The next chunk; None after the last one. Raises `DigestMismatch`, `Timeout` when none arrives."""
        while not self._ready:
            if self._done:
                return None
            await self._fill()
        return self._ready.popleft()

    async def read(self) -> bytes:
        """Everything that is left."""
        return b"".join([chunk async for chunk in self])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._done = True
        self._ready.clear()
        if self._started:
            await self._feed.stop()

    async def _fill(self) -> None:
        """Take the chunks that have arrived; check everything after the last one.

        Cancelling it loses no chunk: chunks are ready as soon as they leave the feed, before they are hashed.
        """
        if self._hashed is not None:
            await asyncio.shield(self._hashed)
            self._hashed = None
        if self._chunks >= self._info.chunks:
            return await self._finish()
        if not self._started:
            await self._feed.start()
            self._started = True
        delivered = await self._feed.take(_SILENCE if self._feed.caught_up else OUTAGE)
        if delivered:
            self._last = delivered[-1].metadata.sequence.stream
            self._take([each.frame.data for each in delivered])
        elif not self._feed.caught_up:
            raise Timeout(f"no chunk of object {self._info.name!r} arrived within {OUTAGE:g} s")
        elif await next_stored(self._api, self._stream, self._last + 1, [self._subject]) is None:
            await self._finish()

    def _take(self, chunks: list[bytes]) -> None:
        size = sum(map(len, chunks))
        self._size += size
        self._chunks += len(chunks)
        self._ready.extend(chunks)
        if size > _SMALL:
            self._hashed = asyncio.get_running_loop().run_in_executor(None, self._digest, chunks)
        else:
            self._digest(chunks)

    def _digest(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._hash.update(chunk)

    async def _finish(self) -> None:
        info = self._info
        if self._started:
            await self._feed.stop()
        self._done = True  # Not earlier: a call after a cancelled one has to check, too.
        if (self._chunks, self._size) != (info.chunks, info.size):
            problem = f"has {self._size} bytes in {self._chunks} chunks, not {info.size} in {info.chunks}"
        elif not same_digest(info.digest, self._hash.digest()):
            problem = f"does not have the digest {info.digest}"
        else:
            return
        raise DigestMismatch(
            f"object {info.name!r} of bucket {info.bucket} {problem}",
            hint="It was replaced or deleted meanwhile, or its stream is damaged",
        )
