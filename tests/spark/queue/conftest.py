"""Fixtures of workers without Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jetspark import Connection, connect
from jetspark.jetstream.context import JetStream
from jetspark.server import Server
from jetspark.spark.options import parse_options
from jetspark.spark.queue.worker import QueueWorker
from tests.spark.queue.support import Workers


@pytest_asyncio.fixture
async def nc(shared_server: Server) -> AsyncIterator[Connection]:
    async with await connect(shared_server.url) as connection:
        yield connection


@pytest.fixture
def js(nc: Connection) -> JetStream:
    return JetStream(nc)


@pytest_asyncio.fixture
async def workers(js: JetStream) -> AsyncIterator[Workers]:
    """Makes workers of consumer `worker`, each as a driver that was just started has it."""
    made: list[QueueWorker] = []

    def make_one(stream: str, **options: object) -> QueueWorker:
        given = {"stream": stream, "consumer": "worker"} | {key: str(each) for key, each in options.items()}
        made.append(QueueWorker(js, parse_options(given)))
        return made[-1]

    yield make_one
    for each in made:
        await each.close()
