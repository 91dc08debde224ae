"""TLS: encrypted or failed, never half; nothing of ours leaves before the certificate is accepted."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jetspark import (
    AuthorizationError,
    ConnectionError,
    Event,
    RemoteProtocolError,
    Timeout,
    TLSError,
    UsageError,
    connect,
)
from jetspark.server import TLS, Server
from tests.support.certs import Certificate, Certs
from tests.support.proxy import TCPProxy
from tests.support.scripted import ScriptedServer
from tests.support.untyped import untyped
from tests.support.watch import Watch, eventually

USER: dict[str, Any] = {"user": "me", "password": "hunter2"}


@contextmanager
def tls_server(certificate: Certificate, *, config: str = "", **tls: Any) -> Iterator[Server]:
    options = TLS(cert_file=certificate.cert_file, key_file=certificate.key_file, **tls)
    with Server(jetstream=False, tls=options, trace=True, debug=True, config=config) as server:
        yield server


@pytest.fixture(scope="module")
def server(certs: Certs) -> Iterator[Server]:
    """A server that requires TLS, with a good certificate. It traces what it is sent."""
    with tls_server(certs.server) as running:
        yield running


async def refused(server: Server) -> None:
    """See that the server was not sent CONNECT: it logs all it gets, and the failed handshake after that."""
    await eventually(lambda: "TLS handshake error" in server.log(), "the failed handshake in the log")
    assert "[CONNECT" not in server.log()
    assert "hunter2" not in server.log()


def plain(url: str) -> str:
    return url.replace("tls://", "nats://")


# --- good


async def test_a_ca_file_is_enough(server: Server, certs: Certs, subject: str) -> None:
    for url in (server.url, f"tls://localhost:{server.port}"):
        for path in (certs.ca, str(certs.ca)):
            async with connect(url, tls_ca_file=path) as nc:
                subscription = await nc.subscribe(subject)
                await nc.publish(subject, bytes(500_000))
                assert len((await subscription.next()).data) == 500_000
                assert nc.connected_url == url


async def test_an_ssl_context_is_used_as_it_is(server: Server, certs: Certs) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with connect(server.url, tls=context) as nc:
        await nc.flush()
    relaxed = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    relaxed.check_hostname = False
    relaxed.verify_mode = ssl.CERT_NONE
    async with connect(server.url, tls=relaxed) as nc:
        await nc.flush()


async def test_a_server_that_requires_tls_gets_it_also_with_a_nats_url(server: Server, certs: Certs) -> None:
    async with connect(plain(server.url), tls_ca_file=certs.ca) as nc:
        assert nc.server_info.tls_required
        await nc.flush()


async def test_the_name_that_the_certificate_must_carry_can_be_given(certs: Certs) -> None:
    with tls_server(certs.wrong_host) as server:
        async with connect(server.url, tls_ca_file=certs.ca, tls_hostname="elsewhere.example") as nc:
            await nc.flush()


async def test_tls_is_used_where_it_is_offered_and_wanted(certs: Certs) -> None:
    with tls_server(certs.server, config="allow_non_tls: true") as server:
        async with connect(plain(server.url)) as nc:
            assert nc.server_info.tls_available
            assert nc.session.transport is not None
            assert not encrypted(nc)
        for url, options in (
            (plain(server.url), {"tls_ca_file": certs.ca}),
            (plain(server.url), {"tls": ssl.create_default_context(cafile=str(certs.ca))}),
            (server.url, {"tls_ca_file": certs.ca}),
        ):
            async with connect(url, **options) as nc:
                assert encrypted(nc)


def encrypted(nc: Any) -> bool:
    return nc.session.transport._transport.get_extra_info("ssl_object") is not None


# --- bad certificates


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (lambda certs: certs.expired, "expired"),
        (lambda certs: certs.wrong_host, "127.0.0.1"),
        (lambda certs: certs.untrusted, "certificate"),
    ],
)
async def test_a_bad_certificate_fails_before_connect_is_sent(
    certs: Certs, certificate: Callable[[Certs], Certificate], reason: str
) -> None:
    with tls_server(certificate(certs)) as server:
        for url in (server.url, plain(server.url)):
            with pytest.raises(TLSError, match=reason) as caught:
                await connect(url, tls_ca_file=certs.ca, **USER)
            assert f"127.0.0.1:{server.port}" in str(caught.value)
            assert caught.value.hint
        await refused(server)


async def test_the_system_roots_do_not_know_our_ca(certs: Certs) -> None:
    with tls_server(certs.server) as server:
        for options in ({}, {"tls": True}, {"tls": ssl.create_default_context()}):
            with pytest.raises(TLSError):
                await connect(server.url, **USER, **options)
        with pytest.raises(TLSError):
            await connect(plain(server.url), **USER)
        await refused(server)


async def test_another_ca_is_not_enough(certs: Certs) -> None:
    with tls_server(certs.server) as server:
        with pytest.raises(TLSError):
            await connect(server.url, tls_ca_file=certs.other_ca, **USER)
        await refused(server)


async def test_a_name_that_the_certificate_does_not_carry_fails(certs: Certs) -> None:
    with tls_server(certs.server) as server:
        with pytest.raises(TLSError, match=r"elsewhere\.example"):
            await connect(server.url, tls_ca_file=certs.ca, tls_hostname="elsewhere.example", **USER)
        await refused(server)


# --- no TLS where it was asked for


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("tls", {}),
        ("tls", {"tls": False}),
        ("nats", {"tls": True}),
        ("nats", {"tls": ssl.create_default_context()}),
        ("nats", {"tls_ca_file": "ca"}),
    ],
)
async def test_a_server_without_tls_is_sent_nothing(
    certs: Certs, scheme: str, options: dict[str, Any]
) -> None:
    if "tls_ca_file" in options:
        options = {"tls_ca_file": certs.ca}
    async with ScriptedServer() as server:
        with pytest.raises(TLSError, match="does not offer it"):
            await connect(f"{scheme}://127.0.0.1:{server.port}", **USER, **options)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""


async def test_a_real_server_without_tls_is_refused(shared_server: Server) -> None:
    with pytest.raises(TLSError, match="does not offer it"):
        await connect(f"tls://127.0.0.1:{shared_server.port}")


async def test_tls_false_refuses_a_server_that_requires_it() -> None:
    async with ScriptedServer(info={"tls_required": True}) as server:
        with pytest.raises(TLSError, match="requires TLS"):
            await connect(server.url, tls=False, **USER)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""


@pytest.mark.parametrize("injected", [b"INFO {}\r\n", b"PING\r\n", b"-ERR 'x'\r\n", b"MS", b"GARBAGE\r\n"])
async def test_plain_text_that_somebody_put_behind_info_is_refused(certs: Certs, injected: bytes) -> None:
    info = b"INFO %b\r\n" % json.dumps({"tls_required": True}).encode()
    async with ScriptedServer(greeting=info + injected) as server:
        with pytest.raises(RemoteProtocolError):
            await connect(server.url, tls_ca_file=certs.ca, **USER)
        peer = await server.peer()
        await peer.closed.wait()
        assert peer.raw == b""


# --- once encrypted, always encrypted


@pytest.fixture
def our_roots(certs: Certs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts our CA, so that no option has to ask for TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certs.ca))


@pytest.mark.usefixtures("our_roots")
async def test_a_reconnect_does_not_fall_back_to_plain_text(certs: Certs, watch: Watch) -> None:
    with tls_server(certs.server) as server:
        async with (
            ScriptedServer() as downgraded,
            connect(
                [plain(server.url), downgraded.url], shuffle_servers=False, **USER, **watch.listeners
            ) as nc,
        ):
            assert encrypted(nc)
            await asyncio.to_thread(server.stop)
            await watch.until(Event.DISCONNECTED)
            peer = await downgraded.peer()
            await peer.closed.wait()
            await eventually(lambda: isinstance(nc.last_error, TLSError), "the refusal")
            assert "encrypted before" in str(nc.last_error)
            assert peer.raw == b""


@pytest.mark.usefixtures("our_roots")
async def test_credentials_that_were_sent_over_tls_are_not_sent_in_the_clear(certs: Certs) -> None:
    with tls_server(certs.server, config='authorization { user: other, password: "other" }') as server:
        async with ScriptedServer() as clear:
            with pytest.raises(AuthorizationError):
                await connect([plain(server.url), clear.url], shuffle_servers=False, **USER)
            peer = await clear.peer()
            await peer.closed.wait()
            assert peer.raw == b""


@pytest.mark.usefixtures("our_roots")
@pytest.mark.parametrize(("host", "believed"), [("127.0.0.1", False), ("localhost", True)])
async def test_servers_that_were_listed_in_the_clear_need_the_name_that_was_given(
    server: Server, host: str, believed: bool
) -> None:
    """Whoever changes INFO on its way could name a server with a certificate of its own."""

    def inject(data: bytes) -> bytes:
        return data.replace(b"INFO {", b'INFO {"connect_urls":["evil.example:4222"],', 1)

    async with (
        TCPProxy(server.port, server_to_client=inject) as proxy,
        connect(f"nats://{host}:{proxy.port}", **USER) as nc,
    ):
        assert encrypted(nc)
        await nc.flush()
        found = [each for each in nc._link.pool if each.host == "evil.example"]
        assert [each.tls_name for each in found] == (["localhost"] if believed else [])


# --- client certificates


@pytest.fixture(scope="module")
def verifying(certs: Certs) -> Iterator[Server]:
    with tls_server(certs.server, ca_file=certs.ca, verify=True) as running:
        yield running


async def test_a_client_certificate_is_shown(verifying: Server, certs: Certs) -> None:
    async with connect(
        verifying.url,
        tls_ca_file=certs.ca,
        tls_cert_file=certs.client.cert_file,
        tls_key_file=certs.client.key_file,
    ) as nc:
        assert nc.server_info.tls_verify
        await nc.flush()


async def test_certificate_and_key_may_be_in_one_file(
    verifying: Server, certs: Certs, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(certs.client.cert_file.read_bytes() + certs.client.key_file.read_bytes())
    async with connect(verifying.url, tls_ca_file=certs.ca, tls_cert_file=both) as nc:
        await nc.flush()


async def test_a_missing_client_certificate_fails(verifying: Server, certs: Certs) -> None:
    with pytest.raises(ConnectionError):
        await connect(verifying.url, tls_ca_file=certs.ca)


async def test_an_untrusted_client_certificate_fails(verifying: Server, certs: Certs) -> None:
    with pytest.raises(ConnectionError):
        await connect(
            verifying.url,
            tls_ca_file=certs.ca,
            tls_cert_file=certs.untrusted_client.cert_file,
            tls_key_file=certs.untrusted_client.key_file,
        )


async def test_a_rotated_client_certificate_is_taken_at_the_next_connect(
    verifying: Server, certs: Certs, tmp_path: Path, watch: Watch
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(certificate: Certificate) -> None:
        shutil.copy(certificate.cert_file, cert)
        shutil.copy(certificate.key_file, key)

    install(certs.client)
    async with (
        TCPProxy(verifying.port, scheme="tls") as proxy,
        connect(
            proxy.url,
            tls_ca_file=certs.ca,
            tls_cert_file=cert,
            tls_key_file=key,
            reconnect_wait=0.01,
            **watch.listeners,
        ) as nc,
    ):
        install(certs.untrusted_client)
        accepted = proxy.accepted
        proxy.cut()
        await eventually(lambda: proxy.accepted >= accepted + 2, "attempts with the bad certificate")
        assert watch.count(Event.RECONNECTED) == 0
        install(certs.client)
        await watch.until(Event.RECONNECTED)
        await nc.flush()


async def present(server: Server, certificate: Certificate) -> None:
    """Let the server show another certificate; in a thread, as it waits for handshakes through the proxy."""
    tls = TLS(cert_file=certificate.cert_file, key_file=certificate.key_file)
    await asyncio.to_thread(server.reload, tls=tls)


async def test_a_rotated_server_certificate_is_checked_at_the_next_connect(
    certs: Certs, watch: Watch
) -> None:
    with tls_server(certs.server) as server:
        async with (
            TCPProxy(server.port, scheme="tls") as proxy,
            connect(proxy.url, tls_ca_file=certs.ca, reconnect_wait=0.01, **watch.listeners) as nc,
        ):
            await present(server, certs.untrusted)
            proxy.cut()
            await eventually(lambda: isinstance(nc.last_error, TLSError), "the refused certificate")
            await present(server, certs.renewed)
            await watch.until(Event.RECONNECTED)
            await nc.flush()


# --- handshake first


async def test_the_handshake_can_come_first(certs: Certs) -> None:
    with tls_server(certs.server, handshake_first=True) as server:
        async with connect(server.url, tls_ca_file=certs.ca, tls_handshake_first=True) as nc:
            assert encrypted(nc)
            await nc.flush()


async def test_a_server_that_waits_for_the_handshake_times_out_without_the_option(certs: Certs) -> None:
    with tls_server(certs.server, handshake_first=True) as server, pytest.raises(Timeout):
        await connect(server.url, tls_ca_file=certs.ca, connect_timeout=0.1)


async def test_with_handshake_first_a_bad_certificate_fails_before_connect_is_sent(certs: Certs) -> None:
    with tls_server(certs.untrusted, handshake_first=True) as server:
        with pytest.raises(TLSError):
            await connect(server.url, tls_ca_file=certs.ca, tls_handshake_first=True, **USER)
        await refused(server)


async def test_with_handshake_first_a_plain_server_is_sent_no_credentials(certs: Certs) -> None:
    async with ScriptedServer() as server:
        with pytest.raises(TLSError):
            await connect(server.url, tls_ca_file=certs.ca, tls_handshake_first=True, **USER)
        peer = await server.peer()
        await peer.closed.wait()
        assert b"CONNECT" not in peer.raw
        assert b"hunter2" not in peer.raw


async def test_with_handshake_first_what_follows_is_encrypted(certs: Certs) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certs.server.cert_file, certs.server.key_file)
    async with (
        ScriptedServer(tls=context) as server,
        connect(server.url, tls_ca_file=certs.ca, tls_handshake_first=True, **USER) as nc,
    ):
        assert encrypted(nc)
        assert (await server.peer()).connect["tls_required"] is True
        assert (await server.peer()).connect["user"] == "me"


# --- files


@pytest.mark.parametrize("option", ["tls_ca_file", "tls_cert_file"])
async def test_files_that_cannot_be_used_are_named(server: Server, tmp_path: Path, option: str) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for path in (tmp_path / "missing.pem", nonsense, tmp_path):
        with pytest.raises(UsageError, match=option):
            await connect(server.url, **untyped({option: path}))


async def test_a_key_that_does_not_fit_its_certificate_is_named(server: Server, certs: Certs) -> None:
    with pytest.raises(UsageError, match="tls_cert_file"):
        await connect(
            server.url,
            tls_ca_file=certs.ca,
            tls_cert_file=certs.client.cert_file,
            tls_key_file=certs.server.key_file,
        )
