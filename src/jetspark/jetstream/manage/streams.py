"""Managing streams: one function for each request of the API about them.

The methods of `JetStream` and `Stream`, which call these, document what the requests mean for users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from jetspark.errors import StreamNameInUse, StreamNotFound
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API, total_of
from jetspark.jetstream.model import requests
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.model.stream import Placement, StreamConfig
from jetspark.wire.subjects import check_filter

__all__ = [
    "create",
    "create_or_update",
    "delete",
    "delete_message",
    "info",
    "infos",
    "names",
    "purge",
    "stepdown",
    "update",
]


async def create(api: API, config: StreamConfig) -> StreamInfo:
    """Create a stream. Raises `StreamNameInUse`, `StreamSubjectOverlap`."""
    StreamConfig.check_type(config, "config")
    return StreamInfo.from_wire(await api.call(endpoints.STREAM_CREATE, config, stream=config.name))


async def update(api: API, config: StreamConfig) -> StreamInfo:
    """Change a stream. Raises `StreamNotFound`."""
    StreamConfig.check_type(config, "config")
    return StreamInfo.from_wire(await api.call(endpoints.STREAM_UPDATE, config, stream=config.name))


async def create_or_update(api: API, config: StreamConfig) -> StreamInfo:
    """Change a stream, or create it if it does not exist."""
    try:
        return await update(api, config)
    except StreamNotFound:
        pass
    try:
        return await create(api, config)
    except StreamNameInUse:  # Another client created it in between.
        return await update(api, config)


async def info(
    api: API, stream: str, *, deleted_details: bool = False, subjects_filter: str | None = None
) -> StreamInfo:
    """The configuration and state of a stream; the counts of subjects come in pages."""
    first: StreamInfo | None = None
    subjects: dict[str, int] = {}
    while True:
        request = requests.StreamInfoRequest(
            deleted_details=deleted_details, subjects_filter=subjects_filter, offset=len(subjects)
        )
        answer = await api.call(endpoints.STREAM_INFO, request, stream=stream)
        page = StreamInfo.from_wire(answer)
        first = first or page
        subjects |= page.state.subjects
        # Without a new subject there is no progress: repeated requests would not end.
        if len(subjects) == request.offset or len(subjects) >= total_of(answer):
            break
    state = msgspec.structs.replace(first.state, subjects=subjects)
    return msgspec.structs.replace(first, state=state)


async def infos(api: API, subject: str | None = None) -> AsyncIterator[StreamInfo]:
    """Every stream, or every stream that stores messages of `subject`."""
    if subject is not None:
        check_filter(subject)
    async for wire in api.pages(endpoints.STREAM_LIST, "streams", subject=subject):
        yield StreamInfo.from_wire(wire)


async def names(api: API, subject: str | None = None) -> AsyncIterator[str]:
    """The name of every stream, or of every stream that stores messages of `subject`."""
    if subject is not None:
        check_filter(subject)
    async for name in api.pages(endpoints.STREAM_NAMES, "streams", subject=subject):
        yield name


async def delete(api: API, stream: str) -> None:
    """Delete a stream, its messages and its consumers. Raises `StreamNotFound`."""
    await api.call(endpoints.STREAM_DELETE, stream=stream)


async def purge(api: API, stream: str, request: requests.PurgeRequest, *, safe: bool = False) -> int:
    """Delete the messages that `request` selects, and return their number; fewer if it had to be repeated.

    `safe` says that it can be repeated because nobody stores further messages that it selects. Up to a
    sequence it always can; with `keep`, or without limits, a repetition would delete messages stored since.
    """
    safe = safe or bool(request.sequence)  # The server takes 0 for no limit.
    answer = await api.call(endpoints.STREAM_PURGE, request, stream=stream, safe=safe)
    return requests.PurgeResponse.from_wire(answer).purged


async def delete_message(api: API, stream: str, request: requests.MsgDeleteRequest) -> None:
    """Delete one message. Raises `MessageNotFound`, `StreamSealed`."""
    await api.call(endpoints.MSG_DELETE, request, stream=stream)


async def stepdown(api: API, stream: str, placement: Placement | None) -> None:
    """Make the leader of a stream step down."""
    await api.call(endpoints.STREAM_STEPDOWN, requests.StepdownRequest(placement=placement), stream=stream)
