"""A server with both clients on it: `js` is ours, `other` is the connection of nats-py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest_asyncio

import jetspark
from jetspark.jetstream.context import JetStream
from jetspark.server import Server


@pytest_asyncio.fixture
async def js(server: Server) -> AsyncIterator[JetStream]:
    """The JetStream of jetspark."""
    async with jetspark.connect(server.url) as nc:
        yield nc.jetstream()


@pytest_asyncio.fixture
async def other(server: Server) -> AsyncIterator[Any]:
    """A connection of nats-py to the same server."""
    nc = await nats.connect(server.url)
    yield nc
    await nc.close()
