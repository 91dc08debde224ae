"""Fixtures for the tests of JetStream: a context on a server of the test's own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest_asyncio

import jetspark
from jetspark import Connection
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.jetstream.support import Errors
from tests.support.consuming import listeners
from tests.support.publishing import ScriptedStream
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch, eventually


@pytest_asyncio.fixture
async def nc(server: Server) -> AsyncIterator[Connection]:
    """A connection to the test's own server."""
    async with await jetspark.connect(server.url) as connection:
        yield connection


@pytest_asyncio.fixture
async def js(nc: Connection) -> JetStream:
    """The JetStream of the test's own server."""
    return JetStream(nc)


@pytest_asyncio.fixture
async def tidy(nc: Connection) -> AsyncIterator[None]:
    """After the test no task and no pull is left on `nc`; what ends in the background has a moment for it."""
    before = asyncio.all_tasks()
    yield
    await eventually(lambda: not listeners(nc), "all pulls to end", None, nc.session.receivers)
    expected = {*before, asyncio.current_task()}
    await eventually(lambda: asyncio.all_tasks() <= expected, "all tasks to end", None, asyncio.all_tasks())


@pytest_asyncio.fixture
async def nothing_left_behind() -> AsyncIterator[None]:
    """No task survives a test; sockets that do are ResourceWarnings, and so errors, when collected."""
    before = asyncio.all_tasks()
    yield
    await eventually(
        lambda: not asyncio.all_tasks() - before - {asyncio.current_task()}, "the end of all tasks"
    )
    gc.collect()


@pytest_asyncio.fixture
async def errors() -> Errors:
    """An `on_error` that keeps the errors it gets."""
    return Errors()


@pytest_asyncio.fixture
async def watch() -> Watch:
    """Listeners for a connection that keep its events and errors."""
    return Watch()


@pytest_asyncio.fixture
async def scripted() -> AsyncIterator[tuple[ScriptedStream, JetStream]]:
    """A stream whose answers the test gives, and a context on its server."""
    async with ScriptedServer(info={"jetstream": True}) as server:
        stream = ScriptedStream(server)
        async with await jetspark.connect(server.url) as connection:
            yield stream, JetStream(connection)
