"""The driver's half of a query that is a worker, against the real server. Without Spark, which is slow."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from jetspark import StreamConfig, connect
from jetspark.errors import APIError, ConsumerDeleted, DataLoss, StreamNotFound, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.read.ranges import StreamRange, read_range
from jetspark.server import Server, User
from jetspark.spark.options import parse_options
from jetspark.spark.queue.worker import QueueWorker
from tests.spark.queue.support import (
    LONG,
    Workers,
    as_stored,
    durable,
    make,
    messages,
    pending,
    publish,
    stored,
)


@pytest.mark.parametrize("retention", ["workqueue", "interest", "limits"])
async def test_a_batch_is_acknowledged_when_the_next_one_is_asked_for(
    js: JetStream, workers: Workers, retention: str
) -> None:
    stream = await make(js, retention=retention)
    if retention == "interest":
        await durable(js, stream)
    await publish(js, stream, 10)
    worker = workers(stream, maxMessagesPerTrigger=6)
    begun = await worker.begin()
    assert len(begun) == 0
    first = await worker.take(begun)
    assert messages(first, stream) == dict.fromkeys(range(1, 7), 1)
    assert await pending(js, stream) == (4, 6)
    assert await worker.take(begun) == first  # As long as Spark has not written it down.
    second = await worker.take(as_stored(first))
    assert messages(second, stream) == dict.fromkeys(range(7, 11), 1)
    assert second.batch == 2
    assert await pending(js, stream) == (0, 4)
    assert await worker.take(second) == second
    assert await pending(js, stream) == (0, 0)
    await worker.acknowledge(second)  # Spark's `commit`, later.
    assert await stored(js, stream) == (10 if retention == "limits" else 0)


async def test_a_consumer_that_the_query_creates_delivers_no_payloads(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js)
    await workers(stream, subjects=f"{stream}.a,{stream}.b", maxMessagesPerTrigger=500).begin()
    config = (await js.consumer_info(stream, "worker")).config
    assert (config.headers_only, config.max_ack_pending, config.ack_policy) == (True, 2000, "explicit")
    assert config.filter_subjects == [f"{stream}.a", f"{stream}.b"]


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        ({"deliver_subject": "push.here"}, {}, "pushes to push.here; Spark pulls"),
        ({"ack_policy": "none"}, {}, "has ack_policy none; Spark acknowledges each message"),
        ({"ack_wait": 1.0}, {}, "redelivers after 1 s, too soon.*ack_wait"),
        ({"backoff": [1.5, 30.0], "max_deliver": 5}, {}, "redelivers after 1.5 s, too soon"),
        ({"max_ack_pending": 1000}, {}, "max_ack_pending 1000, less than the 100000 messages of a batch.*"),
        ({"max_ack_pending": 9}, {"maxMessagesPerTrigger": 10}, "set maxMessagesPerTrigger to 9 or less"),
        ({"filter_subject": "{}.a"}, {"subjects": "{}.b"}, "delivers .*a, not option subjects"),
        ({"priority_groups": ["A"], "priority_policy": "overflow"}, {}, "has priority groups"),
    ],
)
async def test_a_consumer_that_does_not_fit_is_refused_with_the_way_out(
    js: JetStream, workers: Workers, config: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    stream = await make(js, retention="limits")
    named = {key: each.format(stream) if isinstance(each, str) else each for key, each in config.items()}
    await durable(js, stream, **named)
    worker = workers(stream, **{key: str(each).format(stream) for key, each in options.items()})
    with pytest.raises(UsageError, match=said):
        await worker.begin()


async def test_a_restarted_driver_acknowledges_what_was_committed_and_repeats_what_was_not(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 10)
    killed = workers(stream, maxMessagesPerTrigger=5)
    first = await killed.take(await killed.begin())
    second = await killed.take(first)
    await killed.close()
    # The second batch is in the checkpoint and is run again; nothing is pulled for that.
    restarted = workers(stream, maxMessagesPerTrigger=5)
    await restarted.hold(as_stored(second))
    assert await pending(js, stream) == (0, 5)
    # It is committed, and the driver is killed before it can say so.
    await restarted.close()
    again = workers(stream, maxMessagesPerTrigger=5)
    assert await again.take(as_stored(second)) == second
    assert await stored(js, stream) == 0


async def test_a_batch_that_takes_longer_than_ack_wait_is_not_delivered_again(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 5)
    await durable(js, stream, ack_wait=4.0)
    worker, other = workers(stream), await js.get_consumer(stream, "worker")
    batch = await worker.take(await worker.begin())
    # Another worker waits for twice that time.
    assert await other.fetch(1, expires=8.0) == []
    assert (await other.info()).num_redelivered == 0
    await worker.take(batch)
    assert await stored(js, stream) == 0


async def test_messages_that_nobody_keeps_go_to_another_worker_and_are_not_taken_twice(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 4)
    await durable(js, stream, ack_wait=2.0)
    killed = workers(stream)
    batch = await killed.take(await killed.begin())
    await killed.close()
    other = await js.get_consumer(stream, "worker")
    [message] = await other.fetch(1, expires=LONG)
    assert message.metadata.num_delivered == 2
    await message.ack_sync()
    # The driver is back. What is delivered to it again is in the batch that it repeats.
    restarted = workers(stream)
    await restarted.hold(as_stored(batch))
    await publish(js, stream, 1)
    assert messages(await restarted.take(as_stored(batch)), stream) == {5: 1}
    assert await pending(js, stream) == (0, 1)


async def test_a_message_that_is_delivered_again_before_its_acknowledgement_counts_is_not_taken_twice(
    js: JetStream, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await make(js, 3)
    worker = workers(stream)
    batch = await worker.take(await worker.begin())
    other = await js.get_consumer(stream, "worker")

    async def lost(*_: object) -> None:
        """The acknowledgement does not arrive, and the server delivers again."""
        await worker.consumers[stream].give_back([2])

    with monkeypatch.context() as patch:
        patch.setattr(worker.consumers[stream], "acknowledge", lost)
        await worker.acknowledge(batch)

    assert await worker.take(batch) == batch
    # Two are still in flight, because nothing was acknowledged; the one that came again is done.
    assert await pending(js, stream) == (0, 2)
    assert await other.fetch_no_wait(1) == []


async def test_other_workers_get_their_share_and_spark_reads_around_it(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 20)
    worker = workers(stream, maxMessagesPerTrigger=5)
    begun = await worker.begin()
    other = await js.get_consumer(stream, "worker")
    first = await worker.take(begun)
    theirs = await other.fetch(5, expires=LONG)
    second = await worker.take(first)
    assert list(messages(second, stream)) == [11, 12, 13, 14, 15]
    # They give one back: it is delivered to Spark, for the second time.
    await theirs[2].nak()
    await asyncio.gather(*(message.ack_sync() for message in theirs if not message.settled))
    third = await worker.take(second)
    assert messages(third, stream) == {8: 2, **dict.fromkeys(range(16, 20), 1)}


async def test_several_streams_take_turns(js: JetStream, workers: Workers) -> None:
    streams = sorted([await make(js, 4), await make(js, 4)])
    worker = workers(",".join(streams), maxMessagesPerTrigger=5)
    first = await worker.take(await worker.begin())
    assert [len(first.streams[name].messages) for name in streams] == [4, 1]
    second = await worker.take(first)
    assert [len(second.streams[name].messages) for name in streams] == [0, 3]
    assert len(await worker.take(second)) == 3
    for name in streams:
        assert await stored(js, name) == 0


async def test_a_stream_that_joins_a_pattern_gets_a_consumer(js: JetStream, workers: Workers) -> None:
    first = await make(js, 1)
    worker = workers(f"{first}*")
    batch = await worker.take(await worker.begin())
    later = f"{first}later"
    await js.create_stream(
        StreamConfig(name=later, subjects=[f"{later}.>"], retention="workqueue", allow_direct=True)
    )
    await publish(js, later, 2)
    assert messages(await worker.take(batch), later) == {1: 1, 2: 1}


async def test_a_query_that_ends_by_itself_leaves_what_is_stored_later(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 7)
    worker = workers(stream, maxMessagesPerTrigger=5)
    worker.stop_after_backlog()
    first = await worker.take(await worker.begin())
    await publish(js, stream, 5)
    second = await worker.take(first)
    assert (len(first), len(second)) == (5, 2)
    assert await worker.take(second) == second
    assert await stored(js, stream) == 5


async def test_a_paused_consumer_yields_nothing_until_it_is_resumed(js: JetStream, workers: Workers) -> None:
    stream = await make(js)
    worker = workers(stream)
    begun = await worker.begin()
    await js.pause_consumer(stream, "worker", 3600.0)
    await publish(js, stream, 3)
    assert await worker.take(begun) == begun
    await js.resume_consumer(stream, "worker")
    assert len(await worker.take(begun)) == 3


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_deleted_consumer_is_an_error(js: JetStream, workers: Workers, restarted: bool) -> None:
    stream = await make(js, 3)
    worker = workers(stream)
    batch = await worker.take(await worker.begin())
    await js.delete_consumer(stream, "worker")
    if restarted:
        await worker.close()
        worker = workers(stream)
    with pytest.raises(ConsumerDeleted, match=f"consumer worker of stream {stream} was deleted"):
        await worker.take(as_stored(batch))
    with pytest.raises(APIError):
        await js.consumer_info(stream, "worker")


async def test_the_messages_of_a_stream_that_was_created_again_are_not_acknowledged(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 3)
    worker = workers(stream)
    batch = await worker.take(await worker.begin())
    await js.delete_stream(stream)
    await js.create_stream(
        StreamConfig(name=stream, subjects=[f"{stream}.>"], retention="workqueue", allow_direct=True)
    )
    await publish(js, stream, 3)
    with pytest.raises(DataLoss, match="deleted and created again"):
        await worker.take(batch)
    going_on = workers(stream, failOnDataLoss="false")
    with pytest.raises(ConsumerDeleted):
        await going_on.take(batch)
    await durable(js, stream)
    assert messages(await going_on.take(batch), stream) == {1: 1, 2: 1, 3: 1}


async def test_a_missing_stream_is_an_error(workers: Workers) -> None:
    with pytest.raises(StreamNotFound):
        await workers("NOSUCHSTREAM").begin()


async def test_a_queue_without_direct_gets_is_refused(js: JetStream, workers: Workers) -> None:
    with pytest.raises(UsageError, match="allow_direct=True"):
        await workers(await make(js, allow_direct=False)).begin()


async def test_a_pull_is_cut_into_requests_that_the_consumer_allows(js: JetStream, workers: Workers) -> None:
    stream = await make(js, 25)
    await durable(js, stream, max_batch=10)
    worker = workers(stream)
    assert len(await worker.take(await worker.begin())) == 25


async def test_only_so_many_committed_messages_are_remembered(js: JetStream) -> None:
    stream = await make(js, 12)
    options = {"stream": stream, "consumer": "worker", "maxMessagesPerTrigger": "3"}
    worker = QueueWorker(js, parse_options(options), remembered=5)
    offset = await worker.begin()
    for _ in range(5):
        offset = await worker.take(offset)
    assert sum(map(len, worker._done)) <= 5
    assert dataclasses.replace(offset, batch=4) == offset
    await worker.close()


async def test_the_permissions_of_the_guide_are_enough() -> None:
    allowed = ["$JS.API.STREAM.INFO.JOBS", "$JS.API.STREAM.MSG.GET.JOBS", "$JS.API.DIRECT.GET.JOBS"]
    allowed += ["$JS.API.CONSUMER.INFO.JOBS.worker", "$JS.API.CONSUMER.MSG.NEXT.JOBS.worker"]
    allowed += ["$JS.ACK.JOBS.worker.>"]
    guide = (Path(__file__).parents[3] / "docs/spark.md").read_text()
    assert all(f"`{subject.replace('JOBS', 'ORDERS')}`" in guide for subject in allowed)
    spark = User(user="spark", password="s", publish_allow=allowed, subscribe_allow=["_INBOX.>"])
    with Server(users=[User(user="admin", password="a"), spark]) as server:
        async with await connect(server.url, user="admin", password="a") as admin:
            await admin.jetstream().create_stream(
                StreamConfig(name="JOBS", subjects=["JOBS.>"], retention="workqueue", allow_direct=True)
            )
            await durable(admin.jetstream(), "JOBS")
            await publish(admin.jetstream(), "JOBS", 40)
        async with await connect(server.url, user="spark", password="s") as nc:
            js = JetStream(nc)
            worker = QueueWorker(js, parse_options({"stream": "JOBS", "consumer": "worker"}))
            batch = await worker.take(await worker.begin())
            created = batch.streams["JOBS"].created
            wanted = StreamRange(stream="JOBS", created=created, first_seq=1, next_seq=41)
            assert sum([len(chunk) async for chunk in read_range(js.api, wanted)]) == 40
            await worker.take(batch)
            assert (await pending(js, "JOBS"), await stored(js, "JOBS")) == ((0, 0), 0)
            assert nc.last_error is None
            await worker.close()
