"""A scripted server, a consumer on it, and a reader of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.pull import pacing
from tests.jetstream.pull.scripted.support import HOUR, Reader, connected
from tests.jetstream.support import Errors
from tests.support.scripted_jetstream import ScriptedJetStream


@pytest.fixture(autouse=True)
def checked(nothing_left_behind: None) -> None:
    """Every test here ends all its tasks and closes its sockets."""


@pytest.fixture
async def server() -> AsyncIterator[ScriptedJetStream]:
    async with ScriptedJetStream() as running:
        yield running


@pytest.fixture
async def consumer(server: ScriptedJetStream) -> AsyncIterator[Consumer]:
    async with connected(server) as made:
        yield made


@pytest.fixture
def never_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A back-off lasts longer than the test."""
    monkeypatch.setattr(pacing, "_FIRST", HOUR)


@pytest.fixture
def short_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_FIRST", 0.01)


@pytest.fixture(params=["messages", "consume"])
async def reader(
    request: pytest.FixtureRequest, server: ScriptedJetStream, consumer: Consumer, errors: Errors
) -> AsyncIterator[Reader]:
    made = Reader(request.param, consumer, errors)
    yield made
    await made.stop()
