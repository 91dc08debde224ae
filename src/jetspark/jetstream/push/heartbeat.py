"""The alarm of a push subscription whose server promised heartbeats: a timer around `silence.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.jetstream.push.silence import Silence

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Alarm"]

#: ADR-15: heartbeats that may be missed before it is an alarm.
_MISSED: Final = 3


class Alarm:
    """Calls `ring` with the seconds that were allowed, each time when the server was silent for so long."""

    def __init__(
        self, connection: Connection, heartbeat: float, after: float | None, ring: Callable[[float], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._ring = ring
        self._silence = Silence(_MISSED * heartbeat if after is None else after, self._loop.time())
        self._timer = self._set()

    def heard(self) -> None:
        """Something arrived, or the connection is new."""
        self._silence.heard(self._loop.time())

    def stop(self) -> None:
        """Never ring again."""
        self._timer.cancel()

    def _set(self) -> asyncio.TimerHandle:
        due = self._loop.time() + self._silence.allowed / _MISSED
        return self._loop.call_at(due, self._check, due)

    def _check(self, due: float) -> None:
        self._timer = self._set()
        if not self._connection.session.attached:
            self.heard()  # Without a connection silence means nothing.
        elif self._silence.too_long(self._loop.time(), due):
            self._ring(self._silence.allowed)
