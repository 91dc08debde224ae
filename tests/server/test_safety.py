"""An embedded server is not reachable from outside, leaks no secrets and leaves no process."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jetspark.server import Server, User, run
from tests.support.raw import RawClient
from tests.support.waiting import process_gone, wait_until

NASTY = "pa\"ss\\wo$rd {x} # ' \t\n $HOME ünï \x7f ;"

linux = pytest.mark.skipif(not os.path.exists("/proc/self/net/tcp"), reason="reads /proc")


def listening(pid: int) -> list[tuple[str, int]]:
    """The TCP addresses on which a process listens."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    addresses = []
    for family, size in (("tcp", 4), ("tcp6", 16)):
        if not os.path.exists(f"/proc/{pid}/net/{family}"):
            continue
        with open(f"/proc/{pid}/net/{family}") as file:
            for row in file.readlines()[1:]:
                words = row.split()
                if words[3] == "0A" and words[9] in inodes:
                    host, _, port = words[1].partition(":")
                    raw = bytes.fromhex(host)
                    text = socket.inet_ntoa(raw[::-1]) if size == 4 else raw.hex()
                    addresses.append((text, int(port, 16)))
    return addresses


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def child(code: str, **environment: str) -> subprocess.Popen[str]:
    """A Python of its own that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@linux
def test_it_listens_on_loopback_only_and_on_the_client_port_only(server: Server) -> None:
    assert server.pid is not None
    assert listening(server.pid) == [("127.0.0.1", server.port)]


@linux
def test_the_monitoring_port_is_on_loopback_too() -> None:
    with run(monitor=True) as server:
        assert server.pid is not None
        hosts = [host for host, _ in listening(server.pid)]
        assert hosts == ["127.0.0.1", "127.0.0.1"]


def test_its_files_are_for_the_owner_only(server: Server) -> None:
    assert server.config_file is not None
    assert server.store_dir is not None
    directory = os.path.dirname(server.config_file)
    assert mode(directory) == 0o700
    assert mode(server.store_dir) == 0o700
    assert mode(server.config_file) == 0o600
    assert mode(os.path.join(directory, "server.log")) == 0o600
    server.reload(max_payload=1000)
    assert mode(server.config_file) == 0o600


@pytest.mark.parametrize("secret", [NASTY, "$2", "1k", "true", "é" * 40, "\\x41", '"', "\\"])
def test_a_password_of_any_characters_works(secret: str) -> None:
    with run(users=[User(user="us er$", password=secret)]) as server:
        with RawClient(server.port, user="us er$", password=secret) as client:
            client.ping()
        with pytest.raises(PermissionError):
            RawClient(server.port, user="us er$", password=secret + "x")


def test_a_token_of_any_characters_works() -> None:
    with run(token=NASTY) as server:
        with RawClient(server.port, auth_token=NASTY):
            pass
        with pytest.raises(PermissionError):
            RawClient(server.port, auth_token="other")


@linux
def test_secrets_are_in_no_command_line_and_no_repr() -> None:
    with run(users=[User(user="ann", password="hush-hush")], config="# hush-hush") as server:
        for pid in os.listdir("/proc"):
            try:
                command = Path("/proc", pid, "cmdline").read_bytes()
            except OSError:
                continue
            assert b"hush-hush" not in command
        shown = f"{server!r} {server.options!r} {server.url}"
        assert "hush-hush" not in shown
        assert "hush-hush" not in server.log()
    with run(token="hush-hush") as server:
        assert "hush-hush" not in f"{server!r} {server.options!r} {server.url}"


RUN = """
import os, sys
from jetspark.server import run
server = run()
print(server.pid, os.path.dirname(server.config_file), flush=True)
"""


@pytest.mark.parametrize("paused", [False, True])
def test_it_ends_with_its_parent_even_after_sigkill(paused: bool) -> None:
    code = RUN + ("server.pause()\n" if paused else "") + "print('up', flush=True)\nsys.stdin.read()"
    with child(code) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        assert parent.stdout.readline() == "up\n"
        assert not process_gone(int(pid))
        parent.kill()
        parent.wait(30)
        wait_until(lambda: process_gone(int(pid)), "the server died with its parent")
        wait_until(lambda: not os.path.exists(directory), "its directory with the secrets is removed")


def test_a_sibling_that_the_parent_started_does_not_keep_it_alive() -> None:
    code = RUN + (
        "import subprocess\n"
        "other = subprocess.Popen(['sleep', '600'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "forked = os.fork()\n"
        "if not forked:\n"
        "    import time; time.sleep(600)\n"
        "print(other.pid, forked, flush=True)\n"
        "sys.stdin.read()"
    )
    with child(code) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        others = [int(other) for other in parent.stdout.readline().split()]
        parent.kill()
        try:
            wait_until(lambda: process_gone(pid), "the server died with its parent")
            assert not any(process_gone(other) for other in others)
        finally:
            for other in others:
                os.kill(other, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_that_exits_leaves_it_alone(server: Server) -> None:
    pid = os.fork()
    if not pid:
        try:
            server.stop()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 30
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert server.running
    assert server.config_file is not None
    assert os.path.exists(server.config_file)
    with RawClient(server.port):
        pass


def test_it_ends_with_an_interpreter_that_does_not_stop_it(tmp_path: Path) -> None:
    with child(RUN, TMPDIR=str(tmp_path)) as parent:
        output, _ = parent.communicate(timeout=30)
    assert parent.returncode == 0
    assert process_gone(int(output.split()[0]))
    assert os.listdir(tmp_path) == []


def test_ctrl_c_in_the_terminal_is_for_the_parent_to_handle() -> None:
    code = RUN + (
        "import signal\n"
        "try:\n"
        "    print('up', flush=True)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    print(server.running, flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        assert parent.stdout.readline() == "up\n"
        os.killpg(parent.pid, signal.SIGINT)  # what a terminal does
        assert parent.stdout.readline() == "True\n"
        parent.wait(30)
    assert process_gone(pid)


def test_many_starts_and_stops_leave_no_descriptors_and_no_processes() -> None:
    def once() -> int:
        with run() as server:
            assert server.pid is not None
            return server.pid

    once()
    before = len(os.listdir("/proc/self/fd"))
    pids = [once() for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(process_gone(pid) for pid in pids)
