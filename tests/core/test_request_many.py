"""Requests with many answers: each way in which they end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest

from jetspark import Connection, Msg, NoResponders, UsageError, blocking
from jetspark.server import Server
from tests.support.cases import for_each


async def services(nc: Connection, subject: str, *answers: bytes) -> None:
    """Subscribe services that answer a request once each, in this order."""
    for answer in answers:
        await nc.subscribe(subject, callback=partial(lambda answer, msg: msg.respond(answer), answer))
    await nc.flush()


async def test_all_answers_are_read_until_the_time_is_over(
    nc: Connection, other: Connection, subject: str
) -> None:
    await services(other, subject, b"1", b"2", b"3")
    answers = [answer.data async for answer in nc.request_many(subject, b"?", timeout=3.0)]
    assert sorted(answers) == [b"1", b"2", b"3"]


async def test_it_ends_after_so_many_answers(nc: Connection, other: Connection, subject: str) -> None:
    await services(other, subject, b"1", b"2", b"3")
    answers = [answer async for answer in nc.request_many(subject, timeout=60, max_msgs=2)]
    assert len(answers) == 2


async def test_it_ends_when_no_more_answers_come(nc: Connection, other: Connection, subject: str) -> None:
    await services(other, subject, b"1", b"2")
    answers = [answer.data async for answer in nc.request_many(subject, timeout=600, stall=2)]
    assert sorted(answers) == [b"1", b"2"]


async def test_it_ends_at_the_sentinel(nc: Connection, other: Connection, subject: str) -> None:
    async def answer_in_parts(msg: Msg) -> None:
        for part in (b"1", b"2", b""):
            await msg.respond(part)

    await other.subscribe(subject, callback=answer_in_parts)
    await other.flush()
    many = nc.request_many(subject, timeout=600, sentinel=lambda msg: not msg.data)
    assert [answer.data async for answer in many] == [b"1", b"2"]


async def test_without_a_subscriber_it_fails_at_once(nc: Connection, subject: str) -> None:
    with pytest.raises(NoResponders):
        async for _ in nc.request_many(subject, timeout=600):
            pass


async def test_leaving_early_unsubscribes(nc: Connection, other: Connection, subject: str) -> None:
    await services(other, subject, b"1", b"2")
    before = len(nc.session.receivers)
    many = nc.request_many(subject, timeout=600)
    async for _ in many:
        break
    assert isinstance(many, AsyncGenerator)
    await many.aclose()
    assert len(nc.session.receivers) == before


@for_each("bad", [{"max_msgs": 0}, {"stall": 0}, {"stall": "1"}, {"sentinel": 5}])
async def test_bad_arguments_are_named(nc: Connection, bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))):
        async for _ in nc.request_many("a", **bad):
            pass


def test_blocking_answers_are_blocking_messages(shared_server: Server, subject: str) -> None:
    with blocking.connect(shared_server.url) as nc:
        for answer in (b"1", b"2"):
            nc.subscribe(subject, callback=partial(lambda answer, msg: msg.respond(answer), answer))
        nc.flush()
        answers = list(nc.request_many(subject, timeout=60, max_msgs=2))
        assert sorted(answer.data for answer in answers) == [b"1", b"2"]
        assert all(isinstance(answer, blocking.Msg) for answer in answers)
