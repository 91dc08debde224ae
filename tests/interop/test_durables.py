"""Durables and headers that jetspark and nats-py share, in both directions."""

from __future__ import annotations

from typing import Any

from jetspark import ConsumerConfig
from jetspark.jetstream.context import JetStream
from tests.support.consuming import LONG, fill, make_stream, until
from tests.support.watch import eventually


async def unbound(js: JetStream) -> None:
    """Wait until the server knows that nobody is subscribed to the push durable any more."""

    async def free() -> bool:
        return not (await js.consumer_info("ORDERS", "D")).push_bound

    await until(free, "the end of the subscription")


async def test_a_durable_of_nats_py_goes_on_in_jetspark_and_back(js: JetStream, other: Any) -> None:
    await make_stream(js, 9)
    theirs = await other.jetstream().pull_subscribe("orders.>", durable="D")
    for message in await theirs.fetch(3):
        await message.ack_sync()
    ours = await js.get_consumer("ORDERS", "D")
    batch = await ours.fetch(3)
    assert [message.data for message in batch] == [b"4", b"5", b"6"]
    for message in batch:
        await message.ack_sync()
    assert [message.data for message in await theirs.fetch(3)] == [b"7", b"8", b"9"]


async def test_a_durable_of_jetspark_goes_on_in_nats_py_and_back(js: JetStream, other: Any) -> None:
    stream = await make_stream(js, 9)
    ours = await stream.create_consumer(ConsumerConfig(durable_name="D", filter_subject="orders.>"))
    for message in await ours.fetch(3):
        await message.ack_sync()
    theirs = await other.jetstream().pull_subscribe_bind("D", stream="ORDERS")
    batch = await theirs.fetch(3)
    assert [message.data for message in batch] == [b"4", b"5", b"6"]
    for message in batch:
        await message.ack_sync()
    assert [message.data for message in await ours.fetch(3)] == [b"7", b"8", b"9"]


async def test_a_push_durable_of_nats_py_goes_on_in_jetspark(js: JetStream, other: Any) -> None:
    await make_stream(js, 2)
    theirs = await other.jetstream().subscribe("orders.>", durable="D", manual_ack=True)
    await (await theirs.next_msg(timeout=LONG)).ack_sync()
    second = await theirs.next_msg(timeout=LONG)
    await theirs.unsubscribe()
    await other.flush()
    await unbound(js)
    await second.nak()  # Not before: the old subscription could get it again.
    ours = await js.subscribe("orders.>", durable="D")
    assert (await ours.next(LONG)).data == b"2"


async def test_a_push_durable_of_jetspark_goes_on_in_nats_py(js: JetStream, other: Any) -> None:
    await make_stream(js, 2)
    config = ConsumerConfig(durable_name="D", deliver_subject="deliver.D", filter_subject="orders.>")
    await js.create_consumer("ORDERS", config)
    ours = await js.subscribe("orders.>", durable="D")
    await (await ours.next(LONG)).ack_sync()
    second = await ours.next(LONG)
    await ours.unsubscribe()
    await js.connection.flush()
    await unbound(js)
    second.nak()  # Not before: the old subscription could get it again.
    theirs = await other.jetstream().subscribe("orders.>", durable="D", manual_ack=True)
    assert (await theirs.next_msg(timeout=LONG)).data == b"2"


async def test_the_members_of_a_queue_may_be_of_both(js: JetStream, other: Any) -> None:
    stream = await make_stream(js)
    got: list[bytes] = []

    async def keep(message: Any) -> None:
        got.append(message.data)

    await js.subscribe("orders.>", "workers", callback=keep)
    await other.jetstream().subscribe("orders.>", "workers", cb=keep)
    await other.flush()
    await fill(js, stream, 40)
    await eventually(lambda: len(got) >= 40, "every message")
    assert sorted(got) == sorted(b"%d" % number for number in range(1, 41))
    assert (await stream.info()).state.consumer_count == 1


async def test_headers_of_either_are_read_by_the_other(js: JetStream, other: Any) -> None:
    await make_stream(js)
    headers = {"Trace-Id": "a b: c", "empty": "", "umlaut": "ä"}
    await js.publish("orders.new", b"ours", headers=headers)
    await other.jetstream().publish("orders.new", b"theirs", headers={"Trace-Id": "x", "Nats-Msg-Id": "1"})
    assert (await js.publish("orders.new", b"again", msg_id="1")).duplicate

    theirs = await other.jetstream().pull_subscribe("orders.>", durable="D")
    (message,) = await theirs.fetch(1)
    assert {name: message.headers.get(name, "") for name in headers} == headers
    batch = await (await js.get_consumer("ORDERS", "D")).fetch(1)
    assert [(m.data, m.headers["Trace-Id"], m.headers["Nats-Msg-Id"]) for m in batch] == [
        (b"theirs", "x", "1")
    ]
