"""How long a server that promised heartbeats has been silent. It is told the time and has no clock."""

from __future__ import annotations

__all__ = ["Silence"]


class Silence:
    """Raises the alarm once for every `allowed` seconds without a word."""

    __slots__ = ("_last_heard", "allowed")

    def __init__(self, allowed: float, now: float) -> None:
        #: Seconds that the server may say nothing.
        self.allowed = allowed
        self._last_heard = now

    def heard(self, now: float) -> None:
        """Something arrived, whatever it was; or there is a new connection, where nothing can be late yet."""
        self._last_heard = now

    def too_long(self, now: float, due: float) -> bool:
        """Whether it has been silent for too long, asked at `now` by a timer that was set to `due`.

        A program that blocks the event loop makes the timer late. In that time nobody could hear anything, so
        it does not count.
        """
        self._last_heard = min(self._last_heard + max(now - due, 0.0), now)
        if now - self._last_heard < self.allowed:
            return False
        self._last_heard = now
        return True
