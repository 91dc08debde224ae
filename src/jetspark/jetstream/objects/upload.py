"""Storing the chunks of an object: many in flight, in order, and none left behind when something fails."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

from jetspark.errors import Error, JetStreamError, MaxPayloadError, PublishError, StreamNotFound, StreamSealed
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.requests import PubAck, PurgeRequest
from jetspark.jetstream.objects.names import chunk_subject, object_stream
from jetspark.jetstream.objects.source import Source
from jetspark.jetstream.publish.publisher import Publisher
from jetspark.jetstream.retry import OUTAGE, Backoff

__all__ = ["Uploaded", "discard", "new_nuid", "to_the_end", "upload"]

#: Bytes in flight, and so in memory.
_IN_FLIGHT: Final = 8 * 1024 * 1024
#: Seconds after which a chunk without acknowledgement fails: below the duplicate window of 120.
_TIMEOUT: Final = 60.0
#: Bytes of the headers of a chunk.
_HEADERS: Final = 256
_ATTEMPTS: Final = 3
_ALPHABET: Final = string.digits + string.ascii_letters

#: Keeps references to tasks that may have no other.
_working: set[asyncio.Task[Any]] = set()

T = TypeVar("T")


class Uploaded(NamedTuple):
    """The stored chunks of an object."""

    nuid: str
    size: int
    chunks: int
    digest: bytes


class _OutOfOrder(Exception):
    """A chunk was stored after a later one: the leader changed while several were in flight."""


def new_nuid() -> str:
    """A unique id of 22 letters and digits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(22))


async def upload(api: API, bucket: str, source: Source, chunk_size: int) -> Uploaded:
    """Store chunks. If that fails or is cancelled, those that were stored are removed."""
    if chunk_size + _HEADERS > api.connection.max_payload:
        raise MaxPayloadError(
            f"chunks of {chunk_size} bytes are larger than the server accepts: {api.connection.max_payload}",
            hint="Give a smaller chunk_size",
        )
    for _ in range(_ATTEMPTS):
        nuid = new_nuid()
        try:
            chunks = await _send(api, chunk_subject(bucket, nuid), source, chunk_size)
            return Uploaded(nuid, source.size, chunks, source.digest)
        except _OutOfOrder:
            await discard(api, bucket, nuid)
            if not source.rewind():
                break
        except BaseException:
            await discard(api, bucket, nuid)
            raise
    raise JetStreamError(
        f"the leader of bucket {bucket} changed while an object was stored",
        hint="Nothing of it is left: put it again",
    )


async def _send(api: API, subject: str, source: Source, chunk_size: int) -> int:
    count = last = 0
    acks: deque[asyncio.Future[PubAck]] = deque()

    def check(everything: bool) -> None:
        """Look at the acknowledgements that have arrived."""
        nonlocal last
        while acks and (everything or acks[0].done()):
            sequence = acks.popleft().result().sequence
            if sequence <= last:
                raise _OutOfOrder
            last = sequence

    try:
        async with Publisher(api, max(_IN_FLIGHT // chunk_size, 2), timeout=_TIMEOUT) as publisher:
            async for chunk in source.chunks(chunk_size):
                acks.append(await publisher.send(subject, chunk))
                count += 1
                check(everything=False)
            await publisher.flush()
    except PublishError as error:
        raise (error.__cause__ or error) from None
    check(everything=True)
    return count


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, which continues in the background if the caller is cancelled."""
    task = asyncio.create_task(work)
    _working.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[Any]) -> None:
    _working.discard(task)
    if not task.cancelled():
        task.exception()  # Mark the error as seen: the caller may have been cancelled.


async def discard(
    api: API, bucket: str, nuid: str, unless: Callable[[], Awaitable[bool]] | None = None
) -> None:
    """Remove the chunks of an object, unless they turn out to be needed; also if the caller is cancelled."""
    await to_the_end(_discard(api, bucket, nuid, unless))


async def _discard(api: API, bucket: str, nuid: str, unless: Callable[[], Awaitable[bool]] | None) -> None:
    stream, subject = object_stream(bucket), chunk_subject(bucket, nuid)
    backoff = Backoff(OUTAGE)
    while True:
        try:
            if unless is not None and await unless():
                return
            await streams.purge(api, stream, PurgeRequest(subject=subject), safe=True)
            # Chunks that were on their way may have arrived after the purge.
            if not (await streams.info(api, stream, subjects_filter=subject)).state.subjects:
                return
        except (StreamNotFound, StreamSealed):
            return
        except Error as error:
            if not error.transient:
                return
        if not await backoff.pause():
            return
