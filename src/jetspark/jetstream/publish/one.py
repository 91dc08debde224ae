"""Publish one message and wait until a stream has it.

Here live the rules for trying again, which `publisher.py` and `atomic.py` use too. They rest on message ids:
a message that is published again under its id is stored once, as long as the stream remembers ids, which is
its `duplicate_window`, 2 minutes by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Unpack

from jetspark.errors import (
    ConnectionLost,
    Error,
    JetStreamNotEnabled,
    JetStreamUnavailable,
    NoResponders,
    NoStreamForSubject,
    Timeout,
    TooManyRequests,
    WrongLastMsgId,
    WrongLastSequence,
)
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.model.requests import PubAck, StreamListRequest, parse_pub_ack
from jetspark.jetstream.publish.headers import (
    MSG_ID,
    Expectations,
    check_seconds,
    compose_headers,
    stored_before_headers,
)
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.core.connection import Connection
    from jetspark.jetstream.api import API

__all__ = [
    "MAX_RETRY_WAIT",
    "RETRY_WAIT",
    "TEMPORARY",
    "attempt_for",
    "nobody_answers",
    "publish",
    "why_nobody_answers",
]

#: What passes by itself: an election, a server that is starting or has too much to do.
TEMPORARY: Final = (NoResponders, TooManyRequests, JetStreamUnavailable)
#: Seconds between tries: the first wait, and the longest after doubling.
RETRY_WAIT: Final = 0.25
MAX_RETRY_WAIT: Final = 1.0
#: Seconds that a try is waited for when it can be repeated, and the API when it is asked for the reason.
LONGEST_TRY: Final = 5.0
ASK_TIME: Final = 2.0


async def publish(
    api: API,
    subject: str,
    data: bytes = b"",
    *,
    headers: HeadersLike | None = None,
    msg_id: str | None = None,
    timeout: float | None = None,
    retry_for: float = 15.0,
    **expectations: Unpack[Expectations],
) -> PubAck:
    """Publish a message and return the acknowledgement of the stream that has it.

    A try waits `timeout` seconds for the answer (by default those of the context), at most 5 if it can be
    repeated. While nobody takes it or
    the server has too much to do, it is tried again for `retry_for` seconds: an election takes up to 9. With
    a `msg_id` it is also tried again when no answer comes, as from a leader that was killed, and when the
    connection breaks. Every try has the same id, so the message is stored once; the acknowledgement says
    `duplicate` if the stream had it already.

    Raises `WrongLastSequence` and other `APIError` when the stream refuses the message,
    `NoStreamForSubject` when there is none for the subject, `NoResponders` when there is one and nobody leads
    it, `Timeout`, `ConnectionLost` without a `msg_id`, and what `Connection.publish` raises.
    """
    fields = compose_headers(headers, msg_id, expectations)
    may_repeat = MSG_ID in fields
    seconds = api.timeout if timeout is None else timeout
    check_seconds("timeout", seconds)
    check_seconds("retry_for", retry_for, least=0.0)
    # A try that can be repeated need not be waited for as long: a leader that was killed never answers.
    patience = min(seconds, LONGEST_TRY) if may_repeat and retry_for else seconds
    lost = False

    async def attempt() -> PubAck:
        nonlocal lost
        try:
            answer = await api.connection.request(subject, data, headers=fields, timeout=patience)
            return parse_pub_ack(answer.data)
        except Timeout as error:
            lost = True
            raise _no_acknowledgement(subject, patience, may_repeat) from error
        except ConnectionLost as error:
            lost = True
            if may_repeat:
                raise
            raise ConnectionLost(
                f"the connection broke before the message on {subject!r} was acknowledged",
                hint="Whether it is stored is unknown. With a msg_id it is published again by itself",
            ) from error
        except WrongLastSequence as error:
            if not lost or isinstance(error, WrongLastMsgId):
                raise
            return await _stored_before(api, subject, fields[MSG_ID][0], error, seconds)

    passing = (*TEMPORARY, ConnectionLost, Timeout) if may_repeat else TEMPORARY
    return await attempt_for(api, subject, attempt, lambda error: isinstance(error, passing), retry_for)


async def attempt_for(
    api: API,
    subject: str,
    attempt: Callable[[], Awaitable[PubAck]],
    passes: Callable[[Error], bool],
    seconds: float,
) -> PubAck:
    """What `attempt` returns; tried again for so many seconds after errors that pass.

    Raises the last error, and `NoStreamForSubject` or `JetStreamNotEnabled` as soon as that is known.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    wait = RETRY_WAIT
    explained = False
    while True:
        await _connected(api.connection, max(deadline - loop.time(), api.timeout))
        try:
            return await attempt()
        except Error as error:
            if not passes(error):
                raise
            failure = nobody_answers(subject, seconds) if isinstance(error, NoResponders) else error
        if isinstance(failure, NoResponders) and seconds and not explained:
            explained = True
            reason = await why_nobody_answers(api, subject)
            if reason is not None:
                raise reason
        if loop.time() + wait > deadline:
            raise failure
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_RETRY_WAIT)


async def _connected(connection: Connection, timeout: float) -> None:
    """Wait for the connection: what waits in its outbox could be sent long after the call has failed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not connection.connected:
        try:
            await connection.flush(deadline - loop.time())
        except ConnectionLost:
            pass


def _no_acknowledgement(subject: str, seconds: float, may_repeat: bool) -> Timeout:
    again = "Repeating it under the same msg_id is safe" if may_repeat else "A msg_id makes repeating it safe"
    return Timeout(
        f"no acknowledgement of the message on {subject!r} within {seconds} s",
        hint=f"Whether it is stored is unknown; the server's disk may be full. {again}",
    )


async def _stored_before(
    api: API, subject: str, msg_id: str, error: WrongLastSequence, timeout: float
) -> PubAck:
    """The acknowledgement of an earlier try if that was stored; else raise `error`."""
    query = stored_before_headers(msg_id)
    answer = await api.connection.request(subject, b"", headers=query, timeout=timeout)
    try:
        return parse_pub_ack(answer.data)
    except WrongLastMsgId:
        raise error from None


async def why_nobody_answers(api: API, subject: str) -> Error | None:
    """The reason that lasts: no stream for the subject, no JetStream. None if there is none, or to be seen.

    A server that has just started may not know its streams yet, so it is asked twice.
    """
    for patience in (RETRY_WAIT, 0.0):
        try:
            request = StreamListRequest(subject=subject)
            answer = await api.call(endpoints.STREAM_NAMES, request, timeout=min(api.timeout, ASK_TIME))
        except JetStreamNotEnabled as error:
            return error
        except Error:
            return None
        if answer.get("streams"):
            return None
        await asyncio.sleep(patience)
    return NoStreamForSubject(
        f"no stream stores the subject {subject!r}",
        hint="Create one with js.create_stream(...), or check the subject, `domain` and the account",
    )


def nobody_answers(subject: str, seconds: float) -> NoResponders:
    """What is raised when there may be a stream, and nobody took the message for so long."""
    return NoResponders(
        f"no stream took the message on {subject!r} within {seconds} s",
        hint="Its stream has no leader, or there is no stream for the subject",
    )
