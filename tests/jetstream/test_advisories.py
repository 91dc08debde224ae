"""Advisories: what JetStream tells about itself, as typed events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import jetspark
from jetspark import Connection, PermissionsViolation, UsageError
from jetspark.jetstream import advisories as advisory
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.advisories import (
    ADVISORIES,
    Advisory,
    APIAudit,
    ConsumerAction,
    ConsumerPaused,
    MaxDeliveries,
    MessageAcked,
    MessageNaked,
    MessageTerminated,
    StreamAction,
)
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.server import User, run
from tests.jetstream.support import memory
from tests.support.cases import for_each
from tests.support.watch import Watch


async def test_everything_is_told_when_nothing_is_left_out(js: JetStream) -> None:
    async with js.advisories() as events:
        await js.create_stream(memory("A", "a"))
        got = [await anext(events), await anext(events)]
    by_class = {type(event): event for event in got}
    action, audit = by_class[StreamAction], by_class[APIAudit]
    assert isinstance(action, StreamAction)
    assert (action.stream, action.action) == ("A", "create")
    assert action.timestamp is not None
    assert isinstance(audit, APIAudit)
    assert audit.subject == "$JS.API.STREAM.CREATE.A"


async def test_the_ways_a_message_can_go_have_events_of_their_own(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a"))
    config = ConsumerConfig(durable_name="c", max_deliver=2, ack_wait=0.1, sample_freq="100")
    consumer = await stream.create_consumer(config)
    async with js.advisories(stream="A", consumer="c") as events:
        for _ in range(3):
            await js.publish("a")
        naked, terminated, acked = await consumer.fetch(3)
        naked.nak()
        event = await anext(events)
        assert isinstance(event, MessageNaked)
        assert (event.stream, event.consumer, event.stream_seq, event.deliveries) == ("A", "c", 1, 1)
        terminated.term("no use")
        event = await anext(events)
        assert isinstance(event, MessageTerminated)
        assert (event.stream_seq, event.reason) == (2, "no use")
        acked.ack()
        event = await anext(events)
        assert isinstance(event, MessageAcked)
        assert event.ack_time > 0
        # Whether a message may be delivered once more is found out when somebody asks for it.
        found = None
        while found is None:
            await consumer.fetch(1, expires=0.1)
            found = await events.next(timeout=0.01)
        assert isinstance(found, MaxDeliveries)
        assert (found.stream_seq, found.deliveries) == (1, 2)


@pytest.mark.parametrize("kinds", [["consumer_pause"], [ConsumerPaused], "consumer_pause", ConsumerPaused])
async def test_kinds_are_named_or_given_by_their_class(js: JetStream, kinds: Any) -> None:
    stream = await js.create_stream(memory("A", "a"))
    async with js.advisories(kinds) as events:
        assert events.subjects == ["$JS.EVENT.ADVISORY.CONSUMER.PAUSE.*.*"]
        await stream.create_consumer(ConsumerConfig(durable_name="c"))
        await js.pause_consumer("A", "c", 60)
        event = await anext(events)
        assert isinstance(event, ConsumerPaused)
        assert event.paused


async def test_events_can_be_limited_to_a_stream(js: JetStream) -> None:
    async with js.advisories(stream="B") as events:
        for name in ("A", "B"):
            stream = await js.create_stream(memory(name, name.lower()))
            await stream.create_consumer(ConsumerConfig(durable_name="c"))
            await stream.update(stream.config.replace(max_msgs=1))
        got: list[Advisory] = []
        while len([event for event in got if isinstance(event, StreamAction)]) < 2:
            got.append(await anext(events))
    assert {event.stream for event in got if isinstance(event, StreamAction | ConsumerAction)} == {"B"}
    assert {type(event) for event in got} == {StreamAction, ConsumerAction}


async def test_every_known_kind_has_subjects_that_can_be_listened_to() -> None:
    assert len(advisory.advisory_subjects(list(ADVISORIES), None, None)) >= len(ADVISORIES)
    subjects = advisory.advisory_subjects(["max_deliver", "stream_action"], "A", None)
    assert subjects == [
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A.*",
        "$JS.EVENT.ADVISORY.STREAM.CREATED.A",
        "$JS.EVENT.ADVISORY.STREAM.UPDATED.A",
        "$JS.EVENT.ADVISORY.STREAM.DELETED.A",
    ]


@for_each(
    ("kinds", "stream", "consumer", "told"),
    [
        (["nope"], None, None, "max_deliver"),
        ([str], None, None, "kinds"),
        ([], None, None, "empty"),
        (["api_audit"], "A", None, "not about a stream"),
        (["stream_action"], None, "c", "not about a consumer"),
        (None, "a.b", None, "stream"),
        (None, None, "*", "consumer"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    js: JetStream, kinds: list[str] | None, stream: str | None, consumer: str | None, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        js.advisories(kinds, stream=stream, consumer=consumer)


async def test_an_event_that_is_not_known_is_generic(nc: Connection, js: JetStream) -> None:
    event = {"type": "io.nats.jetstream.advisory.v1.from_2031", "id": "x", "what": {"so": "ever"}}
    async with js.advisories(stream="A") as events:
        nc.publish("$JS.EVENT.ADVISORY.STREAM.FROM_2031.A", json.dumps(event).encode())
        got = await anext(events)
    assert type(got) is Advisory
    assert (got.kind, got.extra) == ("from_2031", {"what": {"so": "ever"}})


async def test_what_is_no_event_is_reported_and_passed_over(server: jetspark.server.Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        js = JetStream(nc)
        async with js.advisories() as events:
            nc.publish("$JS.EVENT.ADVISORY.X", b"not JSON")
            nc.publish("$JS.EVENT.ADVISORY.X", b'{"type": "y"}')
            assert (await anext(events)).type == "y"
        assert "not a JSON object" in str(await watch.until(jetspark.Event.ERROR))


FORGED = (
    b"\xff",
    b"[]",
    b'{"type": []}',
    b'{"type": {"io.nats.jetstream.advisory.v1.nak": 1}}',
    b'{"type": "io.nats.jetstream.advisory.v1.nak", "stream_seq": "1"}',
    b'{"type": "io.nats.jetstream.advisory.v1.nak", "stream_seq": 1' + b"0" * 30 + b"}",
    b'{"type": "io.nats.jetstream.advisory.v1.api_audit", "client": 5}',
    b'{"timestamp": "0001-01-01T00:00:00+23:59"}',
    b'{"timestamp": "9999-12-31T23:59:59Z"}',
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b'{"what":' + b"[" * 200 + b"]" * 200 + b"}",
)


async def test_forged_events_are_reported_and_passed_over(server: jetspark.server.Server) -> None:
    """Any client may publish on these subjects."""
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        async with JetStream(nc).advisories() as events:
            for data in FORGED:
                nc.publish("$JS.EVENT.ADVISORY.X", data)
            nc.publish("$JS.EVENT.ADVISORY.X", b'{"id": "good"}')
            assert (await anext(events)).id == "good"
        assert [type(error) for _, error in watch.events] == [jetspark.RemoteProtocolError] * len(FORGED)
        assert nc.connected


async def test_forged_events_do_not_prolong_the_wait(server: jetspark.server.Server) -> None:
    def forge(*_: object) -> None:
        nc.publish("$JS.EVENT.ADVISORY.X", b"[]")

    async with (
        asyncio.timeout(60),
        jetspark.connect(server.url, on_error=forge) as nc,
        nc.jetstream().advisories() as events,
    ):
        forge()
        assert await events.next(timeout=0.5) is None


async def test_more_than_can_wait_is_dropped_and_reported(server: jetspark.server.Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, **watch.listeners) as nc:
        async with advisory.Advisories(nc, ["$JS.EVENT.ADVISORY.>"], limit=3) as events:
            for number in range(5):
                nc.publish("$JS.EVENT.ADVISORY.X", b'{"id": "%d"}' % number)
            error = await watch.until(jetspark.Event.SLOW_CONSUMER)
            await nc.flush()
            assert [(await anext(events)).id for _ in range(3)] == ["0", "1", "2"]
            assert events.dropped == 2
        assert isinstance(error, jetspark.SlowConsumer)


async def test_leaving_ends_the_subscriptions_and_the_iteration(nc: Connection, js: JetStream) -> None:
    await js.account_info()
    before = len(nc.session.receivers)
    async with js.advisories(["max_deliver", "nak"]) as events:
        assert len(nc.session.receivers) == before + 2
        waiting = asyncio.create_task(events.next())
        await asyncio.sleep(0)
    assert await waiting is None
    assert len(nc.session.receivers) == before
    assert [event async for event in events] == []


async def test_a_connection_that_closes_ends_the_iteration(server: jetspark.server.Server) -> None:
    nc = await jetspark.connect(server.url)
    async with JetStream(nc).advisories() as events:
        waiting = asyncio.create_task(events.next())
        await asyncio.sleep(0)
        await nc.close()
        assert await waiting is None


async def test_listening_that_is_not_permitted_says_so() -> None:
    deaf = User(user="deaf", password="secret", subscribe_deny=["$JS.EVENT.>"])
    with run(users=[deaf]) as server:
        async with (
            jetspark.connect(server.url, user="deaf", password="secret") as nc,
            nc.jetstream().advisories(["max_deliver"]) as events,
        ):
            with pytest.raises(PermissionsViolation, match="MAX_DELIVERIES"):
                await anext(events)


async def test_events_come_again_after_a_reconnect(server: jetspark.server.Server) -> None:
    watch = Watch()
    async with await jetspark.connect(server.url, reconnect_wait=0.01, **watch.listeners) as nc:
        js = JetStream(nc)
        async with js.advisories(["stream_action"]) as events:
            server.restart()
            await watch.until(jetspark.Event.RECONNECTED)
            await js.create_stream(memory("A", "a"))
            event = await anext(events)
            assert isinstance(event, StreamAction)
