"""The events of a connection, and its listeners."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from jetspark.core.callbacks import Callbacks
from jetspark.errors import UsageError

__all__ = ["Event", "Events", "Listener"]

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
    """The listeners of one connection, each with the events that it listens to."""

    def __init__(self) -> None:
        self._listeners: dict[Event, Callbacks[...]] = {
            event: Callbacks(f"a listener of {str(event)!r}") for event in Event
        }

    def on(self, event: Event, listener: Listener) -> Callable[[], None]:
        """Call `listener` at every `event`. Returns a function that removes the listener."""
        if not isinstance(event, str) or event not in self._listeners:
            raise UsageError(f"event must be one of {', '.join(map(str, Event))}, not {event!r}")
        return self._listeners[event].add(listener)

    def emit(self, event: Event, *args: object) -> None:
        """Call every listener of `event`, in the order they were added."""
        self._listeners[event].call(*args)

    async def settle(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for listeners that are coroutines, except for the caller itself."""
        tasks = set().union(*(listeners.running for listeners in self._listeners.values()))
        tasks.discard(asyncio.current_task())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
