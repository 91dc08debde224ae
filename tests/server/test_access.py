"""Users, accounts, nkeys and TLS of an embedded server, as a client sees them."""

from __future__ import annotations

import ssl

import pytest

from jetspark.errors import ServerStartError
from jetspark.server import TLS, User, run
from tests.support.certs import Certificate, Certs
from tests.support.raw import RawClient

KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def trusting(certs: Certs, client: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certs.ca)
    if client is not None:
        context.load_cert_chain(client.cert_file, client.key_file)
    return context


def test_permissions_of_a_user_are_enforced() -> None:
    user = User(user="ann", password="a", publish_allow=["open.>"], subscribe_deny=["secret"])
    with run(users=[user]) as server, RawClient(server.port, user="ann", password="a") as client:
        client.send(b"PUB open.a 0\r\n\r\n")
        client.ping()
        for refused in (b"PUB closed 0\r\n\r\n", b"SUB secret 1\r\n"):
            client.send(refused)
            assert client.line().startswith(b"-ERR 'Permissions Violation")


def test_accounts_are_separate_and_have_jetstream() -> None:
    users = [User(user=name, password="p", account=name.upper()) for name in ("ann", "bob")]
    with run(users=users) as server:
        with RawClient(server.port, user="ann", password="p") as ann:
            ann.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
            assert ann.api("INFO")["streams"] == 1
        with RawClient(server.port, user="bob", password="p") as bob:
            assert bob.api("INFO")["streams"] == 0


def test_accounts_can_be_written_as_configuration_text() -> None:
    text = 'accounts { A { jetstream: enabled, users: [ { user: "a", password: "p" } ] } }'
    with run(config=text) as server, RawClient(server.port, user="a", password="p") as client:
        assert client.api("INFO")["streams"] == 0


def test_nkeys_are_accepted_and_asked_for() -> None:
    with run(nkeys=[KEY], users=[User(user="ann", password="a")]) as server:
        with RawClient(server.port, user="ann", password="a") as client:
            assert client.info["nonce"]
        with pytest.raises(PermissionError, match="Authorization Violation"):
            RawClient(server.port, nkey=KEY, sig="AAAA")


@pytest.mark.parametrize("first", [False, True])
def test_tls_after_or_before_info(certs: Certs, first: bool) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file, handshake_first=first)
    with run(tls=tls) as server:
        assert server.url == f"tls://127.0.0.1:{server.port}"
        with RawClient(server.port, tls=trusting(certs), tls_first=first) as client:
            assert client.api("INFO")["streams"] == 0
            assert client.info["tls_required"]
        with pytest.raises(ssl.SSLCertVerificationError):
            RawClient(server.port, tls=ssl.create_default_context(cafile=certs.other_ca), tls_first=first)


def test_a_client_certificate_can_be_demanded(certs: Certs) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file, ca_file=certs.ca, verify=True)
    with run(tls=tls) as server:
        with RawClient(server.port, tls=trusting(certs, certs.client)) as client:
            client.ping()
        for wrong in (None, certs.untrusted_client):
            with pytest.raises(OSError):
                RawClient(server.port, tls=trusting(certs, wrong))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("expired", "expired"), ("wrong_host", "mismatch"), ("untrusted", "unable to get local issuer")],
)
def test_each_bad_certificate_is_bad_in_its_own_way(certs: Certs, name: str, reason: str) -> None:
    bad: Certificate = getattr(certs, name)
    with (
        run(tls=TLS(cert_file=bad.cert_file, key_file=bad.key_file)) as server,
        pytest.raises(ssl.SSLCertVerificationError, match=reason),
    ):
        RawClient(server.port, tls=trusting(certs))


def test_a_certificate_is_replaced_by_a_reload(certs: Certs) -> None:
    def serial(port: int) -> object:
        context = trusting(certs)
        with RawClient(port, tls=context) as client:
            return client.certificate()["serialNumber"]

    with run(tls=TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)) as server:
        before = serial(server.port)
        server.reload(tls=TLS(cert_file=certs.renewed.cert_file, key_file=certs.renewed.key_file))
        assert serial(server.port) != before


def test_private_keys_are_for_the_owner_only(certs: Certs) -> None:
    assert certs.server.key_file.stat().st_mode & 0o777 == 0o600


def test_an_invalid_certificate_fails_with_the_servers_reason(certs: Certs) -> None:
    with pytest.raises(ServerStartError, match="certificate"):
        run(tls=TLS(cert_file=certs.server.key_file, key_file=certs.server.key_file))
