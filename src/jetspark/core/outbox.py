"""What waits to be written: frames in order, joined once per turn of the loop, bounded, with back-pressure.

The outbox outlives the transports. While there is none, published frames stay here; when a transport
breaks, what was not yet handed to it stays too (frames that set up the session do not: they are made
anew for every session). So nothing is lost silently: it is written, kept, or refused with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Final, Protocol

from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, OutboundBufferFull, Timeout

__all__ = ["Outbox"]

#: From this many waiting bytes on, whoever awaits a write lets the loop turn (and the socket drain) first.
_TURN: Final = 128 * 1024
#: From this many on, they are handed to the transport within the turn: its writer does not await.
_INLINE: Final = 1024 * 1024


class SessionFrame(bytes):
    """Frames that mean nothing to another session: dropped when the transport breaks, made anew after."""

    __slots__ = ()


class Sink(Protocol):
    """Where the outbox writes to: a transport."""

    @property
    def writable(self) -> bool: ...

    def write(self, data: bytes) -> None: ...


class _Drained:
    """The awaitable of a write that should wait. Dropping it unawaited is fine, unlike a coroutine."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def __await__(self) -> Generator[None, None, None]:
        return self._outbox._drained().__await__()


class Outbox:
    """The write side of a connection."""

    __slots__ = (
        "_closed",
        "_drain_timeout",
        "_frames",
        "_limit",
        "_loop",
        "_scheduled",
        "_signal",
        "_sink",
        "done",
        "size",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, drain_timeout: float) -> None:
        self._loop = loop
        self._limit = limit
        self._drain_timeout = drain_timeout
        #: What most writes return: awaiting a future that is done costs next to nothing.
        self.done: asyncio.Future[None] = loop.create_future()
        self.done.set_result(None)
        self._frames: list[bytes] = []
        self._sink: Sink | None = None
        self._scheduled = False
        self._signal = Signal()
        self._closed: Error | None = None
        #: Bytes that wait here, whether connected or not.
        self.size = 0

    def write(self, frame: bytes) -> Awaitable[None]:
        """Take whole frames to write. Awaiting the result waits for back-pressure; it need not be awaited.

        Raises `OutboundBufferFull` when the limit is reached; the frame was not taken then.
        """
        size = self.size + len(frame)
        if size > self._limit:
            if self._closed is not None:
                raise ConnectionClosed("the connection is closed") from self._closed
            self.flush()
            size = self.size + len(frame)
            if size > self._limit:
                raise OutboundBufferFull(
                    f"{self.size} bytes wait to be written, {self._limit} are allowed",
                    hint="Await publish() so that it can wait for the network, or raise `pending_size`",
                )
        self.size = size
        self._frames.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)
        if size < _TURN:
            return self.done
        if size >= _INLINE:
            self.flush()
        return _Drained(self)

    def write_many(self, frames: list[bytes]) -> None:
        """Take and hand on the frames of somebody who bounds them himself, and looks at `size` before.

        Raises `ConnectionClosed`.
        """
        if self._closed is not None:
            raise ConnectionClosed("the connection is closed") from self._closed
        self._frames += frames
        self.size += sum(map(len, frames))
        self.flush()

    def drained(self) -> Awaitable[None]:
        """Wait for back-pressure. Raises `Timeout` and `ConnectionClosed`."""
        return _Drained(self)

    def write_control(self, frame: bytes) -> None:
        """Take frames of the session itself: small, not subject to the limit, not kept over a reconnect."""
        self.size += len(frame)
        self._frames.append(SessionFrame(frame))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand everything to the transport, if there is one and it takes more."""
        self._scheduled = False
        sink = self._sink
        if sink is None or not self._frames or not sink.writable:
            return
        if self.size > 2 * _INLINE:
            self._flush_much(sink)
        else:
            frames, self._frames = self._frames, []
            self.size = 0
            sink.write(frames[0] if len(frames) == 1 else b"".join(frames))
        self._signal.wake()

    def _flush_much(self, sink: Sink) -> None:
        """Hand over no more than the transport takes: what it has is lost with it, the rest is not."""
        frames = self._frames
        start = stop = 0
        while stop < len(frames) and sink.writable:
            size = 0
            while stop < len(frames) and size < _INLINE:
                size += len(frames[stop])
                stop += 1
            sink.write(b"".join(frames[start:stop]))
            self.size -= size
            start = stop
        del frames[:start]

    def attach(self, sink: Sink) -> None:
        """Write to `sink` from now on, beginning with what waits."""
        self._sink = sink
        self.flush()

    def detach(self) -> None:
        """Stop writing; keep what was published, drop what belonged to the session."""
        self._sink = None
        self._frames = [frame for frame in self._frames if type(frame) is not SessionFrame]
        self.size = sum(map(len, self._frames))

    def drop_larger(self, max_payload: int) -> int:
        """Drop the messages that are larger than `max_payload` bytes; returns how many."""
        kept = [frame for frame in self._frames if _payload_size(frame) <= max_payload]
        dropped = len(self._frames) - len(kept)
        self._frames = kept
        self.size = sum(map(len, kept))
        return dropped

    def close(self, error: Error) -> None:
        """Drop everything; whoever waits for back-pressure gets `error`."""
        self._sink = None
        self._closed = error
        self._limit = -1
        self._frames = []
        self.size = 0
        self._signal.wake()

    async def _drained(self) -> None:
        await asyncio.sleep(0)
        deadline = self._loop.time() + self._drain_timeout
        while self.size >= _TURN:
            if not await self._signal.wait(deadline - self._loop.time()) and self.size >= _TURN:
                raise Timeout(
                    f"{self.size} bytes still wait to be written after {self._drain_timeout} s",
                    hint="The server does not take them, or the connection is down; they stay queued",
                )
        if self._closed is not None:
            raise ConnectionClosed("the connection closed before everything was written") from self._closed


def _payload_size(frame: bytes) -> int:
    """What PUB and HPUB announce, the last number of their first line; 0 for anything else."""
    if not frame.startswith((b"PUB ", b"HPUB ")):
        return 0
    return int(frame[: frame.index(b"\r\n")].rpartition(b" ")[2])
