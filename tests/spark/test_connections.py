"""The connection of a Spark process: it waits for a server that is away, and not for permanent errors. It
closes when nobody uses it, and then never looks for its server."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from jetspark import State
from jetspark.errors import AuthorizationError, ConnectionError, TLSError, UsageError
from jetspark.server import TLS, Server, User, run
from jetspark.spark.connections import Lease, ProcessConnection, process_connection
from jetspark.spark.options import parse_options
from tests.blocking.support import Program
from tests.core.test_secrets import holds_secret
from tests.support.certs import Certs
from tests.support.proxy import TCPProxy
from tests.support.waiting import wait_until


def test_connecting_waits_for_a_server_that_is_away(server: Server) -> None:
    server.kill()
    coming = threading.Timer(1.0, server.start)
    coming.start()
    with process_connection(parse_options({"servers": server.url}).connection, retry_for=60) as connection:
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
        assert not process_connection(options, retry_for=60).connection.closed
    with run(token="t0k3n") as guarded:
        path.write_text("t0k3n")
        options = parse_options({"servers": guarded.url, "tokenFile": str(path)}).connection
        assert not process_connection(options, retry_for=60).connection.closed


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


# --- connections that nobody uses


def leased(url: str, *, idle_timeout: float = 60.0) -> Lease:
    options = parse_options({"servers": url}).connection
    return process_connection(options, retry_for=60, idle_timeout=idle_timeout)


def use(connection: ProcessConnection) -> None:
    assert connection.run(connection.js.account_info()).streams == 0


def wait_closed(connection: ProcessConnection) -> None:
    wait_until(lambda: connection.closed, "closed")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "jetspark"]


def test_an_unused_connection_closes_and_the_next_use_opens_another(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jetspark")
    with leased(server.url, idle_timeout=0.05) as first:
        use(first)
    wait_closed(first)
    assert logged(caplog) == ["closing the connection, which was not used for 0.05 s"]
    with leased(server.url) as second:
        use(second)
    with leased(server.url) as third:
        assert third is second


def test_a_connection_stays_open_while_anybody_uses_it(server: Server) -> None:
    with leased(server.url, idle_timeout=0.0) as connection:
        with leased(server.url) as same:
            assert same is connection
        connection.run(asyncio.sleep(0.05))
        use(connection)
    wait_closed(connection)


def test_a_lease_that_is_forgotten_ends(server: Server) -> None:
    lease = leased(server.url, idle_timeout=0.0)
    connection = lease.connection
    lease.release()
    lease.release()
    wait_closed(connection)
    lease = leased(server.url, idle_timeout=0.0)
    connection = lease.connection
    del lease
    gc.collect()
    wait_closed(connection)


async def test_an_unused_connection_that_loses_its_server_closes_and_does_not_reconnect(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jetspark")
    async with TCPProxy(server.port) as proxy:
        with await asyncio.to_thread(leased, proxy.url) as connection:
            await asyncio.to_thread(use, connection)
        proxy.cut()
        await asyncio.to_thread(wait_closed, connection)
        assert proxy.accepted == 1
        disconnected, closing = logged(caplog)
        assert disconnected.startswith(f"disconnected from 127.0.0.1:{proxy.port}: ")
        assert closing == "closing the connection, which lost its server and is not in use"
        with await asyncio.to_thread(leased, proxy.url) as another:
            await asyncio.to_thread(use, another)
        assert proxy.accepted == 2


async def test_a_connection_that_is_released_while_it_reconnects_gives_up(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jetspark")
    async with TCPProxy(server.port) as proxy:
        with await asyncio.to_thread(leased, proxy.url) as connection:
            proxy.refuse()
            proxy.cut()
            nc = connection.js.connection
            await asyncio.to_thread(wait_until, lambda: nc.state is State.RECONNECTING, "reconnecting")
        await asyncio.to_thread(wait_closed, connection)
        closing = [line for line in logged(caplog) if line.startswith("closing")]
        assert closing == ["closing the connection, which lost its server and is not in use"]
        proxy.accept()
        with await asyncio.to_thread(leased, proxy.url) as another:
            await asyncio.to_thread(use, another)
        assert proxy.accepted == 2


async def test_a_connection_in_use_reconnects(server: Server) -> None:
    async with TCPProxy(server.port) as proxy:
        with await asyncio.to_thread(leased, proxy.url, idle_timeout=0.0) as connection:
            proxy.cut()
            await asyncio.to_thread(wait_until, lambda: proxy.accepted == 2, "a new connection")
            await asyncio.to_thread(use, connection)
        await asyncio.to_thread(wait_closed, connection)


PROCESS = """
import os, socket, sys, threading, time, warnings
from jetspark.spark.connections import process_connection
from jetspark.spark.options import parse_options
warnings.filterwarnings("ignore", message=".*fork.*")

options = parse_options({"servers": sys.argv[1]}).connection
with process_connection(options, retry_for=60, idle_timeout=0.0) as connection:
    connection.run(connection.js.account_info())
while threading.active_count() > 1:  # The connection closes, and leaves no thread.
    time.sleep(0.005)

silent = socket.create_server(("127.0.0.1", 0))
nowhere = parse_options({"servers": f"127.0.0.1:{silent.getsockname()[1]}"}).connection
opening = threading.Thread(target=lambda: process_connection(nowhere, retry_for=60), daemon=True)
opening.start()
waiting, _ = silent.accept()  # Now that thread holds the lock, which the child must not wait for.
child = os.fork()
if child == 0:
    try:
        with process_connection(options, retry_for=60) as own:
            own.run(own.js.account_info())
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
print("done", flush=True)
os._exit(0)
"""


def test_a_closed_connection_leaves_no_thread_and_a_fork_can_connect(server: Server) -> None:
    assert Program(PROCESS, server.url).finish()[:2] == (0, "done\n")
