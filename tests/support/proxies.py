"""Proxies for tests: SOCKS5 and HTTP CONNECT, on loopback, which note what they are asked for."""

from __future__ import annotations

import asyncio
import base64
from types import TracebackType
from typing import Self

from jetspark.server.ports import bind_free_port

__all__ = ["HTTPProxy", "SocksProxy"]


class _Proxy:
    scheme = ""

    def __init__(self, *, user: str = "", password: str = "", connect_to: int = 0) -> None:
        self.login = f"{user}:{password}" if user else ""
        self.asked: list[tuple[str, int]] = []
        """The addresses that clients asked for."""
        self._connect_to = connect_to
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        login = f"{self.login}@" if self.login else ""
        return f"{self.scheme}://{login}127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, sock=bind_free_port())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            target = await self._negotiate(reader, writer)
            if target is None:
                return
            self.asked.append(target)
            # Names of tests do not exist: all lead to the same port.
            port = self._connect_to or target[1]
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await self._opened(writer)
            # Both to their ends: a side that breaks closes the other one, whose task ends a moment later.
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer), return_exceptions=True)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _negotiate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        raise NotImplementedError

    async def _opened(self, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


class SocksProxy(_Proxy):
    scheme = "socks5"

    async def _negotiate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if self.login:
            if 2 not in methods:
                writer.write(b"\x05\xff")
                return None
            writer.write(b"\x05\x02")
            await reader.readexactly(1)
            user = await reader.readexactly((await reader.readexactly(1))[0])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            accepted = f"{user.decode()}:{password.decode()}" == self.login
            writer.write(b"\x01\x00" if accepted else b"\x01\x01")
            if not accepted:
                return None
        else:
            writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        return host, int.from_bytes(await reader.readexactly(2), "big")

    async def _opened(self, writer: asyncio.StreamWriter) -> None:
        # A name as the bound address, which a client must read to its end.
        writer.write(b"\x05\x00\x00\x03\x05proxy\x00\x01")


class HTTPProxy(_Proxy):
    scheme = "http"

    async def _negotiate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        verb, target, _ = request.partition("\r\n")[0].split(" ")
        assert verb == "CONNECT"
        if self.login:
            secret = base64.b64encode(self.login.encode()).decode()
            if f"Proxy-Authorization: Basic {secret}" not in request:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return None
        host, _, port = target.rpartition(":")
        return host, int(port)

    async def _opened(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
