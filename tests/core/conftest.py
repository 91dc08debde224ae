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


@pytest.fixture
async def nc(shared_server: Server) -> AsyncIterator[Connection]:
    """A connection to the server that all tests of a worker share."""
    async with connect(shared_server.url) as connection:
        yield connection


@pytest.fixture
async def other(shared_server: Server) -> AsyncIterator[Connection]:
    """Another connection to the same server."""
    async with connect(shared_server.url) as connection:
        yield connection


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses."""
    return f"test.{secrets.token_hex(8)}"


@pytest.fixture
async def watch() -> Watch:
    return Watch()
