"""One TCP or TLS connection to one server: the asyncio protocol around the parser.

The read side parses each read in one pass and hands over all frames in one call, which must not raise: an
exception would break the connection. Until `start()` it keeps the frames for the handshake, which takes them
one by one. The write side lets the outbox know whether the socket keeps up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias, cast

from jetspark.core.signal import Signal
from jetspark.errors import ConnectionLost, RemoteProtocolError, Timeout
from jetspark.wire import AnyFrame, Parser

__all__ = ["Tap", "Transport"]

#: Observes the bytes: whether they are sent, and the bytes; received ones come in any split.
Tap: TypeAlias = Callable[[bool, bytes], None]

#: Bytes in asyncio's own buffer at which writing pauses. Further frames stay in the outbox, where they
#: survive a reconnect.
_HIGH_WATER: Final = 512 * 1024
#: Most bytes that a server may send before it has accepted the connection: INFO and a few short frames.
_MOST_EARLY: Final = 1024 * 1024


class Transport(asyncio.Protocol):
    """Reads frames, writes bytes. `on_lost` is called once, when the connection is lost."""

    #: Makes a tap for each new transport, to show the protocol; it must not raise.
    tap: ClassVar[Callable[[], Tap] | None] = None

    def __init__(self) -> None:
        self._tap = Transport.tap() if Transport.tap is not None else None
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._transport: asyncio.Transport | None = None
        self._early: list[AnyFrame] = []
        self._arrived = Signal()
        self._on_frames: Callable[[list[AnyFrame]], None] = self._keep
        self._on_lost: Callable[[Exception | None], None] | None = None
        self._error: Exception | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.writable = True
        #: Called when the socket is writable again.
        self.on_writable: Callable[[], None] = lambda: None
        self.bytes_received = 0
        self.bytes_sent = 0

    # --- for the connection

    def start(
        self, on_frames: Callable[[list[AnyFrame]], None], on_lost: Callable[[Exception | None], None]
    ) -> None:
        """End the handshake: from now on report frames and the loss of the connection."""
        self._on_frames = on_frames
        self._on_lost = on_lost
        early, self._early = self._early, []
        if early:
            on_frames(early)
        if self.closed.done():
            on_lost(self._error)

    def write(self, data: bytes) -> None:
        """Write bytes; never blocks. Look at `writable` before writing much."""
        if self._transport is not None and not self.closed.done():
            self.bytes_sent += len(data)
            if self._tap is not None:
                self._tap(True, data)
            self._transport.write(data)

    async def next_frame(self, deadline: float) -> AnyFrame:
        """The next frame of the handshake. Raises `Timeout`, or the error that broke the connection."""
        while not self._early:
            if self.closed.done():
                raise self._error or ConnectionLost("the server closed the connection")
            if not await self._arrived.wait(deadline - self._loop.time()) and not self._early:
                raise Timeout("the server did not answer in time")
        return self._early.pop(0)

    async def start_tls(self, context: ssl.SSLContext, hostname: str, timeout: float) -> None:
        """Upgrade to TLS. Raises `RemoteProtocolError` if the server sent more than INFO in the clear."""
        if self._early or self._parser.buffered or self._parser.error:
            raise RemoteProtocolError("the server sent more than INFO before the TLS handshake")
        assert self._transport is not None
        upgraded = await self._loop.start_tls(
            self._transport, self, context, server_hostname=hostname, ssl_handshake_timeout=max(timeout, 0.01)
        )
        self.connection_made(upgraded)

    def fail(self, error: Exception) -> None:
        """Break the connection because of `error`, without writing the buffered bytes."""
        if self._error is None:
            self._error = error
        self._abort()

    async def close(self, timeout: float) -> None:
        """Write the buffered bytes, close, and wait for that; abort after `timeout` seconds."""
        if self._transport is None:
            return
        self._transport.close()
        done, _ = await asyncio.wait([self.closed], timeout=timeout)
        if not done:
            self._transport.abort()
            await asyncio.wait([self.closed], timeout=1.0)

    # --- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport | None) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        self.bytes_received += len(data)
        if self._tap is not None:
            self._tap(False, data)
        try:
            frames = self._parser.feed(data)
        except RemoteProtocolError as error:
            self.fail(error)
            return
        if frames:
            self._on_frames(frames)
        if self._parser.error is not None:
            self.fail(self._parser.error)

    def eof_received(self) -> None:
        # A server that closes does not read: waiting until all is written would only delay the loss.
        self._abort()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed.done():
            return
        self._error = self._error or exc
        self.closed.set_result(None)
        self._arrived.wake()
        if self._on_lost is not None:
            self._on_lost(self._error)

    def _abort(self) -> None:
        self.writable = False  # So that the outbox keeps frames until the loss is known.
        if self._transport is not None:
            self._transport.abort()

    def _keep(self, frames: list[AnyFrame]) -> None:
        if self.bytes_received > _MOST_EARLY:
            self.fail(
                RemoteProtocolError(f"the server sent {self.bytes_received} bytes during the handshake")
            )
            return
        self._early += frames
        self._arrived.wake()
