"""The retry policy: which errors pass, the waits between attempts, the deadline."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jetspark.errors import (
    APIError,
    BadRequest,
    ConnectionClosed,
    ConnectionLost,
    ConsumerDeleted,
    Error,
    InsufficientResources,
    JetStreamUnavailable,
    LeadershipChanged,
    NoResponders,
    StreamNotFound,
    Timeout,
    TooManyRequests,
    UsageError,
)
from jetspark.jetstream import retry as retrying
from jetspark.jetstream.retry import Backoff, attempt_within, retry
from tests.support.cases import for_each


@for_each(
    "error",
    [
        Timeout(),
        ConnectionLost(),
        NoResponders(),
        LeadershipChanged(status=409),
        TooManyRequests(code=429),
        JetStreamUnavailable(code=500, err_code=10009),
        APIError(code=503, description="not now"),
    ],
    ids=repr,
)
def test_these_errors_pass(error: Error) -> None:
    assert error.transient


@for_each(
    "error",
    [
        UsageError(),
        ConnectionClosed(),
        BadRequest(status=400),
        ConsumerDeleted(status=409),
        StreamNotFound(code=404),
        InsufficientResources(code=503, err_code=10023),
        APIError(code=500),
    ],
    ids=repr,
)
def test_these_errors_last(error: Error) -> None:
    assert not error.transient


def test_waits_double_up_to_the_longest_with_jitter() -> None:
    backoff = Backoff(60.0, first=1.0, longest=4.0)
    for whole in (1.0, 2.0, 4.0, 4.0):
        wait = backoff.next_wait()
        assert wait is not None
        assert whole / 2 <= wait <= whole
    backoff.renew()
    assert (backoff.next_wait() or 0.0) <= 1.0


def test_no_wait_reaches_beyond_the_deadline() -> None:
    assert Backoff(0.1, first=1.0).next_wait() is None
    assert Backoff(0.0).next_wait() is None
    assert Backoff().next_wait() is not None


def test_an_attempt_leaves_time_for_another_one() -> None:
    assert attempt_within(60.0, 10.0) == 10.0
    assert attempt_within(6.0, 10.0) == 3.0


async def test_a_call_is_repeated_until_it_succeeds() -> None:
    calls = 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise NoResponders("no leader")
        return "done"

    assert await retry(call) == "done"
    assert calls == 3


async def test_a_lasting_error_is_raised_at_once_and_a_transient_one_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Error] = []
    now = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(retrying, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(retrying, "asyncio", SimpleNamespace(sleep=sleep))

    async def fail(error: Error) -> None:
        calls.append(error)
        raise error

    with pytest.raises(StreamNotFound):
        await retry(lambda: fail(StreamNotFound()))
    assert len(calls) == 1
    with pytest.raises(Timeout):
        await retry(lambda: fail(Timeout()), 0.6)
    assert 100.0 < now < 100.6
    assert len(calls) > 2
