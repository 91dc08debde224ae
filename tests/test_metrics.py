"""The metrics of connections, as prometheus-client's own parser reads them from a real scrape."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import jetspark
import jetspark.metrics
from jetspark import ConsumerConfig, StreamConfig, UsageError, blocking
from jetspark.metrics import METRICS, MetricSample
from jetspark.reports.jobs import JobBatch, JobReport
from jetspark.server import Server
from tests.support.extras import without
from tests.support.scrape import Scrape, scrape
from tests.support.waiting import wait_until
from tests.test_extras import run


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def port(registry: CollectorRegistry) -> Iterator[int]:
    with jetspark.metrics.serve(0, registry=registry) as serving:
        yield serving.port


def test_names_follow_the_conventions() -> None:
    units = "bytes|messages|seconds|per_second|up|paused|files|hosts|consumers|pulls|id"
    for name, metric in METRICS.items():
        assert name == metric.name
        assert name.startswith("jetspark_")
        assert name.endswith("_total") == (metric.kind == "counter"), name
        assert metric.kind == "counter" or re.search(f"_({units})$", name), name
    # A counter and a gauge may not differ by `_total` alone: to OpenMetrics they are one family.
    assert len({name.removesuffix("_total") for name in METRICS}) == len(METRICS)


async def test_a_connection_its_publishers_and_its_consumers_are_counted(
    server: Server, registry: CollectorRegistry, port: int
) -> None:
    async def now() -> Scrape:
        return await asyncio.to_thread(scrape, port)

    async with jetspark.connect(server.url, name="shop") as nc:
        jetspark.metrics.register(nc, registry=registry)
        js = nc.jetstream()
        stream = await js.create_stream(StreamConfig(name="S", subjects=["s.>"]))
        await js.publish("s.one")
        async with js.publisher() as publisher:
            for _ in range(9):
                await publisher.send("s.many", b"12345")
            await publisher.flush()
            live = await now()
        shop = ("shop",)
        assert live["jetspark_connection_up"][shop] == 1
        for each in (live, await now()):  # The counts of the publisher outlive it.
            assert each["jetspark_publisher_messages_total"][shop] == 10
            assert each["jetspark_publisher_acks_total"][shop] == 10
            assert each["jetspark_publisher_failures_total"][shop] == 0
            assert each["jetspark_publisher_pending_messages"][shop] == 0
        with pytest.raises(jetspark.NoResponders):
            await js.publish("nowhere", retry_for=0.0)

        consumer = await stream.create_consumer(ConsumerConfig(name="c", ack_wait=60.0))
        batch = await consumer.fetch(4)
        await batch[0].nak()
        await batch[1].ack()
        await batch[2].ack_sync()
        await jetspark.ack_all(batch[3:])
        (again,) = await consumer.fetch(1)
        await again.ack()
        labels = ("shop", "S", "c")
        async with consumer.messages(max_messages=100) as messages:
            first = await messages.next()
            assert first is not None
            async with asyncio.timeout(60):  # The other five come one by one.
                while (await now())["jetspark_consumer_deliveries_total"][labels] < 4 + 1 + 6:
                    await asyncio.sleep(0.01)
            reading = await now()
        counted = await now()
        assert reading["jetspark_consumer_deliveries_total"][labels] == 4 + 1 + 6
        assert reading["jetspark_consumer_buffered_messages"][labels] == 5
        assert counted["jetspark_consumer_buffered_messages"][labels] == 0
        assert counted["jetspark_consumer_redeliveries_total"][labels] == 1
        assert counted["jetspark_consumer_acks_total"][shop] == 4
        assert counted["jetspark_publisher_failures_total"][shop] == 1
        statistics = nc.statistics
        assert 0 < counted["jetspark_connection_received_messages_total"][shop] <= statistics.in_msgs
        assert 0 < counted["jetspark_connection_sent_bytes_total"][shop] <= statistics.out_bytes
        assert counted["jetspark_connection_reconnects_total"][shop] == 0


async def test_dropped_messages_errors_and_push_consumers_are_counted(
    server: Server, registry: CollectorRegistry, port: int
) -> None:
    async with jetspark.connect(server.url) as nc:
        jetspark.metrics.register(nc, registry=registry)
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name="S", subjects=["s"]))
        pushed = await js.subscribe("s", durable="d")
        await nc.subscribe("core", pending_msgs_limit=1)

        def fail(message: object) -> None:
            raise ValueError("no")

        failing = await nc.subscribe("fail", callback=fail)
        for _ in range(3):
            nc.publish("core")
        nc.publish("fail")
        await js.publish("s")
        await (await pushed.next()).ack()
        await failing.drain()
        found = await asyncio.to_thread(scrape, port)
        labels = ("jetspark",)
        assert found["jetspark_connection_dropped_messages_total"][labels] == 2
        assert found["jetspark_connection_errors_total"][labels] == 1
        assert found["jetspark_consumer_deliveries_total"]["jetspark", "S", "d"] == 1
        assert found["jetspark_consumer_acks_total"][labels] == 1


def test_a_blocking_connection_is_counted_too_until_it_is_unregistered(
    server: Server, registry: CollectorRegistry, port: int
) -> None:
    with blocking.connect(server.url, name="b") as nc, blocking.connect(server.url, name="b") as other:
        jetspark.metrics.register(nc, registry=registry)
        jetspark.metrics.register(other, registry=registry)
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name="S", subjects=["s"]))
        with js.publisher() as publisher:
            for _ in range(10):
                publisher.send("s")
        consumer = stream.create_consumer(ConsumerConfig(name="c"))
        for message in consumer.fetch(3):
            message.ack()
        last = consumer.next()
        assert last is not None
        last.term()
        consumer.fetch(2).ack()
        nc.publish("x")
        nc.flush()
        found = scrape(port)
        assert found["jetspark_publisher_acks_total"] == {("b",): 10, ("b-2",): 0}
        assert found["jetspark_consumer_deliveries_total"] == {("b", "S", "c"): 6}
        assert found["jetspark_consumer_acks_total"] == {("b",): 5, ("b-2",): 0}
        assert found["jetspark_connection_sent_messages_total"]["b",] >= 1
        jetspark.metrics.unregister(other, registry=registry)
        assert scrape(port)["jetspark_connection_up"] == {("b",): 1}
    assert scrape(port)["jetspark_connection_up"] == {("b",): 0}
    del nc, js, stream, publisher, consumer, message, last, other

    def forgotten() -> bool:
        gc.collect()
        return "jetspark_connection_up" not in scrape(port)

    wait_until(forgotten, "nothing is left of the connection")


class Job:
    def __init__(self, name: str) -> None:
        self.name = name

    def samples(self) -> Iterator[MetricSample]:
        batch = JobBatch(id=7, at=0.0, rows=1, seconds=2.5, lag=3)
        report = JobReport(
            name=self.name, host="h", pid=1, state="running", rows=5, lag=3, bad_lines=2, batches=[batch]
        )
        yield from jetspark.metrics.job_samples(report)


def test_other_sources_are_collected_and_hostile_labels_stay_labels(
    registry: CollectorRegistry, port: int
) -> None:
    jobs = [Job("a"), Job('x"} 1\njetspark_evil 1\n\udcff')]
    for job in jobs:
        jetspark.metrics.register(job, registry=registry)
    found = scrape(port)
    assert found["jetspark_job_rows_total"]["a", "h"] == 5
    assert found["jetspark_job_batch_seconds"]["a", "h"] == 2.5
    assert sorted(found["jetspark_job_up"]) == [("a", "h"), ('x"} 1\njetspark_evil 1\n?', "h")]


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot serve metrics on 127.0.0.1:{port}: Address already"):
            jetspark.metrics.serve(port)
    with pytest.raises(UsageError, match="from 0 to 65535"):
        jetspark.metrics.serve(70000)


def test_without_prometheus_client_the_extra_is_named(tmp_path: Path) -> None:
    env = without(tmp_path / "site", "prometheus_client")
    ended = run(env, "-c", "import jetspark.metrics; jetspark.metrics.serve(0)")
    assert ended.stderr.splitlines()[-1] == (
        "jetspark.errors.MissingExtra: metrics need prometheus-client. "
        "Install it with `pip install 'jetspark[metrics]'`"
    )
