"""The connection of a Spark process: it waits for a server that is away, and not for permanent errors."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jetspark.errors import AuthorizationError, ConnectionError, TLSError, UsageError
from jetspark.server import TLS, Server, User, run
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
from tests.core.test_secrets import holds_secret
from tests.support.certs import Certs


def test_connecting_waits_for_a_server_that_is_away(server: Server) -> None:
    server.kill()
    coming = threading.Timer(1.0, server.start)
    coming.start()
    connection = process_connection(parse_options({"servers": server.url}).connection, retry_for=60)
    assert connection.run(connection.js.account_info()).streams == 0
    coming.join()


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with run(users=[User(user="a", password="b")]) as guarded:
        texts = {"servers": guarded.url, "user": "a", "passwordFile": str(path)}
        options = parse_options(texts).connection
        with pytest.raises(UsageError, match=r"option passwordFile: cannot read '.*secret': No such file"):
            process_connection(options, retry_for=60)
        path.write_text("\n")
        with pytest.raises(UsageError, match="is empty"):
            process_connection(options, retry_for=60)
        path.write_bytes(b"hunter2\xff")
        with pytest.raises(UsageError, match="it is not text") as caught:
            process_connection(options, retry_for=60)
        assert not holds_secret(caught.value)
        path.write_text("b\n")
        assert not process_connection(options, retry_for=60).closed
    with run(token="t0k3n") as guarded:
        path.write_text("t0k3n")
        options = parse_options({"servers": guarded.url, "tokenFile": str(path)}).connection
        assert not process_connection(options, retry_for=60).closed


def test_a_missing_server_and_permanent_errors_are_raised(certs: Certs) -> None:
    nowhere = parse_options({"servers": "nats://127.0.0.1:1"}).connection
    with pytest.raises(ConnectionError, match=r"cannot connect to 127\.0\.0\.1:1: Connection refused"):
        process_connection(nowhere, retry_for=3.0)
    with run(users=[User(user="a", password="b")]) as guarded:
        wrong = parse_options({"servers": guarded.url, "user": "a", "password": "c"}).connection
        with pytest.raises(AuthorizationError):
            process_connection(wrong, retry_for=60)
    own = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
    with run(tls=own) as encrypted, pytest.raises(TLSError):
        process_connection(parse_options({"servers": encrypted.url}).connection, retry_for=60)
