"""A thread that calls users' functions, so that they may block without holding up the loop."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from jetspark.errors import UsageError

__all__ = ["Worker", "plain"]

logger = logging.getLogger("jetspark")

F = TypeVar("F")


def plain(argument: str, function: F) -> F:
    """Return a function that can be called in a thread. Raises `UsageError` for coroutine functions."""
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"{argument} must be a plain function in the blocking API, not a coroutine function",
            hint="It runs in its own thread, and may block",
        )
    return function


class Worker:
    """Makes calls one after the other in a thread, which the first call starts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def post(self, call: Callable[[], object]) -> None:
        """Queue a call. Ignored after `stop`."""
        with self._lock:
            if self._stopped:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._calls.put(call)

    def stop(self, timeout: float) -> None:
        """Finish the queued calls, then end. Waits for that, unless one of these calls does the stopping."""
        with self._lock:
            self._stopped = True
            thread = self._thread
            self._calls.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a listener failed")
