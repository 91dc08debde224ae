"""Queues frames from all threads for the loop, and wakes the loop once for many of them.

A thread that writes faster than the socket waits, so the queue stays bounded.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from jetspark.blocking.threads.portal import Portal
from jetspark.core.connection import Connection
from jetspark.errors import ConnectionClosed, Error, OutboundBufferFull, Timeout

__all__ = ["Writer"]

#: Bytes queued here, and again in the outbox, at which writing threads begin to wait.
_LIMIT: Final = 1024 * 1024
#: Seconds between looks at the outbox, which does not signal that it drained below small limits.
_PAUSE: Final = 0.001


class Writer:
    """Hands frames from any thread to the outbox of a connection, in the order of the calls."""

    def __init__(self, portal: Portal, connection: Connection) -> None:
        self._portal = portal
        self._connection = connection
        self._outbox = connection.session.outbox
        self._limit = min(_LIMIT, connection.options.pending_size)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._frames: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._waiting: asyncio.Task[None] | None = None
        self._closed = False
        #: Number of messages published through this writer.
        self.published = 0
        #: Number of writes that went to the outbox.
        self.moved = 0
        #: Number of writes that are neither counted in `published` nor the acknowledgement of one message.
        #: `moved - published - others` is the number of those: counting each would slow it down.
        self.others = 0

    # --- in any thread

    def publish(self, frame: bytes) -> None:
        """Queue a message and count it."""
        self.write(frame)
        with self._lock:
            self.published += 1

    def write(self, frame: bytes) -> None:
        """Queue whole frames; wait while too much is queued.

        Raises `ConnectionClosed`, `OutboundBufferFull` for a frame larger than `pending_size`, and `Timeout`
        after the connection's `drain_timeout`; the frame stays queued then.
        """
        if not self._portal.alive:
            raise self._portal.refusal()
        if self._closed:
            raise ConnectionClosed("the connection is closed") from self._connection.last_error
        size = len(frame)
        if size > self._limit:
            self._check_size(frame)
        # Without the lock, which would double the cost: appending is atomic, and an approximate size is
        # enough. Either `_move` sees the frame, or it clears `_scheduled` before the check below.
        self._frames.append(frame)
        self._size = size = self._size + size
        if not self._scheduled:
            self._scheduled = True
            self._portal.post(self._move)
        if size >= self._limit:
            self._wait_for_room()

    def _check_size(self, frame: bytes) -> None:
        allowed = self._connection.options.pending_size
        if len(frame) > allowed:
            raise OutboundBufferFull(
                f"the message has {len(frame)} bytes, more than the pending_size of {allowed}",
                hint="Raise `pending_size`",
            )

    def _wait_for_room(self) -> None:
        seconds = self._connection.options.drain_timeout
        with self._lock:
            if not self._room.wait_for(lambda: self._size < self._limit or self._closed, seconds):
                raise Timeout(
                    f"{self._size} bytes are still queued after {seconds} s",
                    hint="The server reads too slowly, or the connection is down; the bytes stay queued",
                )
            if self._closed:
                raise ConnectionClosed("the connection closed before everything was written")

    # --- in the loop

    async def settle(self, timeout: float) -> None:
        """Wait until all queued frames are in the outbox, for at most `timeout` seconds."""
        if self._waiting is not None:
            await asyncio.wait([self._waiting], timeout=timeout)

    def close(self, _: object = None) -> None:
        """Refuse further frames, and wake the threads that wait for room."""
        with self._lock:
            self._closed = True
            self._frames.clear()
            self._size = 0
            self._room.notify_all()

    def _move(self) -> None:
        if self._outbox.size >= self._limit > 0:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_task(self._move_later())
            return
        self._scheduled = False
        frames = self._frames[:]
        del self._frames[: len(frames)]
        self.moved += len(frames)
        with self._lock:
            self._size = 0
            self._room.notify_all()
        try:
            self._outbox.write_many(frames)
        except Error:
            self.close()

    async def _move_later(self) -> None:
        while self._outbox.size >= self._limit:
            try:
                await self._outbox.drained
                await asyncio.sleep(_PAUSE)
            except Timeout:
                pass  # Threads that wait for room have their own timeout.
            except Error:
                break
        self._waiting = None
        self._move()
