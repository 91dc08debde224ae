"""Priority groups that jetspark and nats-py share, in both directions.

nats-py has no words for them: its program writes the requests itself, and reads the headers (ADR-42).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jetspark import ConsumerConfig, PinEvent
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from tests.support.consuming import LONG, fill, make_stream, sequences, until

SECOND = 1_000_000_000


class TheirPull:
    """A pull request of nats-py in a priority group, and what comes for it."""

    def __init__(self, nc: Any, subscription: Any) -> None:
        self._nc = nc
        self._subscription = subscription

    @classmethod
    async def send(cls, nc: Any, batch: int = 1, **fields: Any) -> TheirPull:
        inbox = nc.new_inbox()
        made = cls(nc, await nc.subscribe(inbox))
        request = {"batch": batch, "expires": 30 * SECOND, "group": "jobs", **fields}
        await nc.publish("$JS.API.CONSUMER.MSG.NEXT.ORDERS.worker", json.dumps(request).encode(), reply=inbox)
        await nc.flush()
        return made

    async def next(self) -> Any:
        return await self._subscription.next_msg(timeout=LONG)

    @property
    def arrived(self) -> int:
        return int(self._subscription.pending_msgs)


async def create(js: JetStream, other: Any, by: str, policy: str) -> Consumer:
    """A consumer with the group `jobs`, created by one of the clients and found by the other."""
    stream = await make_stream(js)
    if by == "jetspark":
        return await stream.create_consumer(
            ConsumerConfig(
                durable_name="worker", priority_policy=policy, priority_groups=["jobs"], max_ack_pending=-1
            )
        )
    config = {
        "durable_name": "worker",
        "ack_policy": "explicit",
        "max_ack_pending": -1,
        "priority_policy": policy,
        "priority_groups": ["jobs"],
    }
    body = json.dumps({"stream_name": "ORDERS", "config": config}).encode()
    answer = await other.request("$JS.API.CONSUMER.CREATE.ORDERS.worker", body, timeout=LONG)
    assert "error" not in json.loads(answer.data)
    return await js.get_consumer("ORDERS", "worker")


async def waiting(consumer: Consumer, number: int) -> None:
    async def enough() -> bool:
        return (await consumer.info()).num_waiting == number

    await until(enough, f"{number} requests to wait")


@pytest.fixture(params=["jetspark", "nats-py"])
def by(request: pytest.FixtureRequest) -> str:
    """The client that creates the consumer."""
    return str(request.param)


async def test_the_group_is_what_either_wrote(js: JetStream, other: Any, by: str) -> None:
    consumer = await create(js, other, by, "pinned_client")
    assert (consumer.config.priority_policy, consumer.config.priority_groups) == ("pinned_client", ["jobs"])
    info = await other.jetstream().consumer_info("ORDERS", "worker")
    assert info.name == "worker"


async def test_the_pin_goes_from_nats_py_to_jetspark(js: JetStream, other: Any, by: str) -> None:
    consumer = await create(js, other, by, "pinned_client")
    events: list[PinEvent] = []
    consumer.on_pin(events.append)
    stream = await js.get_stream("ORDERS")
    await fill(js, stream, 1)
    first = await (await TheirPull.send(other)).next()
    pin_id = first.headers["Nats-Pin-Id"]
    fetching = asyncio.create_task(consumer.fetch(1, expires=LONG))
    await waiting(consumer, 1)
    await fill(js, stream, 1)
    # The pinned client gets it, although the other one asked first.
    second = await (await TheirPull.send(other, id=pin_id)).next()
    assert second.data == b"2"
    assert not events
    await consumer.unpin("jobs")
    await fill(js, stream, 1)
    (message,) = await fetching
    assert message.data == b"3"
    assert [(event.gained, event.pin_id) for event in events] == [(True, message.headers["Nats-Pin-Id"])]
    refused = await (await TheirPull.send(other, id=pin_id)).next()
    assert refused.headers["Status"] == "423"


async def test_the_pin_goes_from_jetspark_to_nats_py(js: JetStream, other: Any, by: str) -> None:
    consumer = await create(js, other, by, "pinned_client")
    events: list[PinEvent] = []
    consumer.on_pin(events.append)
    stream = await js.get_stream("ORDERS")
    await fill(js, stream, 1)
    assert sequences(await consumer.fetch(1)) == [1]
    theirs = await TheirPull.send(other)
    await waiting(consumer, 1)
    await fill(js, stream, 1)
    assert sequences(await consumer.fetch(1)) == [2]
    assert not theirs.arrived
    await consumer.unpin("jobs")
    await fill(js, stream, 1)
    assert (await theirs.next()).data == b"3"
    # Not an error: it loses its pin and waits in line.
    assert await consumer.fetch(1, expires=0.2) == []
    assert [event.gained for event in events] == [True, False]


async def test_either_can_be_the_overflow_of_the_other(js: JetStream, other: Any, by: str) -> None:
    consumer = await create(js, other, by, "overflow")
    stream = await js.get_stream("ORDERS")
    await fill(js, stream, 3)
    assert await consumer.fetch_no_wait(1, min_pending=5) == []
    theirs = await TheirPull.send(other, batch=1)
    assert (await theirs.next()).data == b"1"
    await fill(js, stream, 5)
    assert sequences(await consumer.fetch_no_wait(1, min_pending=5)) == [2]
    overflow = await TheirPull.send(other, batch=1, min_pending=100)
    assert sequences(await consumer.fetch(1)) == [3]
    assert not overflow.arrived


async def test_the_lower_priority_of_either_is_served_first(js: JetStream, other: Any, by: str) -> None:
    consumer = await create(js, other, by, "prioritized")
    stream = await js.get_stream("ORDERS")
    late = await TheirPull.send(other, priority=5)
    await waiting(consumer, 1)
    ours = asyncio.create_task(consumer.next(LONG, priority=3))
    await waiting(consumer, 2)
    early = await TheirPull.send(other, priority=1)
    await waiting(consumer, 3)
    await fill(js, stream, 3)
    message = await ours
    assert message is not None
    assert [(await early.next()).data, message.data, (await late.next()).data] == [b"1", b"2", b"3"]
