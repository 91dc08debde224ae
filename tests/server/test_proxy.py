"""The TCP proxy of the fault tests: every fault has its effect on a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jetspark.server import Server
from tests.support.proxy import TCPProxy

DEADLINE = 10.0


class Echo:
    """A server that sends everything back."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.received += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    listener = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield echo


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> Client:
        async with asyncio.timeout(DEADLINE):
            return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(DEADLINE):
            return await self.reader.readexactly(size)

    async def echoed(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.read(len(data))

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


async def silent(client: Client) -> bool:
    """Whether nothing arrives although the loop and the kernel had time for it."""
    try:
        async with asyncio.timeout(0.1):
            await client.reader.read(1)
    except TimeoutError:
        return True
    return False


async def test_it_forwards_both_ways_and_closes_when_the_client_does(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        assert proxy.url == f"nats://127.0.0.1:{proxy.port}"
        client = await Client.to(proxy.port)
        assert await client.echoed(b"x" * 1_000_000) == b"x" * 1_000_000
        client.writer.write_eof()
        async with asyncio.timeout(DEADLINE):
            assert await client.reader.read() == b""
            await client.close()
            while proxy.connections:
                await asyncio.sleep(0.001)
        assert proxy.accepted == 1


async def test_a_stalled_connection_stays_open_and_goes_on_where_it_was(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        client = await Client.to(proxy.port)
        assert await client.echoed(b"a") == b"a"
        proxy.stall()
        client.writer.write(b"bc")
        late = await Client.to(proxy.port)  # accepted
        late.writer.write(b"d")
        assert await silent(client)
        assert await silent(late)
        assert bytes(echo.received) == b"a"
        proxy.unstall()
        assert await client.read(2) == b"bc"
        assert await late.read(1) == b"d"
        await client.close()
        await late.close()


async def test_cut_resets_every_connection(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        clients = [await Client.to(proxy.port) for _ in range(3)]
        for client in clients:
            await client.echoed(b"x")
        assert proxy.cut() == 3
        for client in clients:
            with pytest.raises(ConnectionResetError):
                await client.read(1)
            await client.close()
        again = await Client.to(proxy.port)
        assert await again.echoed(b"y") == b"y"
        await again.close()


async def test_cut_reaches_connections_that_are_stalled(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        proxy.stall()
        client = await Client.to(proxy.port)
        while not proxy.connections:
            await asyncio.sleep(0)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await client.read(1)
        await client.close()


async def test_refuse_keeps_connections_and_accept_opens_the_same_port(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        port = proxy.port
        client = await Client.to(port)
        await client.echoed(b"x")
        proxy.refuse()
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await Client.to(port)
        assert await client.echoed(b"y") == b"y"
        proxy.accept()
        assert proxy.port == port
        other = await Client.to(port)
        assert await other.echoed(b"z") == b"z"
        await client.close()
        await other.close()


async def test_a_target_that_is_gone_resets_the_client(echo: Echo) -> None:
    async with TCPProxy(1) as proxy:
        client = await Client.to(proxy.port)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.read(1)
        await client.close()


async def test_delay_holds_data_but_loses_none(echo: Echo) -> None:
    async with TCPProxy(echo.port) as proxy:
        client = await Client.to(proxy.port)
        await client.echoed(b"x")
        proxy.delay(0.05)
        start = asyncio.get_running_loop().time()
        assert await client.echoed(b"slow") == b"slow"
        assert asyncio.get_running_loop().time() - start >= 0.09  # twice through: a lower bound, not a race
        proxy.delay(0)
        await client.close()


async def test_filters_change_and_drop_what_passes(echo: Echo) -> None:
    async with TCPProxy(echo.port, client_to_server=bytes.upper) as proxy:
        client = await Client.to(proxy.port)
        assert await client.echoed(b"abc") == b"ABC"
        proxy.client_to_server = lambda data: None if b"drop" in data else data
        client.writer.write(b"drop")
        assert await silent(client)
        proxy.server_to_client = lambda data: data.replace(b"e", b"3")
        assert await client.echoed(b"keep") == b"k33p"
        assert bytes(echo.received) == b"ABCkeep"
        await client.close()


async def test_closing_leaves_no_tasks(echo: Echo) -> None:
    before = asyncio.all_tasks()
    async with TCPProxy(echo.port) as proxy:
        clients = [await Client.to(proxy.port) for _ in range(3)]
        await clients[0].echoed(b"x")
        proxy.stall()
    left = {task for task in asyncio.all_tasks() - before if "Proxy" in str(task.get_coro())}
    assert not left
    for client in clients:
        await client.close()


async def test_the_fixture_stands_in_front_of_a_real_server(proxy: TCPProxy, server: Server) -> None:
    client = await Client.to(proxy.port)
    async with asyncio.timeout(DEADLINE):
        assert (await client.reader.readline()).startswith(b"INFO ")
    await client.close()
    assert server.running
