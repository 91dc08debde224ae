"""Fixtures of the tests of tracing: the real SDK, whose spans stay in memory, and connections."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from opentelemetry.sdk.trace import TracerProvider

import jetspark
from jetspark import StreamConfig, blocking, otel
from jetspark.server import Server
from tests.otel.support import Spans


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def provider(spans: Spans) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(spans.processor)
    yield provider
    provider.shutdown()


@pytest.fixture
def name() -> str:
    """The name of a stream, and the start of its subjects, that no other test uses."""
    return f"T{secrets.token_hex(6)}"


@pytest_asyncio.fixture
async def plain(shared_server: Server) -> AsyncIterator[jetspark.Connection]:
    """A connection that is not instrumented."""
    async with jetspark.connect(shared_server.url) as connection:
        yield connection


@pytest_asyncio.fixture
async def nc(shared_server: Server, provider: TracerProvider) -> AsyncIterator[jetspark.Connection]:
    async with jetspark.connect(shared_server.url) as connection:
        yield otel.instrument(connection, tracer_provider=provider)


@pytest_asyncio.fixture
async def stream(plain: jetspark.Connection, name: str) -> AsyncIterator[jetspark.Stream]:
    js = plain.jetstream()
    config = StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory", allow_atomic=True)
    yield await js.create_stream(config)
    await js.delete_stream(name)


@pytest.fixture
def blocking_nc(shared_server: Server, provider: TracerProvider) -> Iterator[blocking.Connection]:
    with blocking.connect(shared_server.url) as connection:
        yield otel.instrument(connection, tracer_provider=provider)


@pytest.fixture
def blocking_stream(blocking_nc: blocking.Connection, name: str) -> Iterator[blocking.Stream]:
    js = blocking_nc.jetstream()
    yield js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory"))
    js.delete_stream(name)
