"""Standard input as lines. Lines that are read but not stored are lost if the agent dies."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from jetspark.errors import Error
from jetspark.logs.agent.join import join_events
from jetspark.logs.agent.multiline import Multiline
from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line
from jetspark.stdin import Arrived, read_stdin

__all__ = ["StandardInput"]


class StandardInput:
    """Lines from standard input, or events by a `rule`; `limit` returns the bytes at which they are cut."""

    def __init__(self, limit: Callable[[], int], rule: Multiline | None = None) -> None:
        self._limit = limit
        self._rule = rule
        #: Unique to this run.
        self.identity = f"stdin-{secrets.token_hex(8)}"
        self._arrived: Arrived = asyncio.Queue(maxsize=4)

    def close(self) -> None:
        """Wake a waiting `pieces`. If the queue is full, `pieces` is not waiting."""
        with suppress(asyncio.QueueFull):
            self._arrived.put_nowait(b"")

    async def pieces(self) -> AsyncIterator[list[Line]]:
        """Lines as they arrive; the last one may lack its line feed. Raises `Error` if reading fails."""
        rest, offset = b"", 0
        async for data in self._chunks():
            if data is not None:
                rest += data
                lines, used = self._split(rest, offset)
            else:  # The last event has timed out, unless it is only an incomplete line.
                lines, used = self._split(rest[: rest.rfind(b"\n") + 1], offset, final=True)
            rest, offset = rest[used:], offset + used
            if lines:
                yield lines
        if rest:
            yield self._split(rest, offset, final=True)[0]

    def _split(self, data: bytes, offset: int, *, final: bool = False) -> tuple[list[Line], int]:
        if self._rule is None:
            return split_lines(data, offset, self._limit(), final=final)
        return join_events(data, offset, self._limit(), self._rule, final=final)

    async def _chunks(self) -> AsyncIterator[bytes | None]:
        """The data as it arrives, and None when nothing arrived within the timeout of the rule."""
        read_stdin(self._arrived)
        timeout = None if self._rule is None else self._rule.timeout
        while True:
            try:
                async with asyncio.timeout(timeout):
                    arriving = await self._arrived.get()
            except TimeoutError:
                yield None
                timeout = None  # Wait until data arrives.
                continue
            if isinstance(arriving, Error):
                raise arriving
            if not arriving:
                return
            yield arriving
            timeout = None if self._rule is None else self._rule.timeout
