"""Users' functions that are called with events: plain or coroutine functions, which may fail."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, ParamSpec

from jetspark.errors import Error, UsageError

__all__ = ["Callbacks", "cancelled_inside"]

logger = logging.getLogger("jetspark")

P = ParamSpec("P")


def cancelled_inside(error: asyncio.CancelledError) -> Error:
    """The error of a user's function that used something which was cancelled.

    Raises `error` itself if the task that called the function is cancelled. Without this difference a loop of
    callbacks would end without a word.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise error
    inside = Error("the function awaited something that was cancelled")
    inside.__cause__ = error
    return inside


class Callbacks(Generic[P]):
    """The functions for one kind of event. Coroutines run as tasks; an error of a function is only logged."""

    def __init__(self, name: str) -> None:
        """`name` stands for a function in errors and in the log."""
        self._name = name
        self._functions: list[Callable[P, object]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> set[asyncio.Task[None]]:
        """The functions that are coroutines and have not returned."""
        return self._tasks

    def add(self, function: Callable[P, object]) -> Callable[[], None]:
        """Call `function` each time. Returns a function that removes it."""
        if not callable(function):
            raise UsageError(f"{self._name} must be a function, not {type(function).__name__}")
        self._functions.append(function)

        def remove() -> None:
            if function in self._functions:
                self._functions.remove(function)

        return remove

    def call(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all functions, in the order they were added."""
        for function in tuple(self._functions):
            try:
                outcome = function(*args, **kwargs)
            except (Exception, asyncio.CancelledError):
                logger.exception("%s failed", self._name)
                continue
            if inspect.isawaitable(outcome):
                task = asyncio.ensure_future(self._run(outcome))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, outcome: Awaitable[object]) -> None:
        try:
            await outcome
        except Exception:
            logger.exception("%s failed", self._name)
