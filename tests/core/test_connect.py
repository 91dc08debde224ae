"""The first connect: which server is taken, how long it may take, and what is said when it fails."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from jetspark import (
    ConnectionError,
    Error,
    NoServersError,
    RemoteProtocolError,
    ServerError,
    Timeout,
    UsageError,
    connect,
)
from jetspark.server import Server
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else is given."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def chain(error: BaseException) -> list[BaseException]:
    """The error and its causes; a loop among them would never end."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        assert cause not in causes, "an error is its own cause"
        causes.append(cause)
        cause = cause.__cause__
    return causes


async def test_a_server_that_is_not_there_is_named(dead_port: int) -> None:
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{dead_port}") as caught:
        await connect(f"nats://127.0.0.1:{dead_port}")
    assert isinstance(caught.value, OSError)
    assert len(chain(caught.value)) == 2


async def test_a_host_that_cannot_be_resolved_is_named() -> None:
    with pytest.raises(ConnectionError, match=r"nowhere\.invalid"):
        await connect("nats://nowhere.invalid:4222", connect_timeout=60)


async def test_when_no_server_answers_each_gets_its_reason(dead_port: int) -> None:
    async with ScriptedServer(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as strange:
        with pytest.raises(NoServersError) as caught:
            await connect([f"nats://127.0.0.1:{dead_port}", strange.url])
        message = str(caught.value)
        assert f"127.0.0.1:{dead_port}" in message
        assert f"127.0.0.1:{strange.port}" in message
        assert caught.value.hint


async def test_dead_servers_are_passed_over(shared_server: Server, dead_port: int) -> None:
    for shuffle in (True, False):
        servers = [f"nats://127.0.0.1:{dead_port}", shared_server.url]
        async with connect(servers, shuffle_servers=shuffle) as nc:
            assert nc.connected_url == shared_server.url
    async with connect(",".join(servers), shuffle_servers=False) as nc:
        assert nc.connected_url == shared_server.url


async def test_without_shuffling_the_first_server_is_taken(shared_server: Server) -> None:
    async with ScriptedServer() as first:
        for _ in range(5):
            async with connect([first.url, shared_server.url], shuffle_servers=False) as nc:
                assert nc.connected_url == first.url


async def test_small_writes_are_not_delayed(shared_server: Server) -> None:
    for host in ("127.0.0.1", "localhost"):
        async with connect(f"nats://{host}:{shared_server.port}") as nc:
            assert nc.session.transport is not None
            assert nc.session.transport._transport is not None
            sock = nc.session.transport._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_host_and_port_are_enough(shared_server: Server) -> None:
    async with connect(f"127.0.0.1:{shared_server.port}") as nc:
        assert nc.connected_url == shared_server.url
    async with connect(f"localhost:{shared_server.port}") as nc:
        assert nc.connected_url == f"nats://localhost:{shared_server.port}"


async def test_connect_timeout_counts_for_a_server_that_says_nothing(proxy: TCPProxy) -> None:
    proxy.stall()
    with pytest.raises(Timeout, match=rf"127.0.0.1:{proxy.port} did not answer within 0\.05 s"):
        await connect(proxy.url, connect_timeout=0.05)


async def test_connect_timeout_counts_for_a_server_that_does_not_accept() -> None:
    async with ScriptedServer(answers_pings=False) as server:
        with pytest.raises(Timeout, match=rf"127.0.0.1:{server.port} did not answer"):
            # A busy machine needs some of the time to reach the server.
            await connect(server.url, connect_timeout=1)
        await (await server.peer()).closed.wait()


async def test_connect_timeout_counts_for_a_tls_handshake_that_hangs() -> None:
    async with ScriptedServer(info={"tls_required": True}) as server:
        with pytest.raises(Timeout, match=rf"127.0.0.1:{server.port} did not answer"):
            await connect(server.url, connect_timeout=0.05)


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail.example ESMTP\r\n",
        b"PING\r\n",
        b"+OK\r\n",
        b"INFO not json\r\n",
        b'INFO {"max_payload": []}\r\n',
        b"INFO []\r\n",
        b"INFO \r\n",
        b"MSG a 1 1\r\nx\r\n",
        b"\x16\x03\x01\r\n",
        b"x" * 100_000,
    ],
)
async def test_a_peer_that_does_not_speak_nats_is_a_protocol_error(greeting: bytes) -> None:
    async with ScriptedServer(greeting=greeting) as server:
        with pytest.raises(RemoteProtocolError):
            await connect(server.url)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""


async def test_garbage_behind_info_is_a_protocol_error() -> None:
    async with ScriptedServer(greeting=b"INFO {}\r\nGARBAGE\r\n") as server:
        with pytest.raises(RemoteProtocolError):
            await connect(server.url)


async def test_messages_before_the_connection_stands_are_a_protocol_error() -> None:
    async with ScriptedServer(greeting=b"INFO {}\r\nMSG a 1 1\r\nx\r\n") as server:
        with pytest.raises(RemoteProtocolError):
            await connect(server.url)


async def test_a_server_that_closes_at_once_is_a_connection_error() -> None:
    async with ScriptedServer(greeting=b"") as server:

        async def close() -> None:
            (await server.peer()).close()

        closing = asyncio.create_task(close())
        with pytest.raises(ConnectionError) as caught:
            await connect(server.url)
        assert len(chain(caught.value)) == 1
        await closing


async def test_what_the_server_says_before_it_closes_is_the_reason() -> None:
    async with ScriptedServer(greeting=b"-ERR 'maximum connections exceeded'\r\n") as server:
        with pytest.raises(ServerError, match="maximum connections exceeded"):
            await connect(server.url)


async def test_the_server_limit_of_connections_is_the_reason() -> None:
    with Server(jetstream=False, config="max_connections: 3") as server:
        async with AsyncExitStack() as opened:

            async def open_many() -> None:
                for _ in range(4):
                    await opened.enter_async_context(connect(server.url))

            with pytest.raises(ServerError, match="maximum connections exceeded"):
                await open_many()


async def test_a_function_for_a_secret_that_fails_fails_the_connect() -> None:
    def broken() -> str:
        raise LookupError("the vault is closed")

    async with ScriptedServer() as server:
        with pytest.raises(LookupError, match="vault"):
            await connect(server.url, token=broken)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""


async def test_bad_options_fail_before_anything_is_awaited() -> None:
    with pytest.raises(UsageError):
        connect("http://127.0.0.1")
    with pytest.raises(UsageError):
        connect(connect_timeout=-1)


async def test_every_failure_is_an_error_of_ours(dead_port: int) -> None:
    for url in (f"127.0.0.1:{dead_port}", "nats://nowhere.invalid", f"[::1]:{dead_port}"):
        with pytest.raises(Error):
            await connect(url, connect_timeout=1)
