"""When a publish is repeated, for how long, and how a permanent reason is found.

A message that is published again under its id is stored once, as long as the stream remembers the id: that is
its `duplicate_window`, 2 minutes by default. Waits and deadlines are those of `jetstream/retry.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from jetspark import errors
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.model.requests import PubAck, StreamListRequest
from jetspark.jetstream.retry import Backoff

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["find_permanent_reason", "is_temporary_refusal", "no_acknowledgement", "no_leader", "repeat_for"]

#: Seconds that the API may take to answer which streams store a subject, and until it is asked again.
_API_TIMEOUT: Final = 2.0
_ASK_AGAIN: Final = 0.25


def is_temporary_refusal(error: errors.Error) -> bool:
    """Whether this attempt stored nothing, and the next one may succeed: an election, a busy server.

    One of them says that an earlier attempt is still being stored, as while followers are slow: then a later
    one is acknowledged as a duplicate. The class decides, not the instance: a full stream answers with code
    503 too, and stays full.
    """
    return type(error).transient and not isinstance(error, errors.Timeout | errors.ConnectionLost)


async def repeat_for(
    api: API,
    subject: str,
    attempt: Callable[[float], Awaitable[PubAck]],
    may_repeat: Callable[[errors.Error], bool],
    *,
    seconds: float,
    timeout: float,
) -> PubAck:
    """The result of `attempt`, repeated for `seconds` after errors for which `may_repeat` is true.

    The last attempt begins within `seconds`, or `timeout` if that is longer, and ends after both together: it
    is called with the seconds that are left. The wait for the connection counts.

    Raises the last error, and `NoStreamForSubject` or `JetStreamNotEnabled` as soon as that is known.
    """
    backoff = Backoff(seconds)
    end = Backoff(seconds + timeout)
    asked = False
    while True:
        # A message in the outbox could be sent long after the call has failed.
        await api.connection.wait_connected(end.left - min(seconds, timeout))
        try:
            return await attempt(end.left)
        except errors.Error as error:
            if not may_repeat(error):
                raise
            failure = no_leader(subject, seconds) if isinstance(error, errors.NoResponders) else error
        if isinstance(failure, errors.NoResponders) and seconds and not asked:
            asked = True
            reason = await find_permanent_reason(api, subject)
            if reason is not None:
                raise reason
        if not await backoff.pause():
            raise failure


async def find_permanent_reason(api: API, subject: str) -> errors.Error | None:
    """Why no stream answered, if that is permanent: no stream for the subject, no JetStream. Else None.

    A server that has just started may not know its streams yet, so it is asked twice.
    """
    for wait in (_ASK_AGAIN, 0.0):
        try:
            request = StreamListRequest(subject=subject)
            answer = await api.call(endpoints.STREAM_NAMES, request, timeout=min(api.timeout, _API_TIMEOUT))
        except errors.JetStreamNotEnabled as error:
            return error
        except errors.Error:
            return None
        if answer.get("streams"):
            return None
        await asyncio.sleep(wait)
    return errors.NoStreamForSubject(
        f"no stream stores the subject {subject!r}",
        hint="Create one with js.create_stream(...), or check the subject, `domain` and the account",
    )


def no_leader(subject: str, seconds: float) -> errors.NoResponders:
    """The error for a message that no server took, though a stream may exist."""
    return errors.NoResponders(
        f"no stream took the message on {subject!r} within {seconds} s",
        hint="Its stream has no leader, or no stream stores the subject",
    )


def no_acknowledgement(subject: str, seconds: float, hint: str, stray: bytes = b"") -> errors.Timeout:
    """The error for a message that may be stored or not; `stray` is an answer that no stream sent."""
    ignored = f". Another client answered, which was ignored: {stray!r}" if stray else ""
    return errors.Timeout(
        f"no acknowledgement of the message on {subject!r} within {seconds} s",
        hint=f"Whether it is stored is unknown; {hint}{ignored}",
    )
