"""A TCP proxy that misbehaves on request: stalls, cuts, refuses, delays and drops.

It runs in the event loop of the test. Closing it leaves no task and no socket behind.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from jetspark.server.ports import bind_free_port

__all__ = ["Filter", "TCPProxy"]

Filter = Callable[[bytes], bytes | None]
"""Gets each received chunk and returns the bytes to forward; `None` or `b""` drops it."""

logger = logging.getLogger("tests.proxy")

_HOST = "127.0.0.1"
_CHUNK = 256 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TCPProxy:
    """Forwards 127.0.0.1:`port` to a port of this machine.

    `client_to_server`, `server_to_client` and `delay` may be set at any time.
    """

    def __init__(
        self,
        target_port: int,
        *,
        client_to_server: Filter | None = None,
        server_to_client: Filter | None = None,
        scheme: str = "nats",
    ) -> None:
        self.target_port = target_port
        self.client_to_server = client_to_server
        self.server_to_client = server_to_client
        self.accepted = 0
        """The number of connections accepted so far."""
        self._scheme = scheme
        # Bound and not listening: nobody else takes the port while it refuses.
        self._holder = bind_free_port()
        self._port: int = self._holder.getsockname()[1]
        self._delay = 0.0
        self._cuts = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"{self._scheme}://{_HOST}:{self._port}"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    # --- faults

    def stall(self) -> None:
        """Forward nothing: both sides keep a dead connection. New connections are accepted."""
        logger.info("proxy: stall")
        self._flowing.clear()

    def unstall(self) -> None:
        """Forward again, starting with the bytes held back."""
        logger.info("proxy: unstall")
        self._flowing.set()

    def cut(self) -> int:
        """Reset all connections and return their number. They forward nothing more from now on."""
        logger.info("proxy: cut")
        self._cuts += 1
        for task in self._connections:
            task.cancel()
        return len(self._connections)

    def delay(self, seconds: float) -> None:
        """Delay each chunk, in both directions."""
        self._delay = seconds

    def refuse(self) -> None:
        """Stop listening: new connections are refused. Open ones stay; see `cut`."""
        logger.info("proxy: refuse")
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def accept(self) -> None:
        """Listen again, on the same port."""
        if self._listener is not None:
            return
        logger.info("proxy: accept")
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_HOST, self._port))
            listener.listen(128)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept_all(listener))

    # --- start and end

    async def __aenter__(self) -> Self:
        self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Refuse and cut connections, and wait until all tasks have ended."""
        tasks = {*self._connections, *([self._accepting] if self._accepting is not None else [])}
        self._holder.close()
        self.refuse()
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            client.setblocking(False)
            self.accepted += 1
            task = asyncio.create_task(self._connection(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            # A task cancelled before it has started does not reach its `finally`.
            task.add_done_callback(partial(_close, client))

    async def _connection(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = socket.socket()
        server.setblocking(False)
        try:
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._flowing.wait()
            await loop.sock_connect(server, (_HOST, self.target_port))
            await self._pump_both(client, server)
        except OSError:
            _reset(client, server)  # one side broke, so reset the other
        except asyncio.CancelledError:
            _reset(client, server)
            raise
        finally:
            client.close()
            server.close()

    async def _pump_both(self, client: socket.socket, server: socket.socket) -> None:
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(client, server, "client_to_server"))
                pumps.create_task(self._pump(server, client, "server_to_client"))
        except ExceptionGroup as group:
            if group.split(OSError)[1] is not None:
                raise  # a filter failed
            raise OSError("a side broke") from group

    async def _pump(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        loop = asyncio.get_running_loop()
        cuts = self._cuts
        while True:
            data: bytes | None = await loop.sock_recv(source, _CHUNK)
            await self._flowing.wait()
            if self._delay:
                await asyncio.sleep(self._delay)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            change: Filter | None = getattr(self, direction)
            if change is not None:
                data = change(data)
            if self._cuts != cuts:  # The cancellation arrives some turns of the loop later.
                raise OSError("the connection was cut")
            if data:
                await loop.sock_sendall(sink, data)


def _close(side: socket.socket, _: asyncio.Task[None]) -> None:
    side.close()


def _reset(*sides: socket.socket) -> None:
    """Make close() send RST instead of FIN."""
    for side in sides:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
