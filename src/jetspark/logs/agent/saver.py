"""Saves the positions of the files and journals: how far the stream has stored them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from jetspark.logs.agent.discovery import WatchedFiles
from jetspark.logs.agent.positions import Positions
from jetspark.logs.agent.send_queue import SendQueue
from jetspark.logs.agent.stored_ids import StoredIds

__all__ = ["PositionSaver"]


class PositionSaver:
    """Writes the position file when the positions changed. A full disk does not stop shipping."""

    def __init__(
        self,
        positions: Positions,
        watched: WatchedFiles,
        queue: SendQueue,
        stored_ids: StoredIds,
        *,
        stopping: asyncio.Event,
        report: Callable[[str], None],
    ) -> None:
        self._positions = positions
        self._watched = watched
        self._queue = queue
        self._stored_ids = stored_ids
        # After that, no more lines are sent.
        self._stopping = stopping
        self._report = report
        self._saving = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._saving.locked()

    async def save(self, *, force: bool = False) -> None:
        """Write the positions if they changed, or if `force`."""
        async with self._saving:
            self._queue.settle()
            if not (self._queue.progressed or self._watched.unsaved or force):
                return
            self._queue.progressed = self._watched.unsaved = False
            self._positions.forget_gone(self._watched.files)
            number, data = self._positions.encode(self._since())
            try:
                await asyncio.to_thread(self._positions.write, number, data)
            except OSError as error:
                self._queue.progressed = True
                self._report(f"cannot write the positions to {self._positions.path}: {error.strerror}")

    def _since(self) -> float | None:
        """Since when the stream may have stored lines beyond the current positions."""
        since = [each for each in (self._stored_ids.since, self._queue.since) if each is not None]
        if not since and not self._stopping.is_set():
            return time.time()  # It may store some from now on.
        return min(since, default=None)
