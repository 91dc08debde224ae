"""Heartbeats: notices when a server that promised them has gone silent.

`Heartbeat` is the pure half: the caller passes the time. `HeartbeatMonitor` is the timer around it,
for push subscriptions and pull buffers. A single fetch has its own deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["Heartbeat", "HeartbeatMonitor"]

#: Seconds by which sums of times are wrong at most, as floats; timers fire by as much too early.
_ROUNDING: Final = 1e-6


class Heartbeat:
    """Knows when the server last sent something, and reports each period of silence once."""

    __slots__ = ("allowed", "last_seen")

    def __init__(self, allowed: float, now: float) -> None:
        #: Seconds that the server may be silent.
        self.allowed = allowed
        #: When something last arrived, or when it became possible that something arrives.
        self.last_seen = now

    def missed(self, now: float, due: float) -> bool:
        """Whether the server has been silent for too long, asked at `now` by a timer that was set to `due`.

        A program that blocks the event loop makes the timer late. Nothing can be received in that time, so it
        does not count.
        """
        self.last_seen = min(self.last_seen + max(now - due, 0.0), now)
        if now - self.last_seen < self.allowed - _ROUNDING:
            return False
        self.last_seen = now
        return True


class HeartbeatMonitor:
    """Calls `on_missed` with the allowed seconds, as soon as the server was silent for that long.

    The timer is set to that moment. It also looks `checks` times in `allowed` seconds, to notice a blocked
    event loop. While `is_expected` returns False, silence does not count.
    """

    def __init__(
        self,
        allowed: float,
        checks: int,
        *,
        is_expected: Callable[[], bool],
        on_missed: Callable[[float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat(allowed, self._loop.time())
        self._interval = allowed / checks
        self._is_expected = is_expected
        self._on_missed = on_missed
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check from now on."""
        self.seen()
        self._set()

    def seen(self) -> float:
        """Something arrived, was requested, or the connection is new. Returns the time."""
        self._heartbeat.last_seen = now = self._loop.time()
        return now

    def stop(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        due = min(self._loop.time() + self._interval, self._heartbeat.last_seen + self._heartbeat.allowed)
        self._timer = self._loop.call_at(due, self._check, due)

    def _check(self, due: float) -> None:
        missed = False
        if not self._is_expected():
            self.seen()
        else:
            missed = self._heartbeat.missed(self._loop.time(), due)
        self._set()
        if missed:
            self._on_missed(self._heartbeat.allowed)
