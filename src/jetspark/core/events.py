"""The events of a connection, and its listeners."""

from __future__ import annotations

import asyncio
import enum
import inspect
import logging
from collections.abc import Callable

from jetspark.errors import UsageError

__all__ = ["Event", "Events", "Listener"]

logger = logging.getLogger("jetspark")

#: A plain or coroutine function. Its arguments depend on the event; see `Event`.
Listener = Callable[..., object]


class Event(enum.StrEnum):
    """The events of a connection, each with the argument of its listeners."""

    CONNECTED = "connected"  #: nothing; the first connect succeeded
    DISCONNECTED = "disconnected"  #: the error that broke the connection; it reconnects
    RECONNECTED = "reconnected"  #: nothing
    CLOSED = "closed"  #: the error that ended the connection for good, or None after `close()`
    DISCOVERED = "discovered"  #: the list of new `host:port` in the server pool
    LAME_DUCK = "lame_duck"  #: nothing; the server is about to shut down, the connection moves
    SLOW_CONSUMER = "slow_consumer"  #: a `SlowConsumer` with the subject and the count dropped
    ERROR = "error"  #: an error that no call could raise: -ERR, a failing callback


class Events:
    """The listeners of one connection. Coroutines run as tasks; an error of a listener is only logged."""

    def __init__(self) -> None:
        self._listeners: dict[Event, list[Listener]] = {event: [] for event in Event}
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, event: Event, listener: Listener) -> Callable[[], None]:
        """Call `listener` at every `event`. Returns a function that removes the listener."""
        if not isinstance(event, str) or event not in self._listeners:
            raise UsageError(f"event must be one of {', '.join(map(str, Event))}, not {event!r}")
        if not callable(listener):
            raise UsageError(f"listener must be a function, not {type(listener).__name__}")
        listeners = self._listeners[event]
        listeners.append(listener)

        def remove() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return remove

    def emit(self, event: Event, *args: object) -> None:
        """Call every listener of `event`, in the order they were added."""
        for listener in tuple(self._listeners[event]):
            try:
                outcome = listener(*args)
            except Exception:
                logger.exception("a listener of %r failed", str(event))
                continue
            if inspect.isawaitable(outcome):
                task = asyncio.ensure_future(self._run(event, outcome))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def settle(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for listeners that are coroutines, except for the caller itself."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    async def _run(self, event: Event, outcome: object) -> None:
        try:
            await outcome  # type: ignore[misc]
        except Exception:
            logger.exception("a listener of %r failed", str(event))
