"""Reports errors that no call can raise: to `on_error`, or else to the listeners of the connection."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable

from jetspark.core.connection import Connection
from jetspark.errors import Error

__all__ = ["OnError", "Reporter"]

logger = logging.getLogger("jetspark")

#: A plain or coroutine function that is called with errors that do not end the work.
OnError = Callable[[Exception], object]


class Reporter:
    """Reports errors. A callback that fails is logged."""

    def __init__(self, connection: Connection, on_error: OnError | None) -> None:
        self._connection = connection
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, error: Exception) -> None:
        """Log an error and pass it to `on_error`, or else to the listeners of the connection."""
        if self._on_error is None:
            self._connection.report(error)
            return
        logger.warning("%s", error, exc_info=None if isinstance(error, Error) else error)
        try:
            outcome = self._on_error(error)
        except Exception:
            logger.exception("on_error failed")
            return
        if inspect.iscoroutine(outcome):
            task = asyncio.get_running_loop().create_task(outcome)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
