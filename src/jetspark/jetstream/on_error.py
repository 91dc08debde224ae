"""Reports errors that no call can raise: to `on_error`, or else to the listeners of the connection."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jetspark.core.callbacks import Callbacks
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
        self._callbacks: Callbacks[[Exception]] | None = None
        if on_error is not None:
            self._callbacks = Callbacks("on_error")
            self._callbacks.add(on_error)

    def notify(self, error: Exception) -> None:
        """Log an error and pass it to `on_error`, or else to the listeners of the connection."""
        if self._callbacks is None:
            self._connection.report(error)
            return
        logger.warning("%s", error, exc_info=None if isinstance(error, Error) else error)
        self._callbacks.call(error)
