"""Leaders of streams and consumers that step down, in a cluster of three."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

import jetspark
from jetspark import APIError
from jetspark.jetstream.advisories import Advisories
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.advisories import ConsumerLeaderElected, StreamLeaderElected
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.model.stream import Placement
from jetspark.jetstream.stream import Stream
from jetspark.server import Cluster
from tests.jetstream.support import memory
from tests.support.consuming import until
from tests.support.leaders import leader_of, step_down


@pytest_asyncio.fixture
async def clustered(cluster: Cluster) -> AsyncIterator[JetStream]:
    async with await jetspark.connect(cluster.urls) as nc:
        yield JetStream(nc, timeout=30)


async def elected(events: Advisories, old: str | None) -> StreamLeaderElected | ConsumerLeaderElected:
    """The first event of another leader; the one of the first election may still be on its way."""
    async with asyncio.timeout(60):
        async for event in events:
            assert isinstance(event, StreamLeaderElected | ConsumerLeaderElected)
            if event.leader != old:
                return event
    raise AssertionError("the events ended")


async def leads(stream: Stream, name: str | None) -> bool:
    info = (await stream.info()).cluster
    return info is not None and info.leader == name


async def test_the_leader_of_a_stream_steps_down_for_another(cluster: Cluster, clustered: JetStream) -> None:
    stream = await clustered.create_stream(memory("STEP", "step", num_replicas=3))
    old = (await leader_of(stream.info, cluster)).name
    async with clustered.advisories([StreamLeaderElected], stream="STEP") as events:
        await step_down(stream.stepdown_leader)
        event = await elected(events, old)
    assert isinstance(event, StreamLeaderElected)
    await until(lambda: leads(stream, event.leader), "the server that answers to know its leader")
    assert len(event.replicas) >= 2


async def test_a_stream_hands_over_to_the_server_that_was_asked_for(
    cluster: Cluster, clustered: JetStream
) -> None:
    stream = await clustered.create_stream(memory("PREFER", "prefer", num_replicas=3))
    async with clustered.advisories([StreamLeaderElected], stream="PREFER") as events:
        old = (await leader_of(stream.info, cluster)).name
        wanted = next(member.name for member in cluster.servers if member.name != old)
        new = None
        # On a busy machine another one may win the election: it is a wish.
        while new != wanted:
            await step_down(
                partial(clustered.stepdown_stream_leader, "PREFER", placement=Placement(preferred=wanted))
            )
            new = old = (await elected(events, old)).leader
    await until(lambda: leads(stream, wanted), "the server that answers to know its leader")


async def test_a_leader_that_is_not_there_cannot_be_asked_for(clustered: JetStream) -> None:
    await clustered.create_stream(memory("NOBODY", "nobody", num_replicas=3))
    with pytest.raises(APIError):
        await clustered.stepdown_stream_leader("NOBODY", placement=Placement(preferred="nobody"))


async def test_the_leader_of_a_consumer_steps_down_for_another(
    cluster: Cluster, clustered: JetStream
) -> None:
    stream = await clustered.create_stream(memory("CONSUMED", "consumed", num_replicas=3))
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c"))
    old = (await leader_of(consumer.info, cluster)).name
    async with clustered.advisories([ConsumerLeaderElected], stream="CONSUMED", consumer="c") as events:
        await step_down(lambda: clustered.stepdown_consumer_leader("CONSUMED", "c"))
        event = await elected(events, old)
    assert isinstance(event, ConsumerLeaderElected)


async def test_lists_and_reads_work_on_every_member(cluster: Cluster, clustered: JetStream) -> None:
    stream = await clustered.create_stream(memory("READ", "read", num_replicas=3, allow_direct=True))
    for number in range(100):
        await clustered.publish("read", b"%d" % number)
    for member in cluster.servers:
        async with await jetspark.connect(member.url, discover_servers=False) as nc:
            js = JetStream(nc)
            assert "READ" in [name async for name in js.stream_names()]
            assert "READ" in [info.config.name async for info in js.streams()]
            there = await js.get_stream("READ")

            async def all_there(there: Stream = there) -> bool:
                return [m.sequence async for m in there.get_messages()] == list(range(1, 101))

            await until(all_there, "a replica that may be behind")
            assert (await there.get_message(100)).data == b"99"
    assert stream.config.num_replicas == 3


async def test_a_server_on_its_own_has_no_leaders_to_step_down(js: JetStream) -> None:
    stream = await js.create_stream(memory("A", "a"))
    with pytest.raises(APIError, match="cluster") as caught:
        await stream.stepdown_leader()
    assert caught.value.err_code == 10010
