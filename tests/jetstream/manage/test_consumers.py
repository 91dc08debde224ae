"""Consumers: created, changed, listed, paused, reset, unpinned and deleted on a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import jetspark
from jetspark import (
    APIError,
    Connection,
    ConsumerNameInUse,
    ConsumerNotFound,
    PermissionsViolation,
    StreamNotFound,
    UsageError,
)
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.stream import Stream
from jetspark.server import User, run
from tests.jetstream.support import cut_at, cut_at_answer, memory
from tests.support.proxy import TCPProxy


@pytest.fixture
async def stream(js: JetStream) -> Stream:
    return await js.create_stream(memory("A", "a.>"))


# --- creating


async def test_a_created_consumer_has_the_configuration_that_was_asked_for(stream: Stream) -> None:
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c", ack_wait=1.5))
    assert (consumer.stream_name, consumer.name) == ("A", "c")
    assert consumer.config.durable_name == "c"
    assert consumer.config.ack_policy is AckPolicy.EXPLICIT
    assert consumer.config.ack_wait == 1.5
    assert consumer.config.max_ack_pending == 1000


async def test_a_consumer_without_a_name_gets_one_and_is_ephemeral(stream: Stream) -> None:
    one, other = [await stream.create_consumer(ConsumerConfig()) for _ in range(2)]
    assert one.name != other.name
    assert len(one.name) >= 8
    assert one.config.durable_name is None
    assert one.config.inactive_threshold == 5.0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ConsumerConfig(name="c", filter_subject="a.1"), ("a.1", [])),
        (ConsumerConfig(name="c", filter_subject="a.*"), ("a.*", [])),
        (ConsumerConfig(name="c", filter_subject="a.>"), ("a.>", [])),
        (ConsumerConfig(name="c", filter_subjects=["a.1", "a.2"]), (None, ["a.1", "a.2"])),
        (ConsumerConfig(name="c", filter_subjects=["a.*"]), (None, ["a.*"])),
        (ConsumerConfig(name="c"), (None, [])),
    ],
    ids=["literal", "star", "all", "several", "list-of-one", "none"],
)
async def test_filters_arrive_as_they_were_given(
    stream: Stream, config: ConsumerConfig, expected: tuple[str | None, list[str]]
) -> None:
    consumer = await stream.create_consumer(config)
    info = await consumer.info()
    assert (info.config.filter_subject, info.config.filter_subjects) == expected


@pytest.mark.parametrize("subject", ["a.1.>", "a.1.*", "a.1.x"])
async def test_creating_may_be_permitted_by_filter(subject: str) -> None:
    reader = User(
        user="reader",
        password="secret",
        publish_allow=["$JS.API.CONSUMER.CREATE.A.*.a.1.>", "$JS.API.STREAM.>"],
    )
    with run(users=[reader]) as server:
        async with await jetspark.connect(server.url, user="reader", password="secret") as nc:
            stream = await JetStream(nc).create_stream(memory("A", "a.>"))
            consumer = await stream.create_consumer(ConsumerConfig(name="c", filter_subject=subject))
            assert consumer.config.filter_subject == subject
            with pytest.raises(PermissionsViolation, match=r"CONSUMER\.CREATE"):
                await stream.create_consumer(ConsumerConfig(name="d", filter_subject="a.2.>"))
            with pytest.raises(PermissionsViolation, match=r"CONSUMER\.CREATE"):
                await stream.create_consumer(ConsumerConfig(name="d"))


@pytest.mark.parametrize(
    "config",
    [
        ConsumerConfig(durable_name="c"),
        ConsumerConfig(name="c"),
        ConsumerConfig(name="c", inactive_threshold=60.0),
        ConsumerConfig(name="c", filter_subject="a.*", ack_policy="none", mem_storage=True, max_deliver=1),
        ConsumerConfig(name="c", deliver_subject="to.me", idle_heartbeat=1.0),
    ],
    ids=["durable", "named", "threshold", "filtered", "push"],
)
async def test_creating_the_same_consumer_twice_gives_the_one_that_is_there(
    stream: Stream, config: ConsumerConfig
) -> None:
    first = await stream.create_consumer(config)
    second = await stream.create_consumer(config)
    assert second.cached_info.created == first.cached_info.created
    assert second.config == first.config


@pytest.mark.parametrize(
    ("config", "change"),
    [
        (ConsumerConfig(durable_name="c"), {"max_deliver": 3}),
        (ConsumerConfig(name="c"), {"max_deliver": 3}),
        (ConsumerConfig(name="c"), {"inactive_threshold": 60.0}),
    ],
    ids=["durable", "named", "threshold"],
)
async def test_creating_a_consumer_of_another_configuration_says_that_the_name_is_in_use(
    stream: Stream, config: ConsumerConfig, change: dict[str, object]
) -> None:
    await stream.create_consumer(config)
    with pytest.raises(ConsumerNameInUse, match="create_or_update_consumer") as caught:
        await stream.create_consumer(config.replace(**change))
    assert (caught.value.stream, caught.value.consumer) == ("A", "c")


async def test_creating_a_consumer_of_a_stream_that_is_not_there_says_so(js: JetStream) -> None:
    with pytest.raises(StreamNotFound, match="stream NOPE not found"):
        await js.create_consumer("NOPE", ConsumerConfig())


async def test_a_consumer_that_the_server_refuses_is_an_api_error_with_a_hint(js: JetStream) -> None:
    await js.create_stream(memory("Q", "q", retention="workqueue"))
    with pytest.raises(APIError, match="ack_policy='explicit'"):
        await js.create_consumer("Q", ConsumerConfig(name="c", ack_policy="none"))


async def test_creating_goes_on_when_the_connection_breaks(stream: Stream, proxy: TCPProxy) -> None:
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        js = JetStream(nc)
        for config in (ConsumerConfig(name="c"), ConsumerConfig(name="d", filter_subject="a.*")):
            cut_at(proxy, b"CONSUMER.CREATE")
            assert (await js.create_consumer("A", config)).name == config.name
        assert proxy.accepted == 3


@pytest.mark.parametrize("name", ["c", None], ids=["named", "unnamed"])
async def test_a_consumer_whose_creation_was_not_answered_is_found_by_the_next_request(
    stream: Stream, proxy: TCPProxy, name: str | None
) -> None:
    async with await jetspark.connect(proxy.url, reconnect_wait=0.01) as nc:
        cut_at_answer(proxy, b"consumer_create_response")
        consumer = await JetStream(nc).create_consumer("A", ConsumerConfig(name=name))
        assert proxy.accepted == 2
    assert [each async for each in stream.consumer_names()] == [consumer.name]


# --- changing


async def test_an_update_changes_and_needs_a_consumer_that_is_there(stream: Stream) -> None:
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c", description="kept"))
    updated = await stream.update_consumer(consumer.config.replace(max_deliver=5))
    assert (updated.config.max_deliver, updated.config.description) == (5, "kept")
    with pytest.raises(ConsumerNotFound):
        await stream.update_consumer(ConsumerConfig(durable_name="d"))
    with pytest.raises(UsageError, match="name"):
        await stream.update_consumer(ConsumerConfig())


async def test_create_or_update_creates_then_updates(stream: Stream) -> None:
    created = await stream.create_or_update_consumer(ConsumerConfig(durable_name="c"))
    updated = await stream.create_or_update_consumer(ConsumerConfig(durable_name="c", max_deliver=2))
    assert updated.config.max_deliver == 2
    assert updated.cached_info.created == created.cached_info.created


# --- finding, deleting, listing


async def test_a_consumer_is_found_by_its_name(js: JetStream, stream: Stream) -> None:
    await stream.create_consumer(ConsumerConfig(durable_name="c"))
    assert (await stream.get_consumer("c")).name == "c"
    assert (await js.get_consumer("A", "c")).name == "c"
    assert (await js.consumer_info("A", "c")).name == "c"
    with pytest.raises(ConsumerNotFound, match="consumer d of stream A not found"):
        await stream.get_consumer("d")
    with pytest.raises(StreamNotFound):
        await js.get_consumer("NOPE", "c")
    with pytest.raises(UsageError, match="consumer"):
        await stream.get_consumer("a.b")


async def test_a_deleted_consumer_is_gone(stream: Stream) -> None:
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c"))
    await stream.delete_consumer("c")
    with pytest.raises(ConsumerNotFound):
        await consumer.info()
    with pytest.raises(ConsumerNotFound):
        await consumer.delete()


async def test_lists_go_on_beyond_the_first_page(stream: Stream) -> None:
    # 256 infos are a page.
    names = [f"c{number}" for number in range(270)]
    for name in names:
        await stream.create_consumer(ConsumerConfig(durable_name=name, mem_storage=True))
    listed = [name async for name in stream.consumer_names()]
    assert sorted(listed) == sorted(names)
    infos = [info.name async for info in stream.consumers()]
    assert sorted(infos) == sorted(names)


async def test_listing_the_consumers_of_a_stream_that_is_not_there_says_so(js: JetStream) -> None:
    with pytest.raises(StreamNotFound):
        await anext(aiter(js.consumers("NOPE")))
    with pytest.raises(StreamNotFound):
        await anext(aiter(js.consumer_names("NOPE")))


# --- pause, reset, unpin


async def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(js: JetStream, stream: Stream) -> None:
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c"))
    await js.publish("a.1")
    answer = await js.pause_consumer("A", "c", 60.0)
    assert answer.paused
    assert answer.pause_remaining == pytest.approx(60, abs=5)
    assert (await consumer.info()).paused
    assert await consumer.fetch_no_wait(1) == []
    assert not (await js.resume_consumer("A", "c")).paused
    assert [message.subject for message in await consumer.fetch(1)] == ["a.1"]


async def test_a_pause_may_end_at_a_time(js: JetStream, stream: Stream) -> None:
    await stream.create_consumer(ConsumerConfig(durable_name="c"))
    until = datetime.now(UTC) + timedelta(hours=1)
    answer = await js.pause_consumer("A", "c", until)
    assert (answer.paused, answer.pause_until) == (True, until)
    with pytest.raises(UsageError, match="time zone"):
        await js.pause_consumer("A", "c", until.replace(tzinfo=None))
    with pytest.raises(UsageError, match="until"):
        await js.pause_consumer("A", "c", 0)
    with pytest.raises(ConsumerNotFound):
        await js.pause_consumer("A", "d", 60)


async def test_a_reset_consumer_delivers_again(js: JetStream, stream: Stream) -> None:
    consumer = await stream.create_consumer(ConsumerConfig(durable_name="c"))
    for _ in range(5):
        await js.publish("a.1")
    for message in await consumer.fetch(5):
        await message.ack_sync()
    answer = await js.reset_consumer("A", "c", 3)
    assert (answer.reset_seq, answer.num_pending) == (3, 3)
    assert [message.metadata.sequence.stream for message in await consumer.fetch(3)] == [3, 4, 5]
    assert (await js.reset_consumer("A", "c")).num_pending == 3
    with pytest.raises(UsageError):
        await js.reset_consumer("A", "c", -1)


async def test_unpinning_lets_another_client_be_pinned(js: JetStream, stream: Stream) -> None:
    config = ConsumerConfig(durable_name="c", priority_groups=["g"], priority_policy="pinned_client")
    consumer = await stream.create_consumer(config)
    await js.publish("a.1")
    await js.publish("a.2")
    message = await consumer.next()
    assert message is not None
    pinned = (await consumer.info()).priority_groups[0].pinned_client_id
    assert pinned == message.headers["Nats-Pin-Id"]
    await js.unpin_consumer("A", "c", "g")
    assert (await consumer.info()).priority_groups[0].pinned_client_id is None
    with pytest.raises(APIError):
        await js.unpin_consumer("A", "c", "h")


async def test_creating_with_a_wildcard_leaves_no_subscription_behind(nc: Connection, stream: Stream) -> None:

    await stream.create_consumer(ConsumerConfig(name="warm-up"))
    before = len(nc.session.receivers)
    await stream.create_consumer(ConsumerConfig(name="c", filter_subject="a.*"))
    assert len(nc.session.receivers) == before
