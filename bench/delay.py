"""A TCP proxy that delays every byte, in both directions, in a process of its own: a distant server.

Bytes do not wait for those before them, as on a long line: the delay limits answers, not the rate.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[str]:
    """The URL of a proxy of `port` on this machine."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.delay", str(port), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"nats://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


class Side(asyncio.Protocol):
    """One side of a connection. What arrives is written to `other` later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._later: deque[bytes] = deque()
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._later.append(data)
        asyncio.get_running_loop().call_later(self._seconds, self._forward)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def _forward(self) -> None:
        data = self._later.popleft()
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)


class Front(Side):
    """The side of the client, which opens the other one."""

    def __init__(self, port: int, seconds: float) -> None:
        super().__init__(seconds)
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        back = Side(self._seconds)
        back.other = self
        await loop.create_connection(lambda: back, "127.0.0.1", self._port)
        self.other = back


async def serve(port: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(port, seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # Ends with the process that started this one.


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
