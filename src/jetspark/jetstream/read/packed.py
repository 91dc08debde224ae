"""Reading many ranges, such as those of a Spark task: small ones concurrently, so that each costs little.

The number of requests and the estimated bytes in flight are limited. A large range is read alone: it keeps
the connection busy by itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

from jetspark.jetstream.api import API
from jetspark.jetstream.read.ranges import (
    CHUNK_BYTES,
    CHUNK_MESSAGES,
    FEW,
    Chunk,
    OnLoss,
    StreamRange,
    raise_loss,
    read_range,
)
from jetspark.jetstream.retry import OUTAGE
from jetspark.wire import total_size

__all__ = ["Part", "read_ranges"]

#: Messages of one stream.
Part: TypeAlias = tuple[str, Chunk]

#: The largest range that is read beside others, in sequences.
_SMALL: Final = 1000
#: Requests in flight. Many tasks share the queue of the server's API, which holds 10,000.
_REQUESTS: Final = 64
#: Bytes in flight, estimated from the messages that arrived.
_BYTES: Final = 8 * 1024 * 1024


async def read_ranges(
    api: API,
    ranges: Iterable[StreamRange],
    *,
    subjects: Sequence[str] = (),
    on_loss: OnLoss = raise_loss,
    outage: float = OUTAGE,
    headers_only: bool = False,
) -> AsyncGenerator[list[Part], None]:
    """The messages of ranges, each read as by `read_range`: in the given order, some ten thousand at a time.

    Raises what `read_range` raises.
    """
    parts: list[Part] = []
    count = size = 0
    read = functools.partial(
        read_range, api, subjects=subjects, on_loss=on_loss, outage=outage, headers_only=headers_only
    )
    async with aclosing(_ConcurrentReader(ranges, read).parts()) as arriving:
        async for part in arriving:
            parts.append(part)
            count += len(part[1])
            size += total_size(part[1])
            if count >= CHUNK_MESSAGES or size >= CHUNK_BYTES:
                yield parts
                parts, count, size = [], 0, 0
    if parts:
        yield parts


class _ConcurrentReader:
    """Keeps as many ranges in flight as the limits allow, and returns them in order."""

    def __init__(
        self, ranges: Iterable[StreamRange], read: Callable[[StreamRange], AsyncGenerator[Chunk, None]]
    ) -> None:
        self._waiting = deque(ranges)
        self._read = read
        self._running: deque[_Reading] = deque()
        # Average bytes of a message in the range where they are largest; set by the first range.
        self._weight: float | None = None

    async def parts(self) -> AsyncGenerator[Part, None]:
        try:
            while self._waiting or self._running:
                while self._waiting and self._fits(self._waiting[0]):
                    wanted = self._waiting.popleft()
                    self._running.append(_Reading(wanted, self._read(wanted)))
                reading = self._running[0]
                chunk = await reading.next()
                if chunk is None:
                    self._running.popleft()
                    self._weight = self._weight or 0.0
                    continue
                self._weight = max(self._weight or 0.0, total_size(chunk) / len(chunk))
                yield reading.wanted.stream, chunk
        finally:
            await asyncio.gather(*(reading.stop() for reading in self._running))

    def _fits(self, wanted: StreamRange) -> bool:
        """Whether a range may be read beside those that are in flight."""
        if not self._running:
            return True
        ranges = [wanted, *(reading.wanted for reading in self._running)]
        return (
            self._weight is not None
            and max(map(len, ranges)) <= _SMALL
            and sum(min(len(each), FEW) for each in ranges) <= _REQUESTS
            and self._weight * sum(map(len, ranges)) <= _BYTES
        )


class _Reading:
    """One range that is being read, a chunk ahead."""

    def __init__(self, wanted: StreamRange, chunks: AsyncGenerator[Chunk, None]) -> None:
        self.wanted = wanted
        self._ready: asyncio.Queue[Chunk | Exception | None] = asyncio.Queue(1)
        self._task = asyncio.get_running_loop().create_task(self._read(chunks))

    async def next(self) -> Chunk | None:
        """The next chunk; None at the end."""
        chunk = await self._ready.get()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    await self._ready.put(chunk)
        except Exception as error:
            await self._ready.put(error)
        else:
            await self._ready.put(None)
