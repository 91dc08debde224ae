"""Counters: a stream with `allow_msg_counter` keeps one number of any size per subject (ADR-49)."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from jetspark.core.json import decode_json
from jetspark.errors import RemoteProtocolError, UsageError
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.jetstream.publish.headers import compose_headers
from jetspark.jetstream.publish.one import publish
from jetspark.jetstream.read import direct
from jetspark.wire.headers import HeadersLike

__all__ = ["increment", "value_of"]

_INCREMENT: Final = "Nats-Incr"


class _Counter(msgspec.Struct):
    """The payload of a message of a counter."""

    val: str


async def increment(
    api: API,
    subject: str,
    by: int,
    *,
    headers: HeadersLike | None,
    msg_id: str | None,
    timeout: float | None,
    retry_for: float,
) -> int:
    """Add to the counter of a subject; returns its value. With an id, an increment counts once."""
    if type(by) is not int:
        raise UsageError(f"by must be a whole number, not {by!r}")
    fields = compose_headers(headers, msg_id or secrets.token_urlsafe(16), {})
    if _INCREMENT in fields:
        raise UsageError(f"by and the header {_INCREMENT!r} exclude each other: give one of them")
    fields[_INCREMENT] = [f"{by:+d}"]
    ack = await publish(api, subject, b"", headers=fields, timeout=timeout, retry_for=retry_for)
    if ack.value is not None:
        return _number(ack.value)
    if not ack.duplicate:
        raise UsageError(
            f"stream {ack.stream} does not count: it stored the increment as a message",
            hint="Counters need a stream with allow_msg_counter=True",
        )
    # The stream had it before, and returns only its sequence.
    config = (await streams.info(api, ack.stream)).config
    return await _value(api, config, MsgGetRequest(seq=ack.sequence))


async def value_of(api: API, config: StreamConfig, subject: str) -> int:
    """The value of the counter of a subject. Raises `MessageNotFound` if it was never incremented."""
    return await _value(api, config, MsgGetRequest(last_by_subj=subject))


async def _value(api: API, config: StreamConfig, request: MsgGetRequest) -> int:
    message = await direct.get(api, config, request)
    return _number(decode_json(message.data, _Counter, "the value of a counter").val)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RemoteProtocolError(f"{text[:80]!r} is not the value of a counter") from None
