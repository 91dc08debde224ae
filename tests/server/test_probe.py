"""The question whether a cluster can replicate: who may ask it, and what each answer means."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jetspark.server.options import TLS, Options, User
from jetspark.server.ports import bind_free_port
from jetspark.server.probe import can_replicate, credentials
from tests.support.certs import Certs


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """The port of a server that gives one of `answers` to each request, and then closes the connection."""

    def serve() -> None:
        client, _ = listening.accept()
        with client, client.makefile("rb") as lines:
            for answer in answers:
                while not next(lines).startswith(b"PUB "):
                    pass
                client.sendall(answer)
            client.shutdown(socket.SHUT_WR)
            lines.read()

    with bind_free_port() as listening:
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def answer(err_code: int = 0) -> bytes:
    data = json.dumps({"error": {"err_code": err_code}} if err_code else {}).encode()
    return b"MSG _INBOX.jetspark-probe 1 %d\r\n%b\r\n" % (len(data), data)


def asked(port: int) -> bool:
    return can_replicate(port, 3, {}, timeout=30)


def test_it_can_when_a_stream_was_created_and_deleted() -> None:
    with answering(b"PING\r\n" + answer(), answer()) as port:
        assert asked(port)


@pytest.mark.parametrize("err_code", [10005, 10008, 10009, 10023])
def test_it_cannot_yet(err_code: int) -> None:
    with answering(answer(err_code)) as port:
        assert not asked(port)


def test_a_refusal_that_waiting_does_not_change_is_an_answer() -> None:
    with answering(answer(10052)) as port:
        assert asked(port)
    with answering(b"-ERR 'Permissions Violation'\r\n") as port:
        assert asked(port)


def test_a_server_that_closes_the_connection_cannot() -> None:
    with answering(b"") as port:
        assert not asked(port)


def test_a_server_that_is_not_there_cannot() -> None:
    with bind_free_port() as unused:  # It does not listen.
        assert not asked(unused.getsockname()[1])


def test_credentials_are_those_of_a_user_who_may_do_everything() -> None:
    limited = User(user="limited", password="secret", publish_deny=("orders.>",))
    free = User(user="free", password="secret")
    assert credentials(Options()) == {}
    assert credentials(Options(token="secret")) == {"auth_token": "secret"}
    assert credentials(Options(users=(limited, free))) == {"user": "free", "pass": "secret"}
    assert credentials(Options(users=(limited,))) is None


def test_a_plain_socket_cannot_log_in_to_a_server_with_tls(certs: Certs) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
    assert credentials(Options(tls=tls)) is None
