"""Hands messages from the loop to threads: taken many at a time, returned one by one.

One crossing between threads costs as much as ten messages, so a crossing carries many of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, Generic, TypeVar

from jetspark.blocking.threads.portal import Portal
from jetspark.core.signal import Signal

__all__ = ["READ_AHEAD", "Supply", "iterate"]

T = TypeVar("T")

#: How many items of an asynchronous iterator are read ahead by default.
READ_AHEAD: Final = 512


class Supply(Generic[T]):
    """Returns, to one thread or several, the messages that `take` brings from the loop.

    `take` gets the seconds to wait; it returns an empty list after them, or at the end. `put_back` gets the
    messages that were taken but not returned when the supply stops.
    """

    def __init__(
        self,
        portal: Portal,
        take: Callable[[float | None], Coroutine[Any, Any, list[T]]],
        put_back: Callable[[list[T]], None] | None = None,
    ) -> None:
        self._portal = portal
        self._take = take
        self._put_back = put_back
        self._ready: deque[T] = deque()
        self._refilling = threading.Lock()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def waiting(self) -> list[T]:
        """Messages taken and not returned yet."""
        return list(self._ready)

    def next(self, timeout: float | None = None) -> T | None:
        """Return the next message; None after `timeout` seconds without one, or at the end."""
        try:
            return self._ready.popleft()
        except IndexError:
            pass
        if not self._portal.alive:
            raise self._portal.refusal()  # In a forked child the lock may stay held.
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._refilling.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            return None
        try:
            while True:
                try:
                    return self._ready.popleft()
                except IndexError:
                    pass
                if self._stopped:
                    return None
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                if not self._portal.run(self._refill(left)):
                    return None
        finally:
            self._refilling.release()

    def take_ready(self) -> list[T]:
        """Return the messages that are here, without waiting."""
        ready = []
        while self._ready:
            try:
                ready.append(self._ready.popleft())
            except IndexError:
                break
        return ready

    def stop(self) -> None:
        """Return no more messages, and put back those that are left."""
        self._stopped = True
        left = self.take_ready()
        if left and self._put_back is not None:
            self._put_back(left)

    async def _refill(self, timeout: float | None) -> bool:
        taken = await self._take(timeout)
        # In the loop, where Ctrl-C cannot come in between: the next call finds the messages.
        self._ready.extend(taken)
        if self._stopped:
            self.stop()
        return bool(taken)


class _Ahead(Generic[T]):
    """Reads an asynchronous iterator ahead, in a task, up to a limit."""

    def __init__(self, items: AsyncIterator[T], ahead: int) -> None:
        self._items = items
        self._ahead = ahead
        self._ready: list[T] = []
        self._asked = False
        self._changed = Signal()
        self._task: asyncio.Task[None] | None = None

    async def take(self) -> list[T]:
        """Return the items read, at least one; none at the end. Raises what the iterator raises."""
        self._asked = not self._ready
        self._changed.wake()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())
        while not self._ready and not self._task.done():
            await self._changed.wait(None)
        if not self._ready and self._task.done() and not self._task.cancelled():
            self._task.result()
        ready, self._ready = self._ready, []
        self._changed.wake()
        return ready

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        try:
            async for item in self._items:
                self._ready.append(item)
                self._asked = False
                self._changed.wake()
                while len(self._ready) >= self._ahead and not self._asked:
                    await self._changed.wait(None)
        finally:
            close = getattr(self._items, "aclose", None)
            if close is not None:
                await close()
            asyncio.get_running_loop().call_soon(self._changed.wake)  # After the task is done.


def iterate(portal: Portal, items: AsyncIterator[T], ahead: int = READ_AHEAD) -> Iterator[T]:
    """Read an asynchronous iterator as a plain one, up to `ahead` items ahead. Leaving it early closes it.

    With 0, the next item is read when the thread asks for it: until then, the last one is not done.
    """
    reading = _Ahead(items, ahead)
    try:
        while taken := portal.run(reading.take()):
            yield from taken
    finally:
        portal.post(reading.close)
