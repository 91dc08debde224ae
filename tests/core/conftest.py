"""Fixtures of the connection's tests. What a test leaves behind fails it."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator

import pytest

from jetspark import Connection, connect
from jetspark.server import Server
from tests.support.watch import Watch


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    """No task survives a test; sockets that do are ResourceWarnings, and so errors, when collected."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left
    gc.collect()


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {"jetstream": False}


@pytest.fixture(params=["tcp", "websocket"])
def url(shared_server: Server, request: pytest.FixtureRequest) -> str:
    """Where `nc` and `other` connect: every test that uses one of them runs through WebSocket, too."""
    return str(shared_server.url if request.param == "tcp" else shared_server.websocket_url)


@pytest.fixture
async def nc(url: str) -> AsyncIterator[Connection]:
    """A connection to the server that all tests of a worker share."""
    async with connect(url) as connection:
        yield connection


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """Another connection to the same server."""
    async with connect(url) as connection:
        yield connection


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses."""
    return f"test.{secrets.token_hex(8)}"


@pytest.fixture
async def watch() -> Watch:
    return Watch()
