"""Waits for the events of a connection, in place of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from jetspark import Event

__all__ = ["Watch", "eventually"]

_LONG = 60.0  # seconds; only a hang takes this long: two failed elections in a row take half of it


class Watch:
    """Listens to what happens to a connection after the first connect: `connect(url, **watch.listeners)`."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, Any]] = []
        """Each event with its argument, or None."""
        self._arrived = asyncio.Event()

    @property
    def listeners(self) -> dict[str, Any]:
        return {f"on_{event}": partial(self._take, event) for event in Event if event is not Event.CONNECTED}

    @property
    def names(self) -> list[Event]:
        return [event for event, _ in self.events]

    def count(self, event: Event) -> int:
        return self.names.count(event)

    def last(self, event: Event) -> Any:
        """Return the argument of the latest `event`."""
        return [about for name, about in self.events if name is event][-1]

    async def until(self, event: Event, times: int = 1) -> Any:
        """Wait until `event` has happened `times` times in all; returns its last argument."""
        await eventually(lambda: self.count(event) >= times, f"{times} times {event}", self._arrived, self)
        return [about for name, about in self.events if name is event][times - 1]

    def clear(self) -> None:
        self.events.clear()

    def _take(self, event: Event, about: object = None) -> None:
        self.events.append((event, about))
        self._arrived.set()

    def __repr__(self) -> str:
        return f"Watch({', '.join(f'{event}: {about!r}' for event, about in self.events)})"


async def eventually(
    condition: Callable[[], bool], what: str, arrived: asyncio.Event | None = None, details: object = ""
) -> None:
    """Wait until `condition` holds. Checks it when `arrived` is set, else every few milliseconds.

    `details` go into the error, as they are by then.
    """
    try:
        async with asyncio.timeout(_LONG):
            while not condition():
                if arrived is None:
                    await asyncio.sleep(0.005)
                else:
                    arrived.clear()
                    await arrived.wait()
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}. {details}") from None
