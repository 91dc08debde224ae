"""Fixtures of the blocking API's tests. A thread that a test leaves behind fails it."""

from __future__ import annotations

import gc
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread survives a test. Loops and sockets left open are ResourceWarnings, and so errors."""
    before = set(threading.enumerate())
    yield
    with suppress(AssertionError):  # The next one names them.
        wait_until(lambda: not set(threading.enumerate()) - before, "the end of all threads", 20)
    assert set(threading.enumerate()) - before == set()
    gc.collect()


@pytest.fixture
def nc(shared_server: Server) -> Iterator[blocking.Connection]:
    """A connection to the server that all tests of a worker share."""
    with blocking.connect(shared_server.url) as connection:
        yield connection


@pytest.fixture
def js(nc: blocking.Connection) -> blocking.JetStream:
    return nc.jetstream()


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses."""
    return f"test.{secrets.token_hex(8)}"


@pytest.fixture
def stream(js: blocking.JetStream) -> Iterator[blocking.Stream]:
    """A stream in memory that no other test uses; it stores `<its name>.>`."""
    name = f"T{secrets.token_hex(6)}"
    stream = js.create_stream(
        StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory", allow_direct=True)
    )
    yield stream
    if not js.connection.closed:
        stream.delete()
