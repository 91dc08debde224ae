"""WebSocket with the real server. The tests that use the fixtures `nc` and `other` run through it as well."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jetspark import (
    AuthorizationError,
    ConnectionLost,
    Event,
    RemoteProtocolError,
    TLSError,
    UsageError,
    connect,
)
from jetspark.core.options import Dialer
from jetspark.server import TLS, Server, User
from tests.support.certs import Certs
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {"jetstream": False, "websocket": True}


@asynccontextmanager
async def proxied(server: Server) -> AsyncIterator[tuple[TCPProxy, str]]:
    """A proxy in front of the WebSocket port, and the URL that leads through it."""
    port = int(str(server.websocket_url).rpartition(":")[2])
    async with TCPProxy(port) as proxy:
        yield proxy, f"ws://127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_000])
async def test_messages_of_every_size_arrive(shared_server: Server, subject: str, size: int) -> None:
    async with connect(str(shared_server.websocket_url)) as nc, connect(shared_server.url) as plain:
        mine, theirs = await nc.subscribe(subject), await plain.subscribe(subject)
        await plain.flush()
        data = bytes(index % 251 for index in range(size))
        await nc.publish(subject, data, headers={"n": "1"})
        assert (await mine.next(60)).data == data
        assert (await theirs.next(60)).data == data
        assert nc.connected_url == shared_server.websocket_url


async def test_a_cut_connection_reconnects_through_websocket(
    server: Server, watch: Watch, subject: str
) -> None:
    async with proxied(server) as (proxy, url), connect(url, reconnect_wait=0.01, **watch.listeners) as nc:
        subscription = await nc.subscribe(subject)
        await nc.flush()
        proxy.cut()
        await watch.until(Event.DISCONNECTED)
        await nc.publish(subject, b"kept")
        assert (await subscription.next(60)).data == b"kept"
        assert nc.connected_url == url
        assert watch.names == [Event.DISCONNECTED, Event.RECONNECTED]


async def test_a_server_that_stops_answering_is_found(server: Server, watch: Watch) -> None:
    async with (
        proxied(server) as (proxy, url),
        connect(url, ping_interval=0.05, reconnect_wait=0.01, **watch.listeners),
    ):
        proxy.stall()
        await watch.until(Event.DISCONNECTED)


async def test_a_server_that_ends_closes_the_websocket(server: Server, watch: Watch) -> None:
    async with connect(str(server.websocket_url), reconnect_wait=0.01, **watch.listeners) as nc:
        await asyncio.to_thread(server.restart)
        await watch.until(Event.RECONNECTED)
        await nc.flush()


async def test_credentials_are_used_and_refused() -> None:
    with Server(jetstream=False, websocket=True, users=[User(user="me", password="right")]) as server:
        url = str(server.websocket_url)
        async with connect(url, user="me", password="right") as nc:
            await nc.flush()
        async with connect(url.replace("://", "://me:right@")) as nc:
            await nc.flush()
        with pytest.raises(AuthorizationError):
            await connect(url, user="me", password="wrong")


async def test_wss_is_encrypted_and_verified(certs: Certs) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
    with Server(jetstream=False, websocket=True, tls=tls) as server:
        url = str(server.websocket_url)
        assert url.startswith("wss://")
        async with connect(url, tls_ca_file=certs.ca) as nc:
            await nc.flush()
            await nc.reconnect(60)
        with pytest.raises(TLSError, match="certificate"):
            await connect(url)
        with pytest.raises(TLSError, match="tls=False"):
            await connect(url, tls=False)
        with pytest.raises(TLSError, match="is not encrypted"):
            await connect(url.replace("wss://", "ws://"), tls_ca_file=certs.ca)


async def test_an_encrypted_connection_is_not_continued_in_the_clear(certs: Certs, server: Server) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
    with Server(jetstream=False, websocket=True, tls=tls) as encrypted:
        nc = await connect(
            [str(encrypted.websocket_url), str(server.websocket_url)],
            shuffle_servers=False,
            reconnect_wait=0.01,
            tls_ca_file=certs.ca,
        )
        async with nc:
            await nc.reconnect(60)
            assert nc.connected_url == encrypted.websocket_url
            assert isinstance(nc.last_error, TLSError)


# --- the upgrade


def answering(answer: bytes, requests: list[bytes]) -> Dialer:
    """A dialer whose server reads one request, answers with these bytes, and closes."""

    def dial(host: str, port: int) -> socket.socket:
        mine, theirs = socket.socketpair()

        def serve() -> None:
            with theirs:
                requests.append(theirs.recv(4096))
                theirs.sendall(answer)

        threading.Thread(target=serve).start()
        return mine

    return dial


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", AuthorizationError),
        (b"INFO {}\r\n", RemoteProtocolError),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", RemoteProtocolError),
    ],
)
async def test_a_server_that_does_not_upgrade_is_told(answer: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="WebSocket"):
        await connect("ws://some.host", dialer=answering(answer, []))


async def test_the_port_of_plain_nats_is_told(shared_server: Server) -> None:
    with pytest.raises(RemoteProtocolError, match="not HTTP") as caught:
        await connect(f"ws://127.0.0.1:{shared_server.port}")
    assert "WebSocket port" in str(caught.value.hint)


async def test_headers_are_sent_with_the_upgrade_and_may_come_from_a_function() -> None:
    for headers in ({"Authorization": "Bearer x"}, lambda: {"Authorization": "Bearer x"}):
        requests: list[bytes] = []
        dialer = answering(b"", requests)
        with pytest.raises(ConnectionLost):
            await connect("ws://some.host/some/path?x=1", websocket_headers=headers, dialer=dialer)
        (request,) = requests
        assert request.startswith(b"GET /some/path?x=1 HTTP/1.1\r\nHost: some.host\r\n")
        assert b"\r\nAuthorization: Bearer x\r\n" in request
        assert b"xtensions" not in request


async def test_a_function_that_returns_bad_headers_is_named(server: Server) -> None:
    for bad in (None, {"X": "a\r\nb"}, {"Upgrade": "x"}):
        with pytest.raises(UsageError, match="websocket_headers"):
            await connect(str(server.websocket_url), websocket_headers=lambda bad=bad: bad)
