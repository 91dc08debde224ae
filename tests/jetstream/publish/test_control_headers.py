"""Headers that command the server, or that it adds: a message that is published again must not have them."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import AckPolicy, Connection, ConsumerConfig, StreamConfig, StreamSource
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.requests import MsgGetRequest
from jetspark.jetstream.model.stream import RePublish
from jetspark.jetstream.publish.headers import headers_to_copy, is_control_header, is_publish_header
from jetspark.jetstream.read import direct
from jetspark.wire.headers import Headers
from tests.jetstream.support import memory
from tests.support.cases import for_each

SOON = "@at 2099-01-01T00:00:00Z"
TRACE = {"Nats-Trace-Dest": "trace", "Nats-Trace-Only": "true"}

#: For each header, those of a message that a plain stream does not store.
COMMANDS = {
    "Nats-Msg-Id": {"Nats-Msg-Id": "earlier"},
    "Nats-Expected-Stream": {"Nats-Expected-Stream": "OTHER"},
    "Nats-Expected-Last-Sequence": {"Nats-Expected-Last-Sequence": "99"},
    "Nats-Expected-Last-Subject-Sequence": {"Nats-Expected-Last-Subject-Sequence": "99"},
    "Nats-Expected-Last-Subject-Sequence-Subject": {"Nats-Expected-Last-Subject-Sequence-Subject": "a"},
    "Nats-Expected-Last-Msg-Id": {"Nats-Expected-Last-Msg-Id": "other"},
    "Nats-Batch-Id": {"Nats-Batch-Id": "b"},
    "Nats-Batch-Sequence": {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"},
    "Nats-Batch-Commit": {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    "Nats-Rollup": {"Nats-Rollup": "all"},
    "Nats-TTL": {"Nats-TTL": "1h"},
    "Nats-Incr": {"Nats-Incr": "+1"},
    "Nats-Schedule": {"Nats-Schedule": SOON},
    "Nats-Schedule-Target": {"Nats-Schedule": SOON, "Nats-Schedule-Target": "a.b"},
    "Nats-Schedule-Source": {"Nats-Schedule": SOON, "Nats-Schedule-Source": "a.b"},
    "Nats-Schedule-TTL": {"Nats-Schedule": SOON, "Nats-Schedule-TTL": "1h"},
    "Nats-Schedule-Time-Zone": {"Nats-Schedule": SOON, "Nats-Schedule-Time-Zone": "UTC"},
    "Nats-Schedule-Rollup": {"Nats-Schedule": SOON, "Nats-Schedule-Rollup": "sub"},
    "Nats-Schedule-Next": {"Nats-Schedule-Next": "purge"},
    "Nats-Scheduler": {"Nats-Scheduler": "a.b"},
    "Nats-Stream-Source": {"Nats-Stream-Source": "OTHER 1 > > a.b"},
    "Nats-Trace-Dest": TRACE,
    "Nats-Trace-Only": TRACE,
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_the_server_obeys_a_header_and_a_copy_is_without_it(js: JetStream, name: str) -> None:
    await js.create_stream(memory("A", "a.>"))
    await js.publish("a.b", b"first", msg_id="earlier")
    headers = COMMANDS[name]
    js.connection.publish("a.b", b"command", headers=headers)
    # Nothing was stored in between: messages of one connection are stored in their order.
    assert (await js.publish("a.b", b"second")).sequence == 2

    # The server compares names exactly.
    js.connection.publish("a.b", b"no command", headers={each.lower(): headers[each] for each in headers})
    assert (await js.publish("a.b", b"third")).sequence == 4

    copied = headers_to_copy(Headers({**headers, "Mine": ["1", "2"]}))
    assert copied == {"Mine": ["1", "2"]}
    assert (await js.publish("a.b", b"copy", headers=copied)).sequence == 5
    assert is_control_header(name)
    assert not is_control_header(name.lower())


async def test_a_copied_command_would_empty_its_target(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a.>", allow_rollup_hdrs=True))
    for number in range(10):
        await js.publish("a.b", b"%d" % number)
    rollup = Headers({"Nats-Rollup": "all"})
    await js.publish("a.c", b"copy", headers=headers_to_copy(rollup))
    assert (await stream.info()).state.messages == 11
    await js.publish("a.c", b"as it was", headers=rollup)
    assert (await stream.info()).state.messages == 1


async def test_what_the_server_adds_is_not_copied(nc: Connection, js: JetStream) -> None:
    found: set[str] = set()
    await js.create_stream(
        memory("A", "a.>", allow_direct=True, republish=RePublish(src="a.>", dest="again.>"))
    )
    await js.create_stream(StreamConfig(name="S", sources=[StreamSource(name="A")], storage="memory"))
    await js.create_stream(memory("C", "c.>", allow_msg_counter=True))
    async with await nc.subscribe("again.>") as republished:
        await js.publish("a.x", b"1")
        await js.publish("a.x", b"2")
        for _ in range(2):
            found |= set((await republished.next(10)).headers)
    async for frames in direct.batches(js.api, "A", MsgGetRequest(seq=1, batch=1)):
        found |= set(Headers.parse(frames[0].header))
    sourced = await (await js.get_stream("S")).ordered_consumer()
    message = await sourced.next(expires=10)
    assert message is not None
    found |= set(message.headers)
    await nc.request("c.x", headers={"Nats-Incr": "1"}, timeout=10)
    consumer = await js.create_consumer("A", ConsumerConfig(name="h", headers_only=True))
    found |= set((await consumer.fetch(1, expires=10))[0].headers)
    inbox = nc.new_inbox()
    pulled = await js.create_consumer("A", ConsumerConfig(name="p", ack_policy=AckPolicy.NONE))
    async with await nc.subscribe(inbox) as statuses:
        nc.publish("$JS.API.CONSUMER.MSG.NEXT.A.p", b'{"batch":5,"expires":100000000}', reply=inbox)
        async with asyncio.timeout(10):
            while (status := await statuses.next()).headers.status is None:
                pass
        found |= set(status.headers)
    assert found >= {
        *("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence"),
        *("Nats-Num-Pending", "Nats-Stream-Source", "Nats-Msg-Size", "Nats-Pending-Messages"),
    }
    assert [name for name in found if not is_control_header(name)] == []
    assert pulled.name == "p"


async def test_the_marker_of_an_expired_subject_is_copied_without_its_reason(js: JetStream) -> None:
    limits = {"max_age": 0.5, "duplicate_window": 0.5, "subject_delete_marker_ttl": 60.0}
    stream = await js.create_stream(memory("A", "a.>", allow_msg_ttl=True, **limits))
    await js.publish("a.b", b"short")
    async with asyncio.timeout(30):
        while (await stream.info()).state.last_seq == 1:
            await asyncio.sleep(0.05)
    marker = await stream.get_last_message("a.b")
    assert set(marker.headers) == {"Nats-Marker-Reason", "Nats-Rollup", "Nats-TTL"}
    assert headers_to_copy(marker.headers) == {}


async def test_the_sources_of_a_counter_are_not_copied(nc: Connection, js: JetStream) -> None:
    await js.create_stream(memory("A", "a.>", allow_msg_counter=True))
    source = StreamSource(name="A")
    total = await js.create_stream(
        StreamConfig(name="T", sources=[source], storage="memory", allow_msg_counter=True)
    )
    await nc.request("a.b", headers={"Nats-Incr": "5"}, timeout=10)
    async with asyncio.timeout(30):
        while not (await total.info()).state.messages:
            await asyncio.sleep(0.02)
    added = await total.get_last_message("a.b")
    assert {"Nats-Counter-Sources", "Nats-Incr", "Nats-Stream-Source"} <= set(added.headers)
    assert headers_to_copy(added.headers) == {}


async def test_the_pin_of_a_delivery_is_not_copied(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a.>"))
    config = ConsumerConfig(name="p", priority_groups=["g"], priority_policy="pinned_client")
    consumer = await stream.create_consumer(config)
    await js.publish("a.b", b"1", headers={"Mine": "1"})
    [message] = await consumer.fetch(1, expires=10, group="g")
    assert set(message.headers) == {"Nats-Pin-Id", "Mine"}
    assert headers_to_copy(message.headers) == {"Mine": ["1"]}


async def test_the_end_of_a_batch_is_not_copied(nc: Connection, js: JetStream) -> None:
    await js.create_stream(memory("A", "a.>", allow_direct=True))
    await js.publish("a.b", b"1")
    inbox = nc.new_inbox()
    async with await nc.subscribe(inbox) as answers:
        nc.publish("$JS.API.DIRECT.GET.A", b'{"multi_last":["a.>"]}', reply=inbox)
        while (status := await answers.next(10)).headers.status is None:
            pass
    assert "Nats-UpTo-Sequence" in status.headers
    assert headers_to_copy(status.headers) == {}


async def test_a_required_level_of_the_api_is_obeyed_and_not_copied(nc: Connection) -> None:
    headers = {"Nats-Required-Api-Level": "9999"}
    answer = await nc.request("$JS.API.INFO", headers=headers, timeout=10)
    assert b'"code":412' in answer.data
    assert headers_to_copy(Headers(headers)) == {}


@for_each(
    "name",
    ["Mine", "nats-ttl", "NATS-ROLLUP", "Nats-Message", "X-Nats-TTL", "Nats-TTL-Mine", "traceparent", "Nats"],
)
def test_headers_of_the_user_stay(name: str) -> None:
    assert not is_control_header(name)


@for_each("name", ["Nats-Msg-Id", "nats-msg-id", "Nats-Expected-Stream", "NATS-BATCH-ID"])
def test_what_each_publish_has_of_its_own_is_known_in_any_case(name: str) -> None:
    assert is_publish_header(name)


def test_what_a_publish_would_refuse_is_not_copied() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nnats-ttl: 5\r\nB B: 2\r\nC: x\ny\r\nno colon\r\n\r\n"
    assert headers_to_copy(Headers.parse(block)) == {"A": ["1"]}
