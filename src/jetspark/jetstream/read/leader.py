"""Many stored messages through the leader of the stream, one request each.

For streams that do not allow direct gets (`direct.batches`). Requests are repeated while the leader changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.message.stored import StoredMessage, from_answer
from jetspark.jetstream.model.requests import MsgGetRequest, StoredMsg
from jetspark.jetstream.read.lookup import first_at, last_stored, next_stored

__all__ = ["last_messages", "messages"]


async def messages(api: API, stream: str, request: MsgGetRequest) -> AsyncIterator[StoredMessage]:
    """The messages that a batch of direct gets would return for `request`, in order."""
    subjects = () if request.next_by_subj is None else (request.next_by_subj,)
    seq, count, size = request.seq or 1, 0, 0
    if request.start_time is not None:
        seq = await first_at(api, stream, (await streams.info(api, stream)).state, request.start_time)
    while (found := await next_stored(api, stream, seq, subjects)) is not None:
        yield from_answer(stream, found)
        seq, count, size = found.sequence + 1, count + 1, size + len(found.hdrs) + len(found.data)
        if count == request.batch or (request.max_bytes is not None and size >= request.max_bytes):
            return


async def last_messages(api: API, stream: str, request: MsgGetRequest) -> AsyncIterator[StoredMessage]:
    """The last message of each subject that matches `request.multi_last`, in order, as of one moment."""
    state = (await streams.info(api, stream)).state
    last = state.last_seq
    if request.up_to_seq is not None:
        last = min(last, request.up_to_seq)
    elif request.up_to_time is not None:
        last = await first_at(api, stream, state, request.up_to_time) - 1
    subjects: set[str] = set()
    for wanted in request.multi_last:
        subjects.update((await streams.info(api, stream, subjects_filter=wanted)).state.subjects or ())
    found = [await _last_of(api, stream, subject, max(state.first_seq, 1), last) for subject in subjects]
    stored = sorted((each for each in found if each is not None), key=lambda each: each.sequence)
    for each in stored[: request.batch]:
        yield from_answer(stream, each)


async def _last_of(api: API, stream: str, subject: str, first: int, last: int) -> StoredMsg | None:
    """The last message of a subject within these sequences: mostly that of the stream, else searched for."""
    best = await last_stored(api, stream, subject)
    if best is None or first <= best.sequence <= last:
        return best
    best = None
    while first <= last:
        middle = (first + last) // 2
        found = await next_stored(api, stream, middle, (subject,))
        if found is None or found.sequence > last:
            last = middle - 1
        else:
            best, first = found, found.sequence + 1
    return best
