"""One server: start, stop, kill, restart and reload."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from jetspark.errors import ServerNotFound, ServerStartError, UsageError
from jetspark.server import Server, User, binary, run
from jetspark.server.ports import free_ports
from jetspark.server.ready import is_open
from tests.support.cases import for_each
from tests.support.raw import RawClient
from tests.support.waiting import wait_until


def store_one(server: Server) -> None:
    with RawClient(server.port) as client:
        client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        assert json.loads(client.request("s", b"kept"))["seq"] == 1


def stored(server: Server) -> int:
    with RawClient(server.port) as client:
        return int(client.api("STREAM.INFO.S")["state"]["messages"])


def test_a_started_server_answers_at_its_url() -> None:
    with run() as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert server.host == "127.0.0.1"
        with RawClient(server.port) as client:
            assert client.info["server_name"] == server.name
            assert client.api("INFO")["streams"] == 0


def test_two_servers_have_ports_of_their_own() -> None:
    with run() as one, run() as other:
        assert one.port != other.port
        assert one.name != other.name


def test_a_port_and_a_name_can_be_chosen() -> None:
    (port,) = free_ports(1)  # which no other process is given meanwhile
    with run(port=port, name="chosen") as server, RawClient(port) as client:
        assert server.port == port
        assert client.info["server_name"] == "chosen"


def test_a_server_can_be_created_first_and_started_later() -> None:
    server = Server()
    assert not server.running
    assert server.pid is None
    with server:
        assert server.running
        server.start()  # runs already: nothing happens
    assert not server.running


async def test_async_with_starts_and_stops() -> None:
    async with Server() as server:
        assert server.running
        await asyncio.to_thread(lambda: RawClient(server.port).close())
    assert not server.running
    async with run() as server:
        assert server.running
    assert not server.running


def test_jetstream_can_be_left_out() -> None:
    with run(jetstream=False) as server, RawClient(server.port) as client:
        assert server.store_dir is None
        assert not client.info.get("jetstream", False)


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


def test_options_reach_the_server() -> None:
    with run(max_payload=1234, domain="leaf", debug=True, trace=True) as server:
        with RawClient(server.port) as client:
            assert client.info["max_payload"] == 1234
            assert client.info["domain"] == "leaf"
        assert "[DBG]" in server.log()
        assert "[TRC]" in server.log()


def test_the_store_is_synced_as_often_as_asked() -> None:
    with run(sync_interval=0.5, monitor=True) as server:
        assert get(f"{server.monitor_url}/jsz")["config"]["sync_interval"] == 500_000_000
    with run(sync_interval="always", monitor=True) as server:
        assert get(f"{server.monitor_url}/jsz")["config"]["sync_always"] is True


def test_the_monitoring_port_is_open_when_asked_for_and_stays_after_a_restart() -> None:
    with run(monitor=True) as server:
        before = server.monitor_url
        server.restart()
        assert server.monitor_url == before
        assert get(f"{server.monitor_url}/varz")["server_name"] == server.name
    with run() as server:
        assert server.monitor_url is None


def test_stop_is_clean_and_can_be_repeated() -> None:
    server = run()
    directory = os.path.dirname(str(server.config_file))
    server.stop(60)
    server.stop()
    assert not server.running
    assert server.pid is None
    assert not os.path.exists(directory)
    assert "Server Exiting" in server.log()
    with pytest.raises(OSError):
        socket.create_connection((server.host, server.port), timeout=5)


def test_a_given_store_is_kept_and_used_again(tmp_path: Path) -> None:
    store = tmp_path / "a" / "store"
    with run(store_dir=store) as server:
        assert server.store_dir == str(store)
        assert store.stat().st_mode & 0o777 == 0o700
        store_one(server)
    with run(store_dir=store) as server:
        assert stored(server) == 1


def test_a_restart_comes_back_on_the_same_port_with_its_data(server: Server) -> None:
    port, pid = server.port, server.pid
    store_one(server)
    server.restart()
    assert server.port == port
    assert server.pid != pid
    assert stored(server) == 1


def test_a_killed_server_starts_again_on_the_same_port_with_its_data(server: Server) -> None:
    port = server.port
    store_one(server)
    server.kill()
    assert not server.running
    server.kill()
    server.start()
    assert server.port == port
    assert stored(server) == 1


def test_a_server_that_another_process_killed_can_be_started_again(server: Server) -> None:
    store_one(server)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not server.running, "the server is known to be dead")
    server.start()
    assert stored(server) == 1


def test_the_log_covers_restarts_and_can_be_read_after_the_stop(capfd: pytest.CaptureFixture[str]) -> None:
    with run() as server:
        server.restart()
        assert server.log().count("Server is ready") == 2
        assert server.log_since_start().count("Server is ready") == 1
    assert server.log().count("Server is ready") == 2
    assert capfd.readouterr() == ("", "")  # nothing of it went to the terminal


def test_a_paused_server_is_silent_until_it_is_resumed(server: Server) -> None:
    with RawClient(server.port) as client:
        server.pause()
        assert server.pid is not None
        stat = Path(f"/proc/{server.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the server is stopped")
        client.send(b"PING\r\n")
        assert server.running
        server.resume()
        assert client.line() == b"PONG"


def test_a_paused_server_can_be_stopped_killed_and_restarted() -> None:
    server = run()
    server.pause()
    server.restart()
    with RawClient(server.port):
        pass
    server.pause()
    server.kill()
    server.start()
    server.pause()
    server.stop(60)
    assert "Server Exiting" in server.log()


def test_lame_duck_mode_tells_clients_and_ends_the_server() -> None:
    with run(config='lame_duck_duration: "30s"\nlame_duck_grace_period: "0.1s"') as server:
        with RawClient(server.port, protocol=1) as client:  # 1: wants to be told by INFO
            server.lame_duck()
            while b'"ldm":true' not in client.line():
                pass
        wait_until(lambda: not server.running, "the server has ended by itself")


def test_signals_to_a_server_that_does_not_run_are_refused() -> None:
    server = Server()
    for call in (server.pause, server.resume, server.reload, server.lame_duck):
        with pytest.raises(UsageError, match="not running"):
            call()


def test_a_reload_changes_users_and_limits() -> None:
    ann, bob = User(user="ann", password="a"), User(user="bob", password="b")
    with run(users=[ann]) as server:
        pid = server.pid
        with RawClient(server.port, user="ann", password="a") as client:
            server.reload(users=[bob], max_payload=100)
            with pytest.raises((PermissionError, ConnectionError)):
                client.ping()
        with pytest.raises(PermissionError, match="Authorization Violation"):
            RawClient(server.port, user="ann", password="a")
        with RawClient(server.port, user="bob", password="b") as client:
            assert client.info["max_payload"] == 100
        assert server.pid == pid
        server.restart()
        with RawClient(server.port, user="bob", password="b"):
            pass


def test_a_refused_reload_shows_the_log_and_leaves_everything_as_it_was(server: Server) -> None:
    with pytest.raises(ServerStartError, match="nonsense"):
        server.reload(config="nonsense_option: 1")
    assert server.options.config == ""
    server.reload(max_payload=77)
    with RawClient(server.port) as client:
        assert client.info["max_payload"] == 77


def test_what_a_running_server_cannot_change_is_refused(server: Server) -> None:
    with pytest.raises(UsageError, match="store_dir"):
        server.reload(store_dir="/elsewhere")


def test_a_failed_start_shows_the_log_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerStartError, match="unknown_thing"):
        run(config="unknown_thing: 1")
    assert os.listdir(tmp_path) == []


def test_a_port_that_is_taken_fails_with_the_reason(server: Server) -> None:
    with pytest.raises(ServerStartError, match="address already in use"):
        run(port=server.port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server listen on a port that is held")
def test_no_other_process_is_given_the_ports_of_a_server_that_is_down() -> None:
    def check_held(ports: list[int]) -> None:
        for port in ports:
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", port))

    with run(monitor=True, websocket=True) as server:
        urls = server.url, server.monitor_url, server.websocket_url
        ports = [urlsplit(url).port or 0 for url in urls if url is not None]
        assert len(set(ports)) == 3
        server.kill()
        check_held(ports)
        server.start()
        assert (server.url, server.monitor_url, server.websocket_url) == urls
        check_held(ports)


def test_a_failed_restart_keeps_the_store(server: Server) -> None:
    store_one(server)
    server.kill()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", server.port))
        squatter.listen()
        with pytest.raises(ServerStartError, match="address already in use"):
            server.start()
        assert not server.running
    server.start()
    assert stored(server) == 1


def test_a_server_that_never_gets_ready_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\necho I am not talking\nexec sleep 600\n")
    silent.chmod(0o700)
    monkeypatch.setenv(binary.ENVIRONMENT, str(silent))
    with pytest.raises(ServerStartError, match="I am not talking"):
        run(ready_timeout=3)


def test_the_environment_chooses_the_executable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper, trace = tmp_path / "my-nats", tmp_path / "used"
    wrapper.write_text(f'#!/bin/sh\n: > "{trace}"\nexec "{binary.find()}" "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv(binary.ENVIRONMENT, str(wrapper))
    with run():
        assert trace.exists()


def test_an_executable_that_is_not_there_is_reported_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(binary.ENVIRONMENT, str(tmp_path / "nowhere"))
    with pytest.raises(ServerNotFound, match=r"pip install 'jetspark\[server\]'"):
        run()


def test_the_path_is_searched_last_and_without_a_server_there_is_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(binary.ENVIRONMENT, raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ServerNotFound, match="pip install"):
        binary.find()
    (tmp_path / "bin").mkdir()
    found = tmp_path / "bin" / "nats-server"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o700)
    assert binary.find() == str(found)


def test_a_server_outlives_the_thread_that_started_it() -> None:
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(run()))
    thread.start()
    thread.join(timeout=30)
    with started[0] as server, RawClient(server.port) as client:
        client.ping()
        assert server.running


# --- who can reach it


@for_each(
    ("info", "expected"),
    [
        ({"host": "0.0.0.0"}, True),
        ({"host": "::"}, True),
        ({"host": "192.168.1.2"}, True),
        ({"host": "nats.example"}, True),
        ({"host": "127.0.0.1"}, False),
        ({"host": "::1"}, False),
        ({"host": "localhost"}, False),
        ({"host": "0.0.0.0", "auth_required": True}, False),
        ({"host": "0.0.0.0", "tls_required": True}, True),
        ({"host": "0.0.0.0", "tls_required": True, "tls_verify": True}, False),
        ({}, False),
    ],
)
def test_a_server_is_open_if_others_reach_it_and_it_asks_for_no_credentials(
    info: dict[str, object], expected: bool
) -> None:
    assert is_open(info) is expected


def test_an_open_server_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run(jetstream=False):
        assert not caplog.records
    monkeypatch.setattr(Server, "info", lambda *_: {"host": "0.0.0.0"})
    with run(jetstream=False, name="open"):
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith("open listens on 0.0.0.0:")
