"""Fixtures for the tests of the log pipeline: a stream of its own, and the program as a process."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import jetspark
from jetspark import JetStream, Stream, StreamConfig
from jetspark.server import Server
from tests.cli.support import Cli, Process


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without contexts, variables and positions."""
    for name in list(os.environ):
        if name.startswith("NATS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory for log files."""
    directory = tmp_path / "logs"
    directory.mkdir()
    return directory


@pytest_asyncio.fixture
async def js(shared_server: Server) -> AsyncIterator[JetStream]:
    """JetStream on the shared server."""
    async with jetspark.connect(shared_server.url) as nc:
        yield nc.jetstream()


@pytest_asyncio.fixture
async def stream(js: JetStream) -> AsyncIterator[Stream]:
    """A stream of the test's own; it stores `<its name in lower case>.>`."""
    name = f"L{secrets.token_hex(4).upper()}"
    yield await js.create_stream(StreamConfig(name=name, subjects=[f"{name.lower()}.>"], allow_direct=True))
    await js.delete_stream(name)


@pytest.fixture
def cli(
    no_settings: None, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Runs commands in this process, against a server of the test's own."""
    monkeypatch.setenv("NATS_URL", server.url)
    return Cli(capsys, monkeypatch)


@pytest.fixture
def process(no_settings: None, server: Server) -> Iterator[Callable[..., Process]]:
    """Starts `jetspark ...` as a process, against the test's own server."""
    started: list[Process] = []

    def start(*arguments: object, **options: object) -> Process:
        one = Process(*arguments, env={"NATS_URL": server.url}, **options)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
