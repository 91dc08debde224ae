"""The collector against a real server: it finds what is there, follows changes, and bounds its requests."""

from __future__ import annotations

import asyncio
import re
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

import jetspark
from jetspark import ConsumerConfig, StreamConfig
from jetspark.console import collector as module
from jetspark.console.app import Console
from jetspark.console.collector import Collector, Pace
from jetspark.console.letters import count_letters
from jetspark.console.listing import StreamPage, list_streams
from jetspark.console.messages import read_message, read_page, top_subjects
from jetspark.console.metrics import exposition
from jetspark.console.options import ConsoleOptions
from jetspark.console.problems import problems
from jetspark.jetstream.api import API
from jetspark.jetstream.context import JetStream
from jetspark.logs.control import switch as control
from jetspark.reports.jobs import JOBS, JobBatch, JobReport
from jetspark.server import Server
from tests.support.metrics_page import served_by

QUICK = Pace(interval=0.05, rate=2000.0, account=0.1)


@pytest_asyncio.fixture
async def js(server: Server) -> AsyncIterator[JetStream]:
    async with jetspark.connect(server.url) as nc:
        yield nc.jetstream()


async def until(collector: Collector, done: Callable[[], bool]) -> None:
    """Wait for a poll after which something holds."""
    polled = asyncio.Event()
    unwatch = collector.watch(polled.set)
    try:
        async with asyncio.timeout(60):
            while not done():
                await polled.wait()
                polled.clear()
    finally:
        unwatch()


async def test_streams_and_consumers_are_found_and_followed(js: JetStream) -> None:
    await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    consumer = await js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: bool(list(collector.consumers())))
        for _ in range(3):
            await js.publish("orders.new", b"x")
        stream = collector.streams["ORDERS"]
        await until(collector, lambda: stream.consumers["billing"].listed.num_pending == 3)
        await until(collector, lambda: stream.listed.state.messages == 3)
        assert stream.listed.config.subjects == ["orders.>"]
        await consumer.fetch(2)
        await until(collector, lambda: stream.consumers["billing"].listed.num_ack_pending == 2)
        assert collector.errors == {}
        assert collector.account is not None
        assert collector.account.streams == 1
        await consumer.delete()
        await until(collector, lambda: not stream.consumers)
        await js.delete_stream("ORDERS")
        await until(collector, lambda: not collector.streams)


async def test_a_stream_that_was_created_again_begins_again(js: JetStream) -> None:
    await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await js.publish("orders.new", b"x")
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: "ORDERS" in collector.streams)
        before = collector.streams["ORDERS"]
        await js.delete_stream("ORDERS")
        await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        await until(collector, lambda: collector.streams.get("ORDERS") not in (None, before))
        assert collector.streams["ORDERS"].listed.state.messages == 0


async def test_more_streams_than_a_page_holds_are_all_found(js: JetStream) -> None:
    storage = jetspark.StorageType.MEMORY
    patient = JetStream(js.connection, timeout=60)  # The last one waits for all others.
    await asyncio.gather(
        *(patient.create_stream(StreamConfig(name=f"S{number}", storage=storage)) for number in range(300))
    )
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: len(collector.streams) == 300)
        assert collector.stream_total == 300


async def test_streams_without_a_leader_are_told_and_kept(
    js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await js.create_stream(StreamConfig(name="A", subjects=["a"]))
    listed: list[StreamPage] = []

    async def without_leader(api: API, offset: int) -> StreamPage:
        page = await list_streams(api, offset)
        listed.append(page)
        return page if len(listed) == 1 else StreamPage(missing=["A"], total=1, limit=256)

    monkeypatch.setattr(module, "list_streams", without_leader)
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: collector.passes >= 5)
        assert list(collector.streams) == ["A"]
        assert problems(collector)[0].what == "Stream A does not answer: it has no leader"


async def test_agents_and_jobs_are_found_in_the_control_stream(js: JetStream) -> None:
    await control.set_switch(js, paused=True)

    async def report(lines: int) -> None:
        agent = control.AgentReport(
            name="web1-a", host="web1", pid=1, state="shipping", obeys=0, lines=lines, bytes=9, behind=7
        )
        await js.publish(f"{control.AGENTS}.web1-a", msgspec.json.encode(agent))

    await report(10)
    job = JobReport(
        name="access",
        host="spark",
        pid=2,
        state="failed",
        rows=5,
        lag=3,
        bad_lines=1,
        error="no space left. Make room",
        batches=[JobBatch(id=0, at=1.0, rows=5, seconds=1.0, lag=3)],
    )
    await js.publish(f"{JOBS}.access", msgspec.json.encode(job))
    await js.publish(f"{JOBS}.hostile", b'{"name": 1}')
    huge = b'{"name":"x","host":"x","pid":1,"state":"running","rows":%d}' % 10**400
    await js.publish(f"{JOBS}.huge", huge)
    await js.publish(f"{control.AGENTS}.hostile", b"\xff\x00")
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: bool(collector.agents and collector.jobs))
        assert collector.switch.paused
        assert collector.agents["web1-a"].report.behind == 7
        assert set(collector.jobs) == {"access"}
        assert collector.jobs["access"].batches[0].rows == 5
        await report(30)
        await until(collector, lambda: collector.agents["web1-a"].report.lines == 30)
        found = {problem.what for problem in problems(collector)}
        assert any(what.startswith("Shippers are paused") for what in found)
        assert "Agent web1-a does not follow the pause switch yet" in found
        assert any(each.advice == "no space left. Make room" for each in problems(collector))


async def test_what_cannot_be_read_is_told_and_the_rest_goes_on() -> None:
    limited = """
    authorization { users: [
        { user: admin, password: p }
        { user: guest, password: p, permissions: {
            publish: { allow: ["$JS.API.STREAM.LIST", "$JS.API.INFO"] }
            subscribe: { allow: ["_INBOX.>"] } } }
    ] }
    """
    with Server(config=limited) as guarded:
        async with (
            jetspark.connect(guarded.url, user="admin", password="p") as admin,
            jetspark.connect(guarded.url, user="guest", password="p") as guest,
        ):
            await admin.jetstream().create_stream(StreamConfig(name="A", subjects=["a.>"]))
            await admin.jetstream().create_consumer("A", ConsumerConfig(durable_name="c"))
            async with Collector(guest.jetstream(), pace=QUICK) as collector:
                await until(collector, lambda: "consumers" in collector.errors)
                await until(collector, lambda: "A" in collector.streams and collector.account is not None)
                assert set(collector.errors) == {"consumers"}
                found = [problem.what for problem in problems(collector)]
                assert found[0].startswith("Cannot read consumers: ")


async def test_the_permissions_in_the_docs_are_enough_to_look() -> None:
    text = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    paragraph = text.partition("The permissions that it needs: ")[2].partition("\n\n")[0]
    allowed = ", ".join(f'"{subject}"' for subject in re.findall(r"`(\$JS[^`]+)`", paragraph))
    config = f"""
    authorization {{ users: [
        {{ user: admin, password: p }}
        {{ user: guest, password: p, permissions: {{
            publish: {{ allow: [{allowed}] }}
            subscribe: {{ allow: ["_INBOX.>"] }} }} }}
    ] }}
    """
    with Server(config=config) as guarded:
        async with (
            jetspark.connect(guarded.url, user="admin", password="p") as admin,
            jetspark.connect(guarded.url, user="guest", password="p") as guest,
        ):
            js, looking = admin.jetstream(), guest.jetstream()
            for direct in (True, False):
                name = "DIRECT" if direct else "LEADER"
                await js.create_stream(StreamConfig(name=name, subjects=[name.lower()], allow_direct=direct))
                await js.create_consumer(name, ConsumerConfig(durable_name="c"))
                await js.publish(name.lower(), b"x")
            await control.set_switch(js, paused=True)
            async with Collector(looking, pace=QUICK) as collector:
                await until(collector, lambda: collector.switch.paused and collector.consumer_passes > 0)
                assert collector.errors == {}
                assert len(list(collector.consumers())) == 2
            for name in ("DIRECT", "LEADER"):
                assert [each.sequence for each in await read_page(looking, name)] == [1]
                assert (await read_message(looking, name, 1)).body.text == "x"
                info = await (await looking.get_stream(name)).info()
                assert await top_subjects(looking, info) == [(name.lower(), 1)]
                await looking.consumer_info(name, "c")
            assert await count_letters(looking) is None


async def test_an_outage_is_told_and_ends(server: Server) -> None:
    async with jetspark.connect(server.url, reconnect_wait=0.05) as nc:
        await nc.jetstream().create_stream(StreamConfig(name="A", subjects=["a"]))
        async with Collector(nc.jetstream(timeout=1), pace=QUICK) as collector:
            await until(collector, lambda: "A" in collector.streams)
            server.kill()
            async with asyncio.timeout(60):
                while nc.connected:
                    await asyncio.sleep(0.01)
            assert any("cannot be reached" in each.what for each in problems(collector))
            server.start()
            passes = collector.passes
            await until(collector, lambda: collector.passes > passes + 1)
            assert "streams" not in collector.errors


async def test_nobody_looking_means_fewer_requests(js: JetStream) -> None:
    async with Collector(js, pace=QUICK._replace(idle_interval=1000.0)) as collector:
        await until(collector, lambda: collector.passes >= 2)
        passes = collector.passes
        assert not collector.watched
        await asyncio.sleep(0.3)
        assert collector.passes <= passes + 1
        collector.touch()
        assert collector.watched
        async with asyncio.timeout(60):
            while collector.passes < passes + 2:
                await asyncio.sleep(0.01)


async def test_a_page_that_fails_does_not_stop_the_others(
    js: JetStream, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    async with Collector(js, pace=QUICK) as collector:
        collector.watch(broken)
        await until(collector, lambda: collector.passes >= 2)
    assert "a page of the console cannot be updated" in caplog.text


async def test_the_metrics_are_what_prometheus_reads(js: JetStream) -> None:
    await js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
    await js.publish("orders.new", b"x")
    agent = control.AgentReport(
        name='"\n\\', host="h", pid=1, state="shipping", obeys=0, lines=10, bytes=9, behind=7
    )
    await control.control_stream(js)
    await js.publish(f"{control.AGENTS}.x", msgspec.json.encode(agent))
    batch = JobBatch(id=4, at=1.0, rows=5, seconds=2.0, lag=3)
    job = JobReport(
        name="access", host="spark", pid=2, state="running", rows=5, lag=3, bad_lines=1, batches=[batch]
    )
    await js.publish(f"{JOBS}.access", msgspec.json.encode(job))
    async with Collector(js, pace=QUICK) as collector:
        await until(collector, lambda: bool(collector.jobs and list(collector.consumers())))
        text = exposition(collector).decode()
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["jetspark_stream_messages", "ORDERS"] == 1
    assert samples["jetspark_consumer_pending_messages", "ORDERS", "billing"] == 1
    assert samples["jetspark_agent_lines_total", "\\u000a".join(['"', "\\"]), "h"] == 10
    assert samples["jetspark_agent_up", "\\u000a".join(['"', "\\"]), "h"] == 1
    assert samples["jetspark_job_rows_total", "access", "spark"] == 5
    assert samples["jetspark_job_lag_messages", "access", "spark"] == 3
    assert samples["jetspark_server_up",] == 1
    assert {name for name, *_ in samples} == served_by("console")


async def test_a_scrape_reads_the_collector_in_its_event_loop(
    js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(Collector, "touch", lambda self: threads.append(threading.get_ident()))
    async with Console(js, ConsoleOptions(port=0, token="a-token-of-the-test")) as console:
        request = urllib.request.Request(
            f"http://127.0.0.1:{console.port}/metrics",
            headers={"Authorization": "Bearer a-token-of-the-test"},
        )
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=60).close())
    assert threads == [threading.get_ident()]
