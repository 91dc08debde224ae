"""The way from threads into asyncio: one background thread with one event loop per process.

It starts when the first blocking connection of a process is made and ends with the last one. A forked
child has none and starts its own. A thread that waits can be interrupted (Ctrl-C): the work is
cancelled then.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from jetspark.errors import ConnectionClosed, Error, UsageError

__all__ = ["Portal", "Writer"]

T = TypeVar("T")


class Portal:
    """A running event loop in a thread of its own. Users share it: `Portal.acquire()` and `release()`."""

    _lock = threading.Lock()
    _shared: Portal | None = None

    def __init__(self) -> None:
        self._users = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="jetspark-loop", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> Portal:
        """The process's portal, started if there is none. Each call needs a `release()`."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """The last one to leave stops the thread."""
        with Portal._lock:
            self._users -= 1
            if self._users > 0:
                return
            if Portal._shared is self:
                Portal._shared = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    @classmethod
    def forget(cls) -> None:
        """In a forked child: the parent's thread does not exist here, and its lock may be held for ever."""
        cls._lock = threading.Lock()
        cls._shared = None

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result; errors are raised here.

        Raises `UsageError` in the loop's own thread, which would wait for itself, and `ConnectionClosed`
        when the loop has ended, as in a forked child.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "a blocking call was made from a callback that runs in the event loop",
                hint="Give a handler to consume(), which runs in a thread of its own",
            )
        if not self._thread.is_alive():
            work.close()
            raise ConnectionClosed(
                "the connection belongs to another process, or its loop has ended",
                hint="Connect again in the process that uses it",
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Call a function in the loop, soon; waits for nothing."""
        self._loop.call_soon_threadsafe(callback, *args)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """An asynchronous iterator as a plain one. Leaving it early closes it."""
        try:
            while True:
                try:
                    yield self.run(_anext(items))
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and self._thread.is_alive():
                self.run(close())


class Writer:
    """Hands frames from any thread to an outbox, waking the loop once for as many as come meanwhile."""

    #: Bytes from which a writing thread waits for the loop.
    _LIMIT = 4 * 1024 * 1024

    def __init__(self, portal: Portal, write: Callable[[bytes], object], report: Callable[[Exception], None]) -> None:
        self._portal = portal
        self._write = write
        self._report = report
        self._frames: deque[bytes] = deque()
        self._scheduled = False

    def write(self, frame: bytes) -> None:
        """Queue frames. Their order is the order of the calls."""
        self._frames.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._portal.post(self.drain)

    def drain(self) -> None:
        """In the loop: write what is queued."""
        # Cleared first: a frame that is queued from now on either is taken below or posts a new call.
        self._scheduled = False
        frames = []
        while self._frames:
            frames.append(self._frames.popleft())
        if not frames:
            return
        try:
            self._write(b"".join(frames))
        except Error as error:
            self._report(error)


async def _anext(items: AsyncIterator[T]) -> T:
    return await anext(items)


os.register_at_fork(after_in_child=Portal.forget)
