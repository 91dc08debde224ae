"""Many streams at once: all that are wanted, as single requests would tell them, with few requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import jetspark
from jetspark import Connection, StreamConfig, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.manage import streams
from jetspark.jetstream.model.info import StreamState
from jetspark.jetstream.read.listing import concurrently, stream_infos, stream_names
from jetspark.jetstream.read.lookup import first_at
from jetspark.server import Cluster, run
from tests.support.scripted import ScriptedServer


async def make(js: JetStream, *names: str) -> None:
    async def one(name: str) -> None:
        await js.create_stream(StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory"))
        await js.publish(f"{name}.a", b"x")

    await concurrently(one, names)


def names_of(count: int, prefix: str = "S") -> list[str]:
    return [f"{prefix}{number:04}" for number in range(count)]


async def test_the_names_of_all_pages_are_found(js: JetStream) -> None:
    """A page has 1,024 of them."""
    names = names_of(1100)
    await make(js, *names)
    assert sorted(await stream_names(js.api)) == names
    assert await stream_names(js.api, "S0007.a") == ["S0007"]
    with pytest.raises(UsageError):
        await stream_names(js.api, "a b")


async def test_many_streams_are_told_by_a_few_pages(js: JetStream, nc: Connection) -> None:
    names = names_of(600)
    await make(js, *names)
    before = nc.statistics.out_msgs
    found = await stream_infos(js.api, dict.fromkeys(names, 1), await stream_names(js.api))
    assert nc.statistics.out_msgs - before == 1 + 3
    assert list(found) == names
    for name in ("S0000", "S0255", "S0256", "S0599"):
        page, single = found[name], await streams.info(js.api, name)
        assert (page.created, page.state) == (single.created, single.state)
        # Only single requests add the version of the server.
        assert page.config.replace(metadata={}) == single.config.replace(metadata={})


async def test_a_few_streams_among_many_are_asked_for_one_by_one(js: JetStream, nc: Connection) -> None:
    await make(js, *names_of(300))
    wanted = ["S0003", "S0150", "S0299"]
    listed = await stream_names(js.api)
    before = nc.statistics.out_msgs
    assert list(await stream_infos(js.api, dict.fromkeys(wanted, 1), listed)) == wanted
    assert nc.statistics.out_msgs - before == 3


async def test_streams_created_and_deleted_since_the_names_were_listed_are_told_rightly(
    js: JetStream,
) -> None:
    names = names_of(300)
    await make(js, *names)
    listed = await stream_names(js.api)
    await make(js, *(f"A{number}" for number in range(20)))
    gone = names[5:15]
    await concurrently(js.delete_stream, gone)
    found = await stream_infos(js.api, dict.fromkeys(names, 0), listed)
    assert list(found) == [name for name in names if name not in gone]


async def test_a_stream_that_ends_too_early_is_looked_at_again(js: JetStream) -> None:
    """A leader that just took over may not have caught up: it is given time."""
    names = names_of(10)
    await make(js, *names)
    asking = asyncio.create_task(
        stream_infos(js.api, {name: 2 if name == "S0003" else 1 for name in names}, names)
    )
    await asyncio.sleep(0.2)  # Sooner is a correct answer too.
    await js.publish("S0003.a", b"x")
    found = await asking
    assert [info.state.last_seq for info in found.values()] == [2 if name == "S0003" else 1 for name in names]


async def test_pages_of_a_cluster_tell_what_the_leaders_know(cluster: Cluster) -> None:
    """Asked right after the last message was acknowledged, through each of the servers."""
    names = names_of(12)

    async def one(name: str) -> None:
        replicas = 3 if int(name[1:]) % 2 else 1
        config = StreamConfig(name=name, subjects=[f"{name}.>"], storage="memory", num_replicas=replicas)
        await js.create_stream(config)

    async with asyncio.timeout(120), await jetspark.connect(cluster.urls) as nc:
        js = JetStream(nc, timeout=30)
        await concurrently(one, names)
        for number, server in enumerate(cluster.servers, 1):
            await concurrently(lambda name: js.publish(f"{name}.a", b"x"), names)
            async with await jetspark.connect(server.url) as other:
                before = other.statistics.out_msgs
                api = JetStream(other, timeout=30).api
                found = await stream_infos(api, dict.fromkeys(names, number), await stream_names(api))
                assert [(name, info.state.last_seq) for name, info in found.items()] == [
                    (name, number) for name in names
                ]
                # The names and a page. A stream whose leader answers late is not in it, and is asked alone.
                assert 2 <= other.statistics.out_msgs - before <= 4
        await concurrently(js.delete_stream, names)


async def test_a_user_who_may_not_list_streams_gets_them_one_by_one() -> None:
    config = """authorization { users = [
        { user: all, password: p },
        { user: u, password: p, permissions: { publish: { deny: ["$JS.API.STREAM.LIST"] } } } ] }"""
    names = names_of(20)
    with run(config=config) as server:
        async with await jetspark.connect(server.url, user="all", password="p") as nc:
            await make(JetStream(nc), *names)
        async with await jetspark.connect(server.url, user="u", password="p") as nc:
            js = JetStream(nc)
            listed = await stream_names(js.api)
            for requests in (1 + 20, 20):
                before = nc.statistics.out_msgs
                assert list(await stream_infos(js.api, dict.fromkeys(names, 1), listed)) == names
                assert nc.statistics.out_msgs - before == requests


async def test_the_first_error_ends_all_calls() -> None:
    ended = []

    async def call(number: int) -> int:
        try:
            if number == 3:
                raise UsageError("three")
            await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    with pytest.raises(UsageError, match="three"):
        await concurrently(call, range(10))
    await asyncio.sleep(0)
    assert sorted(ended) == list(range(10))


# --- servers whose totals are wrong


@pytest.fixture
async def liar() -> AsyncIterator[JetStream]:
    """A server that answers every request for a page with the same page of very many."""
    pages: dict[str, dict[str, Any]] = {
        "STREAM.NAMES": {"streams": ["A"]},
        "STREAM.LIST": {"streams": [STREAM]},
        "CONSUMER.NAMES.A": {"consumers": ["C"]},
        "STREAM.INFO.A": {**STREAM, "state": {"subjects": {"a": 1}}},
        "STREAM.MSG.GET.A": {"message": {"seq": 1, "subject": "a", "time": STREAM["created"]}},
    }
    async with ScriptedServer(info={"jetstream": True}) as server:
        for subject, page in pages.items():
            answer = json.dumps({"total": 10**18, "offset": 0, "limit": 1, **page}).encode()
            server.on(
                f"$JS.API.{subject}", partial(lambda data, peer, request: peer.answer(request, data), answer)
            )
        async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
            yield JetStream(nc)


STREAM = {"config": {"name": "A", "subjects": ["a"]}, "created": "2026-01-01T00:00:00Z", "state": {}}


async def test_a_list_ends_where_a_server_repeats_itself(liar: JetStream) -> None:
    assert await stream_names(liar.api) == ["A"]
    assert [name async for name in liar.stream_names()] == ["A"]
    assert [info.config.name async for info in liar.streams()] == ["A"]
    stream = await liar.get_stream("A")
    assert [name async for name in stream.consumer_names()] == ["C"]
    assert (await stream.info(subjects_filter=">")).state.subjects == {"a": 1}


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_without_entries_is_the_last(limit: int) -> None:
    answer = json.dumps({"total": 10**18, "limit": limit, "streams": []}).encode()
    async with ScriptedServer(info={"jetstream": True}) as server:
        server.on("$JS.API.STREAM.NAMES", lambda peer, request: peer.answer(request, answer))
        async with asyncio.timeout(60), await jetspark.connect(server.url) as nc:
            assert [name async for name in JetStream(nc).stream_names()] == []
            assert await stream_names(JetStream(nc).api) == []


async def test_the_search_for_a_time_ends_whatever_the_answers(liar: JetStream) -> None:
    state = StreamState(first_seq=1, last_seq=1000)
    assert await first_at(liar.api, "A", state, datetime(2030, 1, 1, tzinfo=UTC)) == 1001
