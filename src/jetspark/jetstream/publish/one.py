"""Publish one message and wait until a stream has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetspark.core.headers import header_block
from jetspark.core.numbers import check_seconds
from jetspark.errors import ConnectionLost, Error, NotSent, Timeout, WrongLastMsgId, WrongLastSequence
from jetspark.jetstream.model.requests import PubAck, is_from_stream, parse_pub_ack
from jetspark.jetstream.publish.attempts import is_temporary_refusal, no_acknowledgement, repeat_for
from jetspark.jetstream.publish.headers import (
    MSG_ID,
    Expectations,
    compose_headers,
    stored_before_headers,
)
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["publish"]


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

    An attempt waits `timeout` seconds for the answer (by default those of the context), at most 5 if it can
    be repeated. While the stream has no leader or the server is too busy, the message is published again for
    `retry_for` seconds: an election takes up to 9. With a `msg_id` it is also published again when no answer
    comes, as from a leader that was killed, and when the connection breaks. Every attempt has the same id, so
    the message is stored once; the acknowledgement says `duplicate` if the stream had it already.

    Raises `WrongLastSequence` and other `APIError` when the stream refuses the message,
    `NoStreamForSubject` when no stream stores the subject, `NoResponders` when its stream has no leader,
    `Timeout`, `ConnectionLost` without a `msg_id`, and what `Connection.publish` raises.
    """
    fields = compose_headers(headers, msg_id, expectations)
    has_id = MSG_ID in fields
    block = header_block(fields)
    seconds = api.timeout if timeout is None else timeout
    check_seconds("timeout", seconds)
    check_seconds("retry_for", retry_for, zero=True)
    attempt_timeout = min(seconds, api.timing.silence) if has_id and retry_for else seconds
    unknown = False
    stray = b""

    def accepts(answer: bytes) -> bool:
        nonlocal stray
        if is_from_stream(answer):
            return True
        stray = answer[:80]
        return False

    async def attempt(left: float) -> PubAck:
        nonlocal unknown
        wait = min(attempt_timeout, left)
        try:
            answer = await api.connection.request_block(subject, data, block, timeout=wait, accepts=accepts)
            return parse_pub_ack(answer.data)
        except Timeout as error:
            if isinstance(error, NotSent) and not unknown:
                raise
            unknown = True
            safe = "Publishing it again with the same msg_id is safe"
            hint = f"the server's disk may be full. {safe if has_id else 'A msg_id makes repeating safe'}"
            raise no_acknowledgement(subject, attempt_timeout, hint, stray) from error
        except ConnectionLost as error:
            unknown = True
            if has_id:
                raise
            raise ConnectionLost(
                f"the connection broke before the message on {subject!r} was acknowledged",
                hint="Whether it is stored is unknown. With a msg_id jetspark publishes it again",
            ) from error
        except WrongLastSequence as error:
            if not unknown or isinstance(error, WrongLastMsgId):
                raise
            return await _stored_before(api, subject, fields[MSG_ID][0], error, seconds)

    def may_repeat(error: Error) -> bool:
        return is_temporary_refusal(error) or (has_id and isinstance(error, Timeout | ConnectionLost))

    tally = api.connection.session.tally
    tally.published += 1
    try:
        ack = await repeat_for(api, subject, attempt, may_repeat, seconds=retry_for, timeout=seconds)
    except BaseException:
        tally.publish_failures += 1
        raise
    tally.publish_acks += 1
    return ack


async def _stored_before(
    api: API, subject: str, msg_id: str, error: WrongLastSequence, timeout: float
) -> PubAck:
    """The acknowledgement of an earlier attempt, if the stream stored that; else raise `error`."""
    query = header_block(stored_before_headers(msg_id))
    answer = await api.connection.request_block(subject, b"", query, timeout=timeout, accepts=is_from_stream)
    try:
        return parse_pub_ack(answer.data)
    except WrongLastMsgId:
        raise error from None
