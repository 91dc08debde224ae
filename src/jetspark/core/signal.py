"""`Signal`: how tasks wait for a change of the connection.

One `wake()` wakes all waiters, and each checks again the state that it waits for; each has its own deadline.
A wake-up carries no data, so cancelling a waiter loses nothing.
"""

from __future__ import annotations

import asyncio

__all__ = ["Signal"]


class Signal:
    """Wakes all waiters at once, as often as needed. Belongs to one event loop."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[bool]] = []

    def wake(self) -> None:
        """Wake all current waiters."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                _resolve(waiter, True)

    async def wait(self, timeout: float | None) -> bool:
        """Wait for the next `wake()`: True, or False after `timeout` seconds (None: no deadline)."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        timer = None if timeout is None else loop.call_later(max(timeout, 0.0), _resolve, waiter, False)
        try:
            return await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)


def _resolve(waiter: asyncio.Future[bool], woken: bool) -> None:
    if not waiter.done():
        waiter.set_result(woken)
