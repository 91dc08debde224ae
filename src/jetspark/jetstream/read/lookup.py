"""Lookups in a stream, answered by its leader: the next message that matches, the first of a time.

Only the leader is asked. A replica, or a consumer on a replica, may lag behind and miss the last messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jetspark.errors import MessageNotFound
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import API
from jetspark.jetstream.model.info import StreamState
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg, parse_stored
from jetspark.jetstream.retry import OUTAGE, retry

__all__ = ["first_at", "last_stored", "next_stored"]


async def next_stored(
    api: API, stream: str, seq: int, subjects: Sequence[str] = (), *, outage: float = OUTAGE
) -> StoredMsg | None:
    """The first message from `seq` on that matches one of `subjects`, or None.

    Raises transient errors after `outage` seconds.
    """
    found = [
        await _get(api, stream, MsgGetRequest(seq=seq, next_by_subj=subject), outage)
        for subject in subjects or (">",)
    ]
    return min((message for message in found if message), key=lambda message: message.sequence, default=None)


async def last_stored(api: API, stream: str, subject: str) -> StoredMsg | None:
    """The last message that matches, or None."""
    return await _get(api, stream, MsgGetRequest(last_by_subj=subject))


async def _get(api: API, stream: str, request: MsgGetRequest, outage: float = OUTAGE) -> StoredMsg | None:
    try:
        answer = await retry(lambda: api.call(endpoints.MSG_GET, request, stream=stream), outage)
    except MessageNotFound:
        return None
    return parse_stored(answer)


async def first_at(api: API, stream: str, state: StreamState, time: datetime) -> int:
    """The sequence of the first message stored at `time` or later; the one after the last if all are older.

    A binary search of about thirty requests at most: it works on every stream and needs no consumer.
    """
    low, high = max(state.first_seq, 1), state.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        message = await next_stored(api, stream, middle)
        if message is None or message.sequence >= high or message.time >= time:
            high = middle
        else:
            low = max(message.sequence, middle) + 1
    return low
