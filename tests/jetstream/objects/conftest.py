"""Fixtures of the tests of object stores: a store on the server that all tests of a worker share."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest_asyncio

import jetspark
from jetspark import Connection, ObjectStore, ObjectStoreConfig
from jetspark.jetstream.context import JetStream
from jetspark.server import Server


@pytest_asyncio.fixture
async def nc(shared_server: Server) -> AsyncIterator[Connection]:
    async with await jetspark.connect(shared_server.url) as connection:
        yield connection


@pytest_asyncio.fixture
async def js(nc: Connection) -> JetStream:
    return JetStream(nc)


@pytest_asyncio.fixture
async def store(js: JetStream) -> AsyncIterator[ObjectStore]:
    """A store in memory."""
    name = f"T{secrets.token_hex(6)}"
    yield await js.create_object_store(ObjectStoreConfig(bucket=name, storage="memory"))
    await js.delete_object_store(name)
