"""A request with many answers (ADR-47): how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from jetspark.core.message import Msg
from jetspark.core.numbers import check_count, check_seconds
from jetspark.core.request import no_responders
from jetspark.errors import Timeout, UsageError
from jetspark.wire.headers import HeadersLike

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["request_many"]


async def request_many(
    connection: Connection,
    subject: str,
    data: bytes,
    *,
    timeout: float,
    headers: HeadersLike | None,
    max_msgs: int | None,
    stall: float | None,
    sentinel: Callable[[Msg], bool] | None,
) -> AsyncGenerator[Msg, None]:
    """The answers to a request, until one of the ends that `Connection.request_many` lists."""
    if max_msgs is not None:
        check_count("max_msgs", max_msgs)
    if stall is not None:
        check_seconds("stall", stall)
    if sentinel is not None and not callable(sentinel):
        raise UsageError(f"sentinel must be a function, not {type(sentinel).__name__}")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, max_msgs=None if sentinel else max_msgs)
    try:
        await connection.publish(subject, data, reply=inbox, headers=headers)
        wait = deadline - loop.time()
        received = 0
        while max_msgs is None or received < max_msgs:
            try:
                message = await subscription.next(max(wait, 0.001))
            except Timeout:
                return
            error = no_responders(message._frame, subject)
            if error is not None:
                raise error
            if sentinel is not None and sentinel(message):
                return
            received += 1
            yield message
            wait = deadline - loop.time()
            if stall is not None:
                wait = min(wait, stall)
    finally:
        connection.session.outbox.withdraw(inbox.encode())
        await subscription.unsubscribe()
