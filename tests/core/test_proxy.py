"""Other ways to a server: SOCKS5 and HTTP proxies, and the user's own dialer."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

from jetspark import ConnectionError, Event, TLSError, UsageError, connect
from jetspark.server import TLS, Server
from tests.support.certs import Certs
from tests.support.proxies import HTTPProxy, SocksProxy
from tests.support.watch import Watch


@pytest.mark.parametrize("kind", [SocksProxy, HTTPProxy])
async def test_a_connection_goes_through_the_proxy_which_resolves_the_name(
    kind: type[SocksProxy | HTTPProxy], shared_server: Server, subject: str
) -> None:
    async with kind(connect_to=shared_server.port) as proxy:
        async with connect("nats://only.the.proxy.knows:4333", proxy=proxy.url) as nc:
            subscription = await nc.subscribe(subject)
            await nc.publish(subject, b"x" * 100_000)
            assert len((await subscription.next(60)).data) == 100_000
            await nc.reconnect(60)
        assert proxy.asked == [("only.the.proxy.knows", 4333)] * 2
        async with connect(shared_server.url, proxy=proxy.url):
            assert proxy.asked[-1] == ("127.0.0.1", shared_server.port)


@pytest.mark.parametrize("kind", [SocksProxy, HTTPProxy])
async def test_a_proxy_may_want_a_user(kind: type[SocksProxy | HTTPProxy], shared_server: Server) -> None:
    async with kind(user="me", password="hunter2") as proxy:
        async with connect(shared_server.url, proxy=proxy.url) as nc:
            await nc.flush()
        for wrong in (proxy.url.replace("hunter2", "hunter3"), proxy.url.replace("me:hunter2@", "")):
            with pytest.raises(ConnectionError, match="the proxy 127") as caught:
                await connect(shared_server.url, proxy=wrong)
            assert "hunter" not in str(caught.value)


async def test_websocket_and_tls_go_through_a_proxy(certs: Certs, shared_server: Server) -> None:
    async with SocksProxy() as proxy:
        async with connect(str(shared_server.websocket_url), proxy=proxy.url) as nc:
            await nc.flush()
        tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
        with Server(jetstream=False, tls=tls) as encrypted:
            async with connect(encrypted.url, proxy=proxy.url, tls_ca_file=certs.ca) as nc:
                await nc.flush()
            with pytest.raises(TLSError):
                await connect(encrypted.url, proxy=proxy.url)


@pytest.mark.parametrize(
    ("scheme", "answer", "complaint"),
    [
        ("socks5", b"", "closed the connection"),
        ("socks5", b"HTTP/1.1 400 Bad Request\r\n", "is not a SOCKS5 proxy"),
        ("socks5", b"\x05\x02", "needs user and password"),
        ("socks5", b"\x05\x00\x05\x05\x00\x01" + bytes(6), "connection refused"),
        ("socks5", b"\x05\x00\x05\x63\x00\x01" + bytes(6), "error 99"),
        ("http", b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "refused the connection .* 503"),
        ("http", b"\x05\x00\r\n\r\n", "refused the connection"),
        ("http", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "answered more than"),
        ("http", b"HTTP/1.1 200 OK\r\n", "closed the connection"),
    ],
)
async def test_what_a_proxy_answers_may_be_anything(scheme: str, answer: bytes, complaint: str) -> None:
    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        # The client may hang up as soon as it has read enough of the answer.
        with peer, suppress(OSError):
            peer.recv(1000)
            peer.sendall(answer)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(1000):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=[listener])
        serving.start()
        port = listener.getsockname()[1]
        with pytest.raises(ConnectionError, match=complaint):
            await connect("nats://far.away", proxy=f"{scheme}://127.0.0.1:{port}")
        await asyncio.to_thread(serving.join, 60)


async def test_a_proxy_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectionError, match=r"cannot connect to the proxy 127\.0\.0\.1:1: "):
        await connect("nats://far.away", proxy="http://127.0.0.1:1")


# --- the user's own dialer


async def test_a_dialer_may_be_plain_or_a_coroutine(shared_server: Server, watch: Watch) -> None:
    asked: list[tuple[str, int]] = []

    def plain(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.create_connection(("127.0.0.1", shared_server.port))

    async def coroutine(host: str, port: int) -> socket.socket:
        return plain(host, port)

    for dialer in (plain, coroutine):
        asked.clear()
        async with connect("nats://a.name:1", dialer=dialer, **watch.listeners) as nc:
            await nc.reconnect(60)
            assert nc.connected_url == "nats://a.name:1"
        assert asked == [("a.name", 1)] * 2
    assert watch.count(Event.RECONNECTED) == 2


@pytest.mark.parametrize("returned", [None, "socket", 5])
async def test_a_dialer_that_returns_no_socket_is_named(returned: Any) -> None:
    with pytest.raises(UsageError, match="dialer"):
        await connect("nats://host", dialer=lambda host, port: returned)


async def test_an_error_of_a_dialer_is_one_of_the_connection() -> None:
    def refuse(host: str, port: int) -> socket.socket:
        raise OSError("the tunnel is down")

    with pytest.raises(ConnectionError, match="cannot connect to host:4222: the tunnel is down"):
        await connect("nats://host", dialer=refuse)
