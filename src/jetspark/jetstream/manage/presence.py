"""Whether a consumer that does not answer still exists: asked of the API, more than once.

No responders can mean that a consumer was deleted, or that it has no leader now; only the API can tell. A
server that starts restores its consumers one by one, so it must report for a while that it is missing.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from jetspark.errors import ConsumerDeleted, ConsumerNotFound, Error, ExceededLimit, StreamNotFound
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers

__all__ = ["Presence"]

_HINT: Final = "Create it again; without durable_name it is deleted after `inactive_threshold` without use"


class Presence:
    """Looks one consumer up, and remembers since when it is missing."""

    def __init__(self, api: API, stream: str, consumer: str, *, hint: str = _HINT) -> None:
        """`hint` is that of the error about a deleted consumer."""
        self._api = api
        self._stream = stream
        self._consumer = consumer
        self._hint = hint
        # When it was first and last reported missing. The first is infinity until then, and once found.
        self._missing_since = self._missing_at = math.inf

    async def refusal(self, seconds: float = math.inf) -> Error | None:
        """Ask once why a pull request is not answered: the consumer was deleted, or too many requests wait.

        None for any other reason, or when the server does not answer within `seconds`.
        """
        try:
            async with asyncio.timeout(min(seconds, self._api.timing.consumer_lookup)):
                info = await consumers.info(self._api, self._stream, self._consumer)
        except (ConsumerNotFound, StreamNotFound) as error:
            return self._missing(error, time.monotonic())
        except (Error, TimeoutError):
            return None
        self._missing_since = math.inf
        if info.config.max_waiting and info.num_waiting >= info.config.max_waiting:
            return ExceededLimit(
                f"{info.num_waiting} pull requests wait at consumer {self._consumer}: max_waiting is reached",
                status=409,
                description="Exceeded MaxWaiting",
                hint="Use fewer readers, or raise max_waiting of the consumer",
            )
        return None

    async def deletion(self, seconds: float = math.inf) -> ConsumerDeleted | None:
        """Ask until it is sure that the consumer was deleted, for `seconds` at most.

        None when it exists, or the server does not answer.
        """
        deadline = time.monotonic() + seconds
        pause = self._api.timing.consumer_look_again
        while True:
            error = await self.refusal(deadline - time.monotonic())
            if isinstance(error, ConsumerDeleted):
                return error
            if self._missing_since == math.inf or time.monotonic() + pause > deadline:
                return None
            await asyncio.sleep(pause)

    def _missing(self, cause: Error, now: float) -> ConsumerDeleted | None:
        timing = self._api.timing
        if self._missing_since == math.inf or now - self._missing_at > timing.consumer_memory:
            self._missing_since = now
        self._missing_at = now
        if now - self._missing_since < timing.consumer_missing:
            return None
        error = ConsumerDeleted(
            f"consumer {self._consumer} of stream {self._stream} was deleted: no more messages arrive",
            status=409,
            description="Consumer Deleted",
            hint=self._hint,
        )
        error.__cause__ = cause
        return error
