"""Orphans: chunks that belong to no object, because a process was killed while it stored or replaced one."""

from __future__ import annotations

from datetime import UTC, datetime

from jetspark.errors import MessageNotFound, RemoteProtocolError
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.model.requests import MsgGetRequest, PurgeRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.objects.info import claimed_nuid, stored_info
from jetspark.jetstream.objects.names import chunk_subject, object_stream
from jetspark.jetstream.read import direct
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.retry import Backoff
from jetspark.wire.subjects import has_wildcard

__all__ = ["purge_orphans"]


async def purge_orphans(api: API, bucket: str, older_than: float) -> int:
    """Remove the chunks that belong to no object and whose last one is older than so many seconds.

    Only the leader is asked: a replica may not have the metadata yet. Metadata that cannot be read still
    keeps the chunks that it names.
    """
    stream = object_stream(bucket)
    # The chunks before the metadata: an object that is completed in between is known then.
    subjects = await _subjects(api, bucket, "C")
    orphans = subjects.keys() - await _owned(api, bucket) if subjects else set()
    removed = 0
    for subject in sorted(orphans):
        if has_wildcard(subject):
            continue  # A purge of it would remove the chunks of all objects.
        try:
            last = await _last(api, stream, subject)
        except MessageNotFound:
            continue
        if (datetime.now(UTC) - last.timestamp).total_seconds() >= older_than:
            request = PurgeRequest(subject=subject, sequence=last.sequence + 1)
            removed += await streams.purge(api, stream, request)
    return removed


async def _owned(api: API, bucket: str) -> set[str]:
    """The subjects of the chunks of all objects."""

    async def owned(subject: str) -> str | None:
        last = await _last(api, object_stream(bucket), subject)
        try:
            info = stored_info(last.data, last.timestamp, bucket)
        except RemoteProtocolError:
            nuid = claimed_nuid(last.data)
            return None if nuid is None else chunk_subject(bucket, nuid)
        return None if info.deleted else chunk_subject(bucket, info.nuid)

    backoff = Backoff(api.timeout)
    while True:
        try:
            found = await concurrently(owned, await _subjects(api, bucket, "M"))
            return {subject for subject in found if subject is not None}
        except MessageNotFound:  # Renamed meanwhile, and perhaps not listed under its new name.
            if not await backoff.pause():
                raise


async def _subjects(api: API, bucket: str, kind: str) -> dict[str, int]:
    info = await streams.info(api, object_stream(bucket), subjects_filter=f"$O.{bucket}.{kind}.>")
    return info.state.subjects


async def _last(api: API, stream: str, subject: str) -> StoredMessage:
    return await direct.get(api, StreamConfig(name=stream), MsgGetRequest(last_by_subj=subject))
