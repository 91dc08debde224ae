"""A scripted server, a consumer on it, and a reader of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from tests.jetstream.pull.scripted.support import HOUR, Reader, connected
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream
from tests.support.timing import set_timing


@pytest.fixture(autouse=True)
def checked(nothing_left_behind: None) -> None:
    """Every test here ends all its tasks and closes its sockets."""


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def js(server: ScriptedJetStream) -> AsyncIterator[JetStream]:
    async with connected(server) as made:
        yield made


@pytest.fixture
async def consumer(js: JetStream) -> Consumer:
    return await js.get_consumer("S", "C")


@pytest.fixture
def never_back_off(js: JetStream) -> None:
    """A back-off lasts longer than the test."""
    set_timing(js, pull_back_off=HOUR)


@pytest.fixture
def short_back_off(js: JetStream) -> None:
    set_timing(js, pull_back_off=0.01)


@pytest.fixture(params=["messages", "consume"])
async def reader(
    request: pytest.FixtureRequest, server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> AsyncIterator[Reader]:
    made = Reader(request.param, consumer, errors)
    yield made
    await made.stop()
