"""The frames that wait to be written: in order, joined once per turn of the loop, with back-pressure.

The outbox outlives the transports. While disconnected it keeps published frames; when a transport breaks it
keeps those not yet handed to it, except the frames that set up the session, which every session writes again.
So nothing is lost silently: a frame is written, kept, or refused with an error. A request whose caller gave
up is withdrawn: it must not act when the connection is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Final

from jetspark.core.signal import Signal
from jetspark.core.transport import Transport
from jetspark.errors import ConnectionClosed, Error, OutboundBufferFull, StaleConnection, Timeout
from jetspark.wire import FrameQueue, encode

__all__ = ["TURN", "Outbox"]

#: From this many waiting bytes on, awaiting a write lets the loop run (and the socket drain) first.
TURN: Final = 128 * 1024
#: From this many on, they are handed to the transport at once: the caller may not await.
_INLINE: Final = 1024 * 1024
#: The server takes no longer first line of a message.
_FIRST_LINE: Final = 4096
#: Most PONGs that wait. A server needs the last one only.
_PONGS: Final = 1024


class SessionFrame(bytes):
    """Frames of one session only: dropped when the transport breaks, the next session writes its own."""

    __slots__ = ()


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
        "_limit",
        "_loop",
        "_pongs",
        "_scheduled",
        "_signal",
        "_sink",
        "control_limit",
        "done",
        "drained",
        "queue",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, drain_timeout: float) -> None:
        self._loop = loop
        self._limit = limit
        self._drain_timeout = drain_timeout
        #: Bytes of session frames that may wait beyond the limit: more than a million subscriptions.
        self.control_limit = 64 * 1024 * 1024
        #: The result of most writes: awaiting a future that is done costs next to nothing.
        self.done: asyncio.Future[None] = loop.create_future()
        self.done.set_result(None)
        #: Waits for back-pressure when it is awaited. Raises `Timeout` and `ConnectionClosed`.
        self.drained: Awaitable[None] = _Drained(self)
        #: The frames. Its own `publish` adds to them too: it has room while a flush is scheduled.
        self.queue = FrameQueue()
        self._sink: Transport | None = None
        self._scheduled = False
        self._pongs = 0
        self._signal = Signal()
        self._closed: Error | None = None

    @property
    def size(self) -> int:
        """Bytes that wait, connected or not."""
        return self.queue.size

    def write(self, frame: bytes) -> Awaitable[None]:
        """Queue whole frames. Awaiting the result waits for back-pressure, and is optional.

        Raises `OutboundBufferFull` when the limit is reached; the frame was not queued then.
        """
        queue = self.queue
        size = queue.size + len(frame)
        if size > self._limit:
            if self._closed is not None:
                raise ConnectionClosed("the connection is closed") from self._closed
            self.flush()
            size = queue.size + len(frame)
            if size > self._limit:
                raise OutboundBufferFull(
                    f"{queue.size} bytes wait to be written, the limit is {self._limit}",
                    hint="Await publish() so that it can wait for the network, or raise `pending_size`",
                )
        queue.size = size
        queue.frames.append(frame)
        if not self._scheduled:
            self._schedule()
        if size < TURN:
            return self.done
        if size >= _INLINE:
            self.flush()
        return self.drained

    def write_many(self, frames: list[bytes]) -> None:
        """Queue frames without checking the limit, and flush: the caller bounds them by `size`.

        Raises `ConnectionClosed`.
        """
        if self._closed is not None:
            raise ConnectionClosed("the connection is closed") from self._closed
        self.queue.frames += frames
        self.queue.size += sum(map(len, frames))
        self.flush()

    def write_control(self, frame: bytes) -> None:
        """Queue frames of the session itself: small, not subject to the limit, dropped at a disconnect.

        They cannot be dropped, and a server can provoke them: the connection is broken when too many wait.
        """
        self.queue.size += len(frame)
        self.queue.frames.append(SessionFrame(frame))
        if not self._scheduled:
            self._schedule()
        if self.queue.size > self._limit + self.control_limit:
            self.flush()
            if self._sink is not None and self.queue.size > self._limit + self.control_limit:
                self._sink.fail(StaleConnection(f"the server does not read: {self.queue.size} bytes wait"))

    def answer_ping(self) -> None:
        """Write a PONG before everything else that waits."""
        self._pongs = min(self._pongs + 1, _PONGS)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self.queue.room = min(_INLINE, self._limit + 1)
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand everything to the transport, if there is one and it is writable."""
        self._scheduled = False
        queue, sink = self.queue, self._sink
        queue.room = 0
        if sink is None:
            return
        if not sink.writable:
            # It calls this again when it is; until then frames are only kept.
            queue.room = self._limit + 1
            return
        if self._pongs:
            sink.write(encode.PONG * self._pongs)
            self._pongs = 0
        if not queue.frames:
            return
        if queue.size > 2 * _INLINE:
            self._flush_much(sink)
        else:
            frames, queue.frames = queue.frames, []
            queue.size = 0
            sink.write(frames[0] if len(frames) == 1 else b"".join(frames))
        self._signal.wake()

    def _flush_much(self, sink: Transport) -> None:
        """Stop when the transport is no longer writable: frames handed to it are lost if it breaks."""
        frames = self.queue.frames
        start = stop = 0
        while stop < len(frames) and sink.writable:
            size = 0
            while stop < len(frames) and size < _INLINE:
                size += len(frames[stop])
                stop += 1
            sink.write(b"".join(frames[start:stop]))
            self.queue.size -= size
            start = stop
        del frames[:start]

    def attach(self, sink: Transport) -> None:
        """Write to `sink` from now on, waiting frames first."""
        self._sink = sink
        self.flush()

    def detach(self) -> None:
        """Stop writing; keep published frames, drop those of the session."""
        self._sink = None
        self._pongs = 0
        self._replace([frame for frame in self.queue.frames if type(frame) is not SessionFrame])

    def replies(self) -> set[bytes]:
        """The reply subjects of the messages that wait."""
        found = set()
        for frame in self.queue.frames:
            if frame.startswith((b"PUB ", b"HPUB ")):
                words = frame[: frame.index(b"\r\n")].split(b" ")
                if len(words) == (4 if words[0] == b"PUB" else 5):
                    found.add(words[2])
        return found

    def withdraw(self, reply: bytes) -> bool:
        """Drop the message with this unique reply subject. False if it does not wait: it was handed over."""
        frames = self.queue.frames
        word = b" %b " % reply
        for index, frame in enumerate(frames):
            if frame.find(word, 0, _FIRST_LINE) > 0:
                self.queue.size -= len(frame)
                del frames[index]
                return True
        return False

    def drop_larger(self, max_payload: int) -> int:
        """Drop the messages larger than `max_payload` bytes; returns how many."""
        kept = [frame for frame in self.queue.frames if _payload_size(frame) <= max_payload]
        dropped = len(self.queue.frames) - len(kept)
        self._replace(kept)
        return dropped

    def _replace(self, frames: list[bytes]) -> None:
        self.queue.frames = frames
        self.queue.size = sum(map(len, frames))

    def close(self, error: Error) -> None:
        """Drop everything; calls that wait for back-pressure raise `ConnectionClosed`."""
        self._sink = None
        self._closed = error
        self._limit = -1
        self.queue.room = 0
        self._replace([])
        self._signal.wake()

    async def _drained(self) -> None:
        await asyncio.sleep(0)
        deadline = self._loop.time() + self._drain_timeout
        while self.size >= TURN:
            if not await self._signal.wait(deadline - self._loop.time()) and self.size >= TURN:
                raise Timeout(
                    f"{self.size} bytes still wait to be written after {self._drain_timeout} s",
                    hint="The server does not read them, or the connection is down; they stay queued",
                )
        if self._closed is not None:
            raise ConnectionClosed("the connection closed before everything was written") from self._closed


def _payload_size(frame: bytes) -> int:
    """The size of a PUB or HPUB, the last number of its first line; 0 for anything else."""
    if not frame.startswith((b"PUB ", b"HPUB ")):
        return 0
    return int(frame[: frame.index(b"\r\n")].rpartition(b" ")[2])
