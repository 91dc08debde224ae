"""Certificates change while the connection lives."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jetspark import Connection, Event, TLSError, connect
from jetspark.server import TLS, Server
from tests.support.certs import Certificate, Certs
from tests.support.proxy import TCPProxy
from tests.support.watch import Watch, eventually


class Files:
    """Where the certificates in use are; they are changed by replacing the files."""

    def __init__(self, directory: Path) -> None:
        self.ca = directory / "ca-in-use.pem"
        self.cert = directory / "cert-in-use.pem"
        self.key = directory / "key-in-use.pem"

    def trust(self, ca: Path) -> None:
        _replace(ca, self.ca)

    def use(self, certificate: Certificate) -> None:
        _replace(certificate.cert_file, self.cert)
        _replace(certificate.key_file, self.key)


def _replace(source: Path, target: Path) -> None:
    shutil.copyfile(source, target.with_suffix(".new"))
    target.with_suffix(".new").chmod(0o600)
    target.with_suffix(".new").replace(target)


@pytest.fixture
def files(tmp_path: Path, certs: Certs) -> Files:
    files = Files(tmp_path)
    files.trust(certs.ca)
    files.use(certs.server)
    return files


@pytest.fixture
def nats_server_options(files: Files) -> dict[str, object]:
    return {"jetstream": False, "tls": TLS(cert_file=files.cert, key_file=files.key)}


def peer(nc: Connection) -> bytes:
    """The certificate that the server showed, in DER."""
    transport = nc.session.transport
    assert transport is not None
    assert transport._transport is not None
    shown: bytes = transport._transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return shown


def der(certificate: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.cert_file.read_text())


async def echoes(nc: Connection) -> None:
    subscription = await nc.subscribe("a")
    nc.publish("a", b"1")
    assert (await subscription.next(10)).data == b"1"


async def test_a_server_that_restarts_with_a_new_certificate_is_accepted(
    server: Server, files: Files, certs: Certs, watch: Watch
) -> None:
    async with connect(server.url, tls_ca_file=files.ca, **watch.listeners) as nc:
        assert peer(nc) == der(certs.server)
        files.use(certs.renewed)
        await asyncio.to_thread(server.restart)
        await watch.until(Event.RECONNECTED)
        assert peer(nc) == der(certs.renewed)
        await echoes(nc)


async def test_a_reloaded_certificate_is_used_by_the_next_connect(
    server: Server, files: Files, certs: Certs, watch: Watch
) -> None:
    async with connect(server.url, tls_ca_file=files.ca, **watch.listeners) as nc:
        files.use(certs.renewed)
        await asyncio.to_thread(server.reload)
        await echoes(nc)  # the standing connection is not touched
        assert watch.names == []
        async with connect(server.url, tls_ca_file=files.ca) as fresh:
            assert peer(fresh) == der(certs.renewed)


async def test_a_new_ca_file_of_the_client_is_taken_at_the_reconnect(
    server: Server, files: Files, certs: Certs, watch: Watch
) -> None:
    async with connect(server.url, tls_ca_file=files.ca, reconnect_wait=0.02, **watch.listeners) as nc:
        files.use(certs.untrusted)  # of the other CA
        await asyncio.to_thread(server.restart)
        await watch.until(Event.DISCONNECTED)
        await eventually(lambda: isinstance(nc.last_error, TLSError), "a refused certificate")
        assert watch.count(Event.RECONNECTED) == 0
        files.trust(certs.other_ca)
        await watch.until(Event.RECONNECTED)
        assert peer(nc) == der(certs.untrusted)
        await echoes(nc)


async def test_a_ca_file_that_is_missing_for_a_moment_is_read_again(
    server: Server, files: Files, certs: Certs, watch: Watch
) -> None:
    async with connect(server.url, tls_ca_file=files.ca, reconnect_wait=0.02, **watch.listeners) as nc:
        files.ca.unlink()
        await asyncio.to_thread(server.restart)
        await eventually(lambda: "tls_ca_file" in str(nc.last_error), "an attempt without the file")
        files.trust(certs.ca)
        await watch.until(Event.RECONNECTED)
        await echoes(nc)


@pytest.mark.parametrize("kind", ["expired", "wrong_host", "untrusted"])
async def test_a_server_that_comes_back_with_a_bad_certificate_gets_nothing(
    server: Server, files: Files, certs: Certs, watch: Watch, kind: str
) -> None:
    async with connect(server.url, tls_ca_file=files.ca, reconnect_wait=0.02, **watch.listeners) as nc:
        nc.publish("a", b"before")
        await nc.flush()
        files.use(getattr(certs, kind))
        await asyncio.to_thread(server.restart)
        nc.publish("a", b"secret")
        await eventually(lambda: isinstance(nc.last_error, TLSError), "a refused certificate")
        assert "is not accepted" in str(nc.last_error)
        assert watch.names == [Event.DISCONNECTED]


async def test_a_server_that_comes_back_without_tls_gets_nothing(
    server: Server, files: Files, watch: Watch
) -> None:
    received = b""

    def record(data: bytes) -> bytes:
        nonlocal received
        received += data
        return data

    async with TCPProxy(server.port, scheme="tls", client_to_server=record) as proxy:
        options: dict[str, Any] = {"tls_ca_file": files.ca, "reconnect_wait": 0.02}
        async with connect(proxy.url, **options, **watch.listeners) as nc:
            with Server(jetstream=False) as plain:
                proxy.target_port = plain.port
                received = b""
                proxy.cut()
                await eventually(lambda: isinstance(nc.last_error, TLSError), "an attempt without TLS")
                assert "does not offer it" in str(nc.last_error)
                assert received == b""
                assert watch.names == [Event.DISCONNECTED]


async def test_a_new_certificate_of_the_client_is_taken_at_the_reconnect(
    server: Server, files: Files, certs: Certs, tmp_path: Path, watch: Watch
) -> None:
    tls = TLS(cert_file=files.cert, key_file=files.key, ca_file=certs.ca, verify=True)
    await asyncio.to_thread(server.reload, tls=tls)
    mine = Files(tmp_path / "client")
    mine.ca.parent.mkdir()
    mine.use(certs.client)
    async with connect(
        server.url,
        tls_ca_file=files.ca,
        tls_cert_file=mine.cert,
        tls_key_file=mine.key,
        reconnect_wait=0.02,
        **watch.listeners,
    ) as nc:
        mine.use(certs.untrusted_client)
        await asyncio.to_thread(server.restart)
        await watch.until(Event.DISCONNECTED)
        lost = nc.last_error
        await eventually(lambda: nc.last_error is not lost, "a refused attempt")
        assert watch.count(Event.RECONNECTED) == 0
        mine.use(certs.client)
        await watch.until(Event.RECONNECTED)
        await echoes(nc)


@pytest.mark.faults
async def test_a_tls_connection_under_load_survives_kills(server: Server, files: Files, watch: Watch) -> None:
    async with connect(server.url, tls_ca_file=files.ca, **watch.listeners) as nc:
        subscription = await nc.subscribe("a", callback=lambda _: None)

        async def publish_for_ever() -> None:
            while True:
                await nc.publish("a", bytes(1000))

        publishing = asyncio.create_task(publish_for_ever())
        for round_ in range(1, 4):
            received = subscription.received
            await eventually(
                partial(lambda before: subscription.received > before + 100, received), "messages"
            )
            server.kill()
            await asyncio.to_thread(server.start)
            await watch.until(Event.RECONNECTED, round_)
        publishing.cancel()
        await asyncio.wait([publishing])
        await nc.flush()
