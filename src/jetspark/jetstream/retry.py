"""Waiting out what passes: no leader, no answer, no connection. For work that nobody watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from jetspark.errors import (
    APIError,
    ConnectionLost,
    Error,
    InsufficientResources,
    NoResponders,
    StatusError,
    Timeout,
    TooManyRequests,
)

__all__ = ["PATIENCE", "is_passing", "patiently"]

logger = logging.getLogger("jetspark")

T = TypeVar("T")

#: Seconds that an outage may last. Elections on a loaded machine were seen to take over thirty.
PATIENCE: Final = 90.0
_FIRST_WAIT: Final = 0.25
_LAST_WAIT: Final = 2.0


def is_passing(error: Error) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, InsufficientResources):
        return False
    if isinstance(error, APIError):
        return error.code == 503 or isinstance(error, TooManyRequests)
    return isinstance(error, Timeout | ConnectionLost | NoResponders | StatusError)


async def patiently(call: Callable[[], Awaitable[T]], seconds: float = PATIENCE) -> T:
    """What `call` returns, called again after errors that pass; the last one is raised after `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    wait = _FIRST_WAIT
    while True:
        try:
            return await call()
        except Error as error:
            if not is_passing(error) or loop.time() + wait >= deadline:
                raise
            logger.info("waiting for JetStream: %s", error)
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LAST_WAIT)
