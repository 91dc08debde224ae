"""A NATS server that follows the test, for behaviour that the real server cannot be made to show.

It speaks the protocol with the project's own wire layer on a loopback socket: INFO, then PONG for every
PING. Everything else is up to the script:

    async with ScriptedServer() as server, connect(server.url) as nc:
        peer = await server.peer()                          # the first connection
        subscription = await nc.subscribe("orders.*")
        await peer.expect(SubFrame)                         # waits for the next frame of a kind
        peer.deliver("orders.eu", b"one")                   # to all that subscribed to the subject

    server.on("$JS.API.>", lambda peer, request: peer.answer(request, status="404 No Messages"))

Closing it leaves no task and no socket behind.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, cast

from jetspark.server.ports import bind_free_port
from jetspark.wire import AnyFrame, ConnectFrame, Parser, PingFrame, PubFrame, SubFrame, UnsubFrame, encode
from jetspark.wire.headers import HeadersLike, encode_headers
from jetspark.wire.subjects import subject_matches

__all__ = ["Handler", "Peer", "ScriptedServer"]

F = TypeVar("F", bound=AnyFrame)

#: The default INFO; the server's `info` argument overrides its fields.
INFO: dict[str, Any] = {
    "server_id": "SCRIPTED",
    "server_name": "scripted",
    "version": "2.11.0",
    "proto": 1,
    "headers": True,
    "max_payload": 1024 * 1024,
    "client_id": 1,
}


class Peer(asyncio.Protocol):
    """One connection of a client to the scripted server."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._parser = Parser("client")
        self._transport: asyncio.Transport | None = None
        self._changed = asyncio.Event()
        self._expected = 0
        self.raw = bytearray()
        """All bytes received, also those that are not NATS."""
        self.received: list[AnyFrame] = []
        """All frames received, in order."""
        self.subscriptions: dict[bytes, SubFrame] = {}
        """The open subscriptions by id. UNSUB with a number is not counted down."""
        self.closed = asyncio.Event()
        """Set when either side has closed the connection."""

    # --- received from the client

    async def expect(self, kind: type[F], where: Callable[[F], bool] = lambda _: True) -> F:
        """Return the next frame of this kind in order of arrival; earlier frames are skipped.

        Raises ConnectionError when the client goes before it sends one.
        """
        while True:
            while self._expected < len(self.received):
                frame = self.received[self._expected]
                self._expected += 1
                if isinstance(frame, kind) and where(cast(F, frame)):
                    return cast(F, frame)
            if self.closed.is_set():
                raise ConnectionError(f"the client left without a {kind.__name__}")
            self._changed.clear()
            await self._changed.wait()

    def all(self, kind: type[F]) -> list[F]:
        """Return the frames of this kind received so far."""
        return [frame for frame in self.received if isinstance(frame, kind)]

    @property
    def connect(self) -> dict[str, Any]:
        """The fields of CONNECT. Raises IndexError before it is received."""
        return cast("dict[str, Any]", json.loads(self.all(ConnectFrame)[0].json))

    # --- sent by the server

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self._transport is not None
        self._transport.write(data)

    def send_info(self, **changes: object) -> None:
        """Send an INFO, with these fields changed."""
        self.send(encode.info(json.dumps(self._server.info | changes).encode()))

    def deliver(
        self,
        subject: str,
        data: bytes = b"",
        *,
        reply: str = "",
        headers: HeadersLike | None = None,
        status: str = "",
    ) -> int:
        """Send to all matching subscriptions; returns their number. `status` is like "404 No Messages"."""
        block = _header_block(headers, status)
        sids = [
            sid
            for sid, subscription in self.subscriptions.items()
            if subject_matches(subscription.subject.decode(), subject)
        ]
        for sid in sids:
            self.send(encode.msg(sid, subject.encode(), reply.encode(), block, data))
        return len(sids)

    def answer(
        self,
        request: PubFrame,
        data: bytes = b"",
        *,
        reply: str = "",
        headers: HeadersLike | None = None,
        status: str = "",
    ) -> None:
        """Send a message to the reply subject of a published message."""
        assert request.reply, f"no answer is wanted to {request}"
        assert self.deliver(request.reply.decode(), data, reply=reply, headers=headers, status=status)

    def close(self) -> None:
        """Close the connection after the queued bytes."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server._joined(self)
        if self._server.greeting is None:
            self.send_info()
        elif self._server.greeting:
            self.send(self._server.greeting)

    def data_received(self, data: bytes) -> None:
        self.raw += data
        if self._parser.error is not None:
            return
        try:
            frames = self._parser.feed(data)
        except Exception:
            return  # Not NATS, such as a TLS handshake: `raw` has it.
        for frame in frames:
            self.received.append(frame)
            self._react(frame)
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._changed.set()

    def _react(self, frame: AnyFrame) -> None:
        match frame:
            case PingFrame() if self._server.answers_pings:
                self.send(encode.PONG)
            case SubFrame(sid):
                self.subscriptions[sid] = frame
            case UnsubFrame(sid, 0):
                self.subscriptions.pop(sid, None)
            case PubFrame(subject):
                self._server._published(self, frame, subject.decode("utf-8", "surrogateescape"))


#: Called with the connection and the message published on it.
Handler: TypeAlias = Callable[[Peer, PubFrame], None]


class ScriptedServer:
    """Listens on 127.0.0.1:`port`.

    `info` is laid over the default INFO; `greeting` is sent instead of INFO, `b""` for nothing. With
    `tls` every connection is encrypted from its first byte. `answers_pings` may be changed at any time.
    """

    def __init__(
        self,
        *,
        info: dict[str, Any] | None = None,
        greeting: bytes | None = None,
        tls: ssl.SSLContext | None = None,
        answers_pings: bool = True,
    ) -> None:
        self.info = INFO | (info or {})
        self.greeting = greeting
        self.answers_pings = answers_pings
        self.peers: list[Peer] = []
        """All connections in order, with those that have ended."""
        self._tls = tls
        self._handlers: list[tuple[str, Handler]] = []
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return cast(int, self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def on(self, pattern: str, handler: Handler) -> None:
        """Call `handler` with messages whose subject matches `pattern`; the first match counts."""
        self._handlers.append((pattern, handler))

    async def peer(self, number: int = 0) -> Peer:
        """Wait for the connection of this number, counted from 0."""
        while len(self.peers) <= number:
            self._changed.clear()
            await self._changed.wait()
        return self.peers[number]

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), sock=bind_free_port(), ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for peer in self.peers:
            peer.abort()
        for peer in self.peers:
            await peer.closed.wait()
        await self._server.wait_closed()

    def _joined(self, peer: Peer) -> None:
        self.peers.append(peer)
        self._changed.set()

    def _published(self, peer: Peer, frame: PubFrame, subject: str) -> None:
        for pattern, handler in self._handlers:
            if subject_matches(pattern, subject):
                handler(peer, frame)
                return


def _header_block(headers: HeadersLike | None, status: str) -> bytes:
    if headers is None and not status:
        return b""
    block = encode_headers(headers or {})
    return block.replace(b"NATS/1.0", b"NATS/1.0 " + status.encode(), 1) if status else block
