"""Where something is in a stream, as its leader knows it: the next message that matches, the first of a time.

The leader alone is asked. A replica, and a consumer that lives on one, may lag behind and honestly say that
there is nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jetspark.errors import MessageNotFound
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.info import StreamState
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg
from jetspark.jetstream.retry import retry

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["first_at", "next_stored", "stream_names"]


async def stream_names(api: API, subject: str | None = None) -> list[str]:
    """The names of all streams, or of those that store `subject`, asked for until the server answers."""

    async def names() -> list[str]:
        return [name async for name in streams.names(api, subject)]

    return await retry(names)


async def next_stored(api: API, stream: str, seq: int, subjects: Sequence[str] = ()) -> StoredMsg | None:
    """The first message from `seq` on that matches one of `subjects`; None when there is none."""
    found = [await _next_of(api, stream, seq, subject) for subject in subjects or (">",)]
    return min((message for message in found if message), key=lambda message: message.sequence, default=None)


async def _next_of(api: API, stream: str, seq: int, subject: str) -> StoredMsg | None:
    request = MsgGetRequest(seq=seq, next_by_subj=subject)
    try:
        answer = await retry(lambda: api.call(endpoints.MSG_GET, request, stream=stream))
    except MessageNotFound:
        return None
    return StoredMsg.from_wire(answer["message"])


async def first_at(api: API, stream: str, state: StreamState, time: datetime) -> int:
    """The sequence of the first message stored at `time` or later; behind the last when there is none.

    A binary search, some thirty questions at most: it works on every stream and leaves no trace there.
    """
    low, high = max(state.first_seq, 1), state.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        message = await next_stored(api, stream, middle)
        if message is None or message.sequence >= high or message.time >= time:
            high = middle
        else:
            low = message.sequence + 1
    return low
