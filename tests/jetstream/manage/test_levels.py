"""The levels of the JetStream API (ADR-44): what a request requires, and what a server has."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jetspark
from jetspark import APIError, ConsumerConfig, StreamConfig, StreamSource
from jetspark.core.server_info import Feature
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.api import Endpoint
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.requests import ConsumerCreateRequest, MsgGetRequest
from jetspark.server import run
from jetspark.wire import PubFrame
from jetspark.wire.headers import Headers
from tests.jetstream.support import memory
from tests.support.scripted import ScriptedServer

SOON = datetime.now(UTC) + timedelta(hours=1)

STREAMS: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({"compression": "s2", "metadata": {"a": "b"}, "allow_direct": True}, 0),
    ({"allow_msg_ttl": True}, 1),
    ({"subject_delete_marker_ttl": 60.0}, 1),
    ({"allow_msg_counter": True}, 2),
    ({"allow_atomic": True}, 2),
    ({"allow_msg_schedules": True}, 2),
    ({"persist_mode": "async", "storage": "file"}, 2),
    ({"allow_batched": True}, 4),
    ({"allow_batched": True, "allow_msg_ttl": True}, 4),
]
CONSUMERS: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({"filter_subjects": ["a.1", "a.2"], "metadata": {"a": "b"}}, 0),
    ({"pause_until": SOON}, 1),
    ({"priority_policy": "overflow", "priority_groups": ["jobs"]}, 1),
    ({"priority_policy": "pinned_client", "priority_groups": ["jobs"], "priority_timeout": 5.0}, 1),
    ({"ack_policy": "flow_control", "deliver_subject": "d", "flow_control": True, "idle_heartbeat": 1.0}, 4),
]


async def test_we_require_the_levels_that_the_server_requires(js: JetStream) -> None:
    """The server writes the level that a stream or consumer requires into its metadata."""
    for fields, level in STREAMS:
        config = memory("A", "a.>").replace(**fields)
        stream = await js.create_stream(config)
        assert (config.api_level, stream.config.metadata["_nats.req.level"]) == (level, str(level)), fields
        await stream.delete()
    stream = await js.create_stream(memory("A", "a.>"))
    for fields, level in CONSUMERS:
        wanted = ConsumerConfig(**fields)
        consumer = await stream.create_consumer(wanted)
        assert (wanted.api_level, consumer.config.metadata["_nats.req.level"]) == (level, str(level)), fields


def test_a_request_requires_what_its_parts_require() -> None:
    config = ConsumerConfig(pause_until=SOON)
    assert ConsumerCreateRequest(stream_name="A", config=config).api_level == 1
    assert MsgGetRequest(seq=1).api_level == 0
    assert MsgGetRequest(seq=1, no_hdr=True).api_level == 2
    assert StreamConfig(name="A", mirror=StreamSource(name="B")).api_level == 0


async def test_a_server_with_a_lower_level_refuses_the_request(js: JetStream) -> None:
    with pytest.raises(APIError) as caught:
        await js.api.call(Endpoint("INFO", level=99))
    assert caught.value.err_code == 10185
    assert "nats-server" in (caught.value.hint or "")
    assert await js.api.call(Endpoint("INFO", level=1))


@pytest.mark.parametrize("subject", ["a.1", "a.*"])
async def test_the_level_is_in_the_header_of_the_request_and_in_no_other(subject: str) -> None:
    async with ScriptedServer(info={"jetstream": True}) as server:
        error = {"error": {"code": 404, "err_code": 10014, "description": "no"}}
        server.on("$JS.API.>", lambda peer, frame: peer.answer(frame, json.dumps(error).encode()))
        async with jetspark.connect(server.url) as nc:
            js = JetStream(nc)
            grouped = ConsumerConfig(
                name="c", filter_subject=subject, priority_policy="overflow", priority_groups=["jobs"]
            )
            for call in (
                js.create_consumer("S", grouped),
                js.create_consumer("S", ConsumerConfig(name="c", filter_subject=subject)),
                js.pause_consumer("S", "c", 5.0),
                js.unpin_consumer("S", "c", "jobs"),
                js.reset_consumer("S", "c"),
                js.consumer_info("S", "c"),
            ):
                with pytest.raises(APIError):
                    await call
            sent = (await server.peer()).all(PubFrame)
        levels = [
            Headers.parse(frame.header).get("Nats-Required-Api-Level") if frame.header else None
            for frame in sent
        ]
        assert levels == ["1", None, "1", "1", "4", None]


# --- which features there are


async def test_the_server_of_the_connection_says_its_level(js: JetStream) -> None:
    info = js.connection.server_info
    assert info.api_level == (await js.account_info()).api.level > 4
    assert await js.api.supports(Feature.CONSUMER_RESET)


async def test_the_level_of_another_domain_is_asked_for_there() -> None:
    with run(domain="hub") as server:
        async with jetspark.connect(server.url) as nc:
            assert await JetStream(nc, domain="hub").api.supports(Feature.CONSUMER_RESET)


@pytest.mark.parametrize(
    ("info", "domain", "subject"),
    [
        ({"api_lvl": 5, "jetstream": True}, "hub", "$JS.hub.API.INFO"),
        ({"api_lvl": 5}, None, "$JS.API.INFO"),
        ({"version": "2.8.0"}, None, "$JS.API.INFO"),
    ],
)
@pytest.mark.parametrize("level", [0, 2])
async def test_where_jetstream_is_on_another_server_that_one_is_asked_once(
    info: dict[str, Any], domain: str | None, subject: str, level: int
) -> None:
    async with ScriptedServer(info=info) as server:
        answer = json.dumps({"api": {"level": level}}).encode()
        server.on(subject, lambda peer, frame: peer.answer(frame, answer))
        async with jetspark.connect(server.url) as nc:
            api = JetStream(nc, domain=domain).api
            for _ in range(2):
                assert await api.supports(Feature.ATOMIC_BATCH) is (level == 2)
                assert not await api.supports(Feature.CONSUMER_RESET)
            assert [frame.subject.decode() for frame in (await server.peer()).all(PubFrame)] == [subject]


@pytest.mark.parametrize(("level", "supported"), [(1, False), (2, True)])
async def test_where_the_other_server_may_not_be_asked_that_of_the_connection_counts(
    level: int, supported: bool
) -> None:
    async with ScriptedServer(info={"api_lvl": level, "jetstream": True}) as server:
        server.on("$JS.hub.API.INFO", lambda peer, frame: peer.answer(frame, status="503"))
        async with jetspark.connect(server.url) as nc:
            api = JetStream(nc, domain="hub", timeout=0.05).api
            assert await api.supports(Feature.ATOMIC_BATCH) is supported


def test_every_endpoint_that_came_with_a_level_names_it() -> None:
    levels = {name: value.level for name, value in vars(endpoints).items() if isinstance(value, Endpoint)}
    assert {name: level for name, level in levels.items() if level} == {
        "CONSUMER_PAUSE": 1,
        "CONSUMER_RESET": 4,
        "CONSUMER_UNPIN": 1,
    }
