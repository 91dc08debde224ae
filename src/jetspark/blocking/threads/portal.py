"""The portal: one background thread with one event loop per process, for calls from other threads.

The first blocking connection of a process starts it; the last one ends it. A forked child starts its own.
Ctrl-C interrupts a waiting thread and cancels the coroutine that it waits for.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeVar

from jetspark.errors import ConnectionClosed, Error, UsageError

__all__ = ["Portal"]

T = TypeVar("T")
P = ParamSpec("P")

#: Seconds that an interrupted thread waits for its cancelled coroutine to end.
_CANCEL_WAIT: Final = 2.0
#: Seconds that remaining tasks get when the loop ends, and seconds that `release` waits for the thread.
_END_WAIT: Final = 1.0
_JOIN_WAIT: Final = 10.0


class _Call(Generic[T]):
    """A coroutine that another thread waits for."""

    __slots__ = ("_error", "_finished", "_result", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        # Released when there is an outcome. Ctrl-C interrupts waiting for a lock, and a lock is cheap.
        self._finished = threading.Lock()
        self._finished.acquire()
        self._error: BaseException | None = None
        self._result: list[T] = []

    # --- in the loop

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = _ended()
        else:
            self._error = task.exception()
            if self._error is None:
                self._result.append(task.result())
        self._finished.release()

    def abandon(self) -> None:
        """Fail the call, because the loop has ended before it finished."""
        if self._finished.locked():
            with suppress(RuntimeError):  # Its cleanup may need the loop.
                self._work.close()
            self._error = _ended()
            self._finished.release()

    # --- in the thread

    def wait(self, timeout: float = -1) -> bool:
        return self._finished.acquire(timeout=timeout)

    def claim(self) -> T:
        """Return the result, or raise the error."""
        error = self._error
        if error is not None:
            try:
                raise error
            finally:
                del error, self  # The traceback refers to this frame: a cycle.
        return self._result.pop()

    @property
    def unclaimed(self) -> list[T]:
        return self._result


class Portal:
    """An event loop that runs in a thread. Connections share it with `Portal.acquire()` and `release()`."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _shared: ClassVar[Portal | None] = None
    _all: ClassVar[weakref.WeakSet[Portal]] = weakref.WeakSet()

    def __init__(self) -> None:
        #: Whether calls can be made: False after the loop's end and in a forked child.
        self.alive = True
        #: Whether this process is a forked child, where the loop's thread does not exist.
        self.forked = False
        self._users = 0
        self._calls: set[_Call[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="jetspark-loop", daemon=True)
        self._thread.start()
        Portal._all.add(self)

    @classmethod
    def acquire(cls) -> Portal:
        """Return the portal of the process, started if needed. Each call needs a `release()`."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """Give the portal back. The last release ends the loop and its thread."""
        if self.forked:
            return
        with Portal._lock:
            self._users -= 1
            if self._users > 0:
                return
            if Portal._shared is self:
                Portal._shared = None
            self.alive = False
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_WAIT)

    @classmethod
    def forget(cls) -> None:
        """Reset after a fork: the child lacks the parent's thread, and an inherited lock may stay held."""
        cls._lock = threading.Lock()
        cls._shared = None
        for portal in cls._all:
            portal.forked = True
            portal.alive = False

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self.alive = False
            while left := asyncio.all_tasks(self._loop):
                for task in left:
                    task.cancel()
                done, _ = self._loop.run_until_complete(asyncio.wait(left, timeout=_END_WAIT))
                if not done:
                    break
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self.alive = False
            asyncio.set_event_loop(None)
            self._loop.close()
            for call in list(self._calls):
                call.abandon()

    def run(self, work: Coroutine[Any, Any, T], unclaimed: Callable[[T], object] | None = None) -> T:
        """Run a coroutine in the loop and wait for its result; errors are raised here.

        Ctrl-C cancels it; if it finished nevertheless, `unclaimed` gets the result. Raises `UsageError` in
        the loop's own thread, which would wait for itself, and `ConnectionClosed` when the loop has ended.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "a blocking call was made in the event loop",
                hint="Make it in a thread; handlers, callbacks and listeners run in one",
            )
        call = _Call(work)
        posted = False
        try:
            # Added before `alive` is read: the ending loop finds the call, or this thread sees the end.
            self._calls.add(call)
            if not self.alive:
                raise self.refusal()
            posted = True
            try:
                self._loop.call_soon_threadsafe(call.start)
            except RuntimeError:  # The loop closed in between.
                posted = False
                raise self.refusal() from None
            try:
                call.wait()
            except BaseException:
                self.post(call.cancel)
                call.wait(_CANCEL_WAIT)
                if unclaimed is not None and call.unclaimed:
                    unclaimed(call.claim())
                raise
            return call.claim()
        finally:
            self._calls.discard(call)
            if not posted:
                work.close()

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the loop and wait for its result."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the loop soon, without waiting. Ignored when the loop has ended."""
        if self.alive:
            try:
                self._loop.call_soon_threadsafe(function, *args)
            except RuntimeError:  # The loop ended in between.
                if not self._loop.is_closed():
                    raise

    def refusal(self) -> Error:
        """Return the error that says why no calls can be made."""
        if self.forked:
            return ConnectionClosed(
                "the connection belongs to the parent of this process",
                hint="Connections do not survive a fork: connect again in the process that uses it",
            )
        return _ended()


def _ended() -> Error:
    return ConnectionClosed("the connection is closed")


os.register_at_fork(after_in_child=Portal.forget)
