"""A transport through WebSocket: the one for TCP, with a layer of frames below it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any, cast

from jetspark.core.transport import Transport
from jetspark.errors import ConnectionLost, Error
from jetspark.wire.websocket import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    Decoder,
    encode_frame,
    read_answer,
    upgrade_request,
)

__all__ = ["WebSocketTransport"]

#: Close without an error (RFC 6455, 7.4.1).
_NORMAL = (1000).to_bytes(2, "big")


class WebSocketTransport(Transport):
    """Reads frames and writes bytes, as `Transport` does; each write is one WebSocket message."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = Decoder()
        self._key = secrets.token_bytes(16)
        self._answer = b""
        self._upgraded: asyncio.Future[None] = self._loop.create_future()
        self._frames: _Frames | None = None

    async def upgrade(self, host: str, path: str, headers: Iterable[tuple[str, str]]) -> None:
        """Ask the server for WebSocket. Raises `AuthorizationError` and `RemoteProtocolError`."""
        assert self._frames is not None
        self._frames.inner.write(upgrade_request(host, path, self._key, headers))
        await self._upgraded

    # --- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport | None) -> None:
        self._frames = _Frames(cast(asyncio.Transport, transport))
        super().connection_made(cast(asyncio.Transport, self._frames))

    def data_received(self, data: bytes) -> None:
        try:
            if not self._upgraded.done():
                self._answer += data
                size = read_answer(self._answer, self._key)
                if size is None:
                    return
                data, self._answer = self._answer[size:], b""
                self._upgraded.set_result(None)
            payload, controls = self._decoder.feed(data)
        except Error as error:
            self.fail(error)
            return
        if payload:
            super().data_received(payload)
        for opcode, content in controls:
            if opcode == PING and self._frames is not None:
                self._frames.send(PONG, content)
            elif opcode == CLOSE:
                self.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._upgraded.done():
            error = self._error or ConnectionLost("the server closed the connection")
            self._upgraded.set_exception(error)
            self._upgraded.exception()  # Mark it as seen: the caller may no longer wait.


class _Frames:
    """The part of an asyncio transport that `Transport` uses; writes WebSocket frames to `inner`."""

    def __init__(self, inner: asyncio.Transport) -> None:
        self.inner = inner
        self.abort = inner.abort

    def write(self, data: bytes) -> None:
        self.send(BINARY, data)

    def send(self, opcode: int, data: bytes) -> None:
        self.inner.write(encode_frame(opcode, data, secrets.token_bytes(4)))

    def set_write_buffer_limits(self, **limits: Any) -> None:
        self.inner.set_write_buffer_limits(**limits)

    def close(self) -> None:
        if not self.inner.is_closing():
            self.send(CLOSE, _NORMAL)
        self.inner.close()
