"""Fixtures for the tests of the command line: a way to run it, and nothing of the machine's own settings."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetspark.server import Server, User
from tests.cli.support import Cli, Process, Terminal


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without contexts and variables; returns the directory of the configuration."""
    for name in list(os.environ):
        if name.startswith("NATS_"):
            monkeypatch.delenv(name)
    config = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    return config


@pytest.fixture
def cli(
    no_settings: Path,
    shared_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    """Runs commands in this process, against the shared server."""
    monkeypatch.setenv("NATS_URL", shared_server.url)
    return Cli(capsys, monkeypatch)


@pytest.fixture
def name() -> str:
    """A name for a stream that nobody else uses; its lower case is for subjects."""
    return f"S{secrets.token_hex(4).upper()}"


@pytest.fixture
def stream(cli: Cli, name: str) -> str:
    """A stream on the shared server that stores `<name in lower case>.>`."""
    cli("stream", "add", name, "--subjects", f"{name.lower()}.>")
    return name


@pytest.fixture
def process(no_settings: Path, shared_server: Server) -> Iterator[Callable[..., Process]]:
    """Starts `jetspark ...` as a process, against the shared server unless `env` says otherwise."""
    started: list[Process] = []

    def start(*arguments: object, env: dict[str, str] | None = None, **options: object) -> Process:
        one = Process(*arguments, env={"NATS_URL": shared_server.url, **(env or {})}, **options)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def terminal(no_settings: Path, shared_server: Server) -> Iterator[Callable[..., Terminal]]:
    """Starts `jetspark ...` on a terminal."""
    started: list[Terminal] = []

    def start(*arguments: object, env: dict[str, str] | None = None) -> Terminal:
        one = Terminal(*arguments, env={"NATS_URL": shared_server.url, **(env or {})})
        started.append(one)
        return one

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[Server]:
    """A server with users: `admin` may do everything, `guest` nothing of JetStream."""
    users = (
        User(user="admin", password="admin-secret"),
        User(
            user="guest",
            password="guest-secret",
            publish_deny=["$JS.>", "closed.>"],
            subscribe_deny=["$JS.>"],
        ),
    )
    with Server(users=users) as running:
        yield running


@pytest.fixture
def guest(guarded_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs commands as a user who may do nothing of JetStream."""
    monkeypatch.setenv("NATS_URL", guarded_server.url)
    monkeypatch.setenv("NATS_USER", "guest")
    monkeypatch.setenv("NATS_PASSWORD", "guest-secret")
    return Cli(capsys, monkeypatch)
