"""Fixtures of the tests of buckets: a context on the server that all tests of a worker share, and names."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

import jetspark
from jetspark import Connection, KeyValue, KeyValueConfig
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from tests.support.timing import set_timing

Make = Callable[..., Awaitable[KeyValue]]


@pytest_asyncio.fixture
async def nc(shared_server: Server) -> AsyncIterator[Connection]:
    async with await jetspark.connect(shared_server.url) as connection:
        yield connection


@pytest_asyncio.fixture
async def js(nc: Connection) -> JetStream:
    """A context that believes soon that a bucket is gone when the server does not know it."""
    js = JetStream(nc)
    set_timing(js, stream_missing=0.3, stream_look_again=0.02)
    return js


@pytest.fixture
def bucket() -> str:
    """A name that no other test uses."""
    return f"T{secrets.token_hex(6)}"


@pytest_asyncio.fixture
async def make(js: JetStream) -> AsyncIterator[Make]:
    """Creates buckets in memory; they are deleted at the end."""
    made: list[str] = []

    async def create(**settings: Any) -> KeyValue:
        codec = settings.pop("codec", None)
        config = KeyValueConfig(**{"bucket": f"T{secrets.token_hex(6)}", "storage": "memory", **settings})
        made.append(config.bucket)
        return await js.create_key_value(config, codec=codec)

    yield create
    for name in made:
        try:
            await js.delete_key_value(name)
        except jetspark.BucketNotFound:
            pass


@pytest_asyncio.fixture
async def kv(make: Make) -> KeyValue:
    """A bucket that keeps five revisions of each key."""
    return await make(history=5)
