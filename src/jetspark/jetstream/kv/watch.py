"""A watch: the entries of a bucket as they change. `Changes` is its engine, for other buckets too."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from jetspark.jetstream.kv.entry import KeyValueEntry
from jetspark.jetstream.kv.feed import Feed, FeedMessage
from jetspark.jetstream.lazy_reader import LazyReader

__all__ = ["Changes", "KeyValueWatch"]

T = TypeVar("T")


class Changes(LazyReader, Generic[T]):
    """The messages of a feed, as entries of the type `T`. Those that `read` turns into None are left out."""

    def __init__(self, feed: Feed, read: Callable[[FeedMessage], T | None]) -> None:
        self._feed = feed
        self._read = read
        self._ready: deque[T] = deque()
        # Whether the feed had caught up before it returned the entries that are ready.
        self._caught_up = feed.caught_up

    @property
    def caught_up(self) -> bool:
        """Whether all entries that existed when it began have been returned."""
        return self._caught_up or (self._feed.caught_up and not self._ready)

    async def next(self, timeout: float | None = None) -> T | None:
        """The next entry; None if none arrives within `timeout` seconds, or after `stop`.

        Raises the error that ended it: `BucketNotFound` when the bucket was deleted, `ConnectionClosed`.
        """
        return self._ready.popleft() if await self._wait(timeout) else None

    async def initial(self) -> AsyncIterator[T]:
        """The entries that existed when it began. `next` and `async for` continue after them."""
        await self._start()
        while not self.caught_up and await self._wait(None, initial=True):
            yield self._ready.popleft()

    async def take(self, timeout: float | None = None, *, initial: bool = False) -> list[T]:
        """The entries that have arrived; otherwise like `next`. For readers that pass them to a thread.

        With `initial`, an empty list as soon as it has caught up.
        """
        await self._wait(timeout, initial=initial)
        entries = list(self._ready)
        self._ready.clear()
        return entries

    async def stop(self) -> None:
        """End it: `next` returns None from now on."""
        self._started = True
        self._ready.clear()
        await self._feed.stop()

    async def __anext__(self) -> T:
        entry = self._ready.popleft() if self._ready else await self.next()
        if entry is None:
            raise StopAsyncIteration
        return entry

    async def _open(self) -> None:
        await self._feed.start()

    async def _wait(self, timeout: float | None, *, initial: bool = False) -> bool:
        """Wait until entries are ready. False after `timeout` seconds, and when it has ended."""
        await self._start()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while not self._ready:
            if self._feed.ended or (initial and self._feed.caught_up):
                return False
            self._caught_up = self._feed.caught_up
            delivered = await self._feed.take(None if deadline is None else deadline - loop.time())
            entries = map(self._read, delivered)
            self._ready.extend(entry for entry in entries if entry is not None)
            if not delivered and deadline is not None and loop.time() >= deadline:
                return False
        return True


class KeyValueWatch(Changes[KeyValueEntry]):
    """The changes of a bucket: `async with kv.watch() as changes: async for entry in changes: ...`.

    It begins with the current entries, unless it was asked for updates only, and continues with each change,
    once and in order, across lost connections, leaders and consumers. Leaving the context ends it.
    """
