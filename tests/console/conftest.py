"""A server with something to look at, consoles as processes, and a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext

import jetspark.blocking
from jetspark import ConsumerConfig, KeyValueConfig, ObjectStoreConfig, StreamConfig
from jetspark.logs.control.switch import AGENTS, CONTROL_STREAM, AgentReport
from jetspark.reports.jobs import JOBS, JobBatch, JobReport
from jetspark.server import Server
from tests.cli.support import Process
from tests.support.browser import Tab, chromium, signed_in

#: What must be shown as text, everywhere.
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>{{ 7*7 }}"


class Stage:
    """The server, a connection to it, and the URLs of two consoles."""

    def __init__(self, server: Server, js: jetspark.blocking.JetStream, url: str, read_only: str) -> None:
        self.server, self.js, self.url, self.read_only = server, js, url, read_only


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Server() as server, jetspark.blocking.connect(server.url) as nc:
        js = nc.jetstream()
        fill(js)
        consoles = [
            Process("console", "--port", "0", "--server", server.url, *more) for more in (["--write"], [])
        ]
        try:
            urls = [console.line().strip() for console in consoles]
            yield Stage(server, js, *urls)
        finally:
            for console in consoles:
                console.signal(15)
            ended = [console.end() for console in consoles]
    assert [each.code for each in ended] == [143, 143], ended
    assert all("Traceback" not in each.err for each in ended)


@pytest.fixture(scope="module")
def writing(browser: Browser, stage: Stage) -> Iterator[BrowserContext]:
    with signed_in(browser, stage.url) as context:
        yield context


@pytest.fixture(scope="module")
def reading(browser: Browser, stage: Stage) -> Iterator[BrowserContext]:
    with signed_in(browser, stage.read_only) as context:
        yield context


@pytest.fixture
def tab(writing: BrowserContext, stage: Stage) -> Iterator[Tab]:
    """A tab of the console that may write."""
    yield from _tab(writing, stage.url)


@pytest.fixture
def reader(reading: BrowserContext, stage: Stage) -> Iterator[Tab]:
    """A tab of the console that only reads."""
    yield from _tab(reading, stage.read_only)


def _tab(context: BrowserContext, url: str) -> Iterator[Tab]:
    tab = Tab(context, url)
    yield tab
    tab.close()
    assert tab.wrong == []


def fill(js: jetspark.blocking.JetStream) -> None:
    """Streams, consumers, dead letters, agents and jobs."""
    js.create_advisory_stream()
    js.create_stream(
        StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True, description=HOSTILE)
    )
    js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
    for number in range(40):
        order = {"id": number, "item": f"A-{number}", "amount": number * 3, "tags": ["new", "eu"]}
        js.publish(
            f"orders.{'eu' if number % 3 else 'us'}", json.dumps(order).encode(), headers={"Trace": "4bf9"}
        )
    billing = js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing", max_deliver=1))
    for message in billing.fetch(4):
        message.term(f"invalid amount {HOSTILE}")
    for message in billing.fetch(20):
        message.ack_sync()
    js.create_consumer("ORDERS", ConsumerConfig(durable_name="audit"))
    js.create_consumer("LOGS", ConsumerConfig(durable_name="archive"))
    js.publish("orders.html", HOSTILE.encode(), headers={"Note": HOSTILE})
    js.publish("orders.binary", bytes(range(256)))
    js.create_stream(
        StreamConfig(
            name=CONTROL_STREAM, subjects=["jetspark.control.>"], max_msgs_per_subject=1, allow_direct=True
        )
    )
    users = js.create_key_value(KeyValueConfig(bucket="users", history=3))
    users.put("eu.ann", HOSTILE.encode())
    users.put("eu.ann", b'{"name": "Ann"}')
    users.put("us.bob", b"Bob")
    js.create_object_store(ObjectStoreConfig(bucket="files")).put(HOSTILE, b"data")
    report(js, 1000)


def report(js: jetspark.blocking.JetStream, lines: int) -> None:
    """What agents and a job report."""
    for number, name in enumerate(("web1", "web2", HOSTILE)):
        agent = AgentReport(
            name=name,
            host=name,
            pid=1,
            state="shipping",
            obeys=0,
            lines=lines + number,
            bytes=0,
            behind=12345,
        )
        js.publish(f"{AGENTS}.{number}", msgspec.json.encode(agent))
    now = time.time()
    batches = [
        JobBatch(
            id=number,
            at=now - 300 + number * 6,
            rows=800 + number * 7 % 90,
            seconds=2.0,
            lag=number * 31 % 400,
        )
        for number in range(50)
    ]
    job = JobReport(
        name="access",
        host="spark",
        pid=2,
        state="running",
        rows=lines,
        bad_lines=3,
        rate=412.0,
        lag=120,
        error=f"batch 7 failed and was repeated. {HOSTILE}",
        batches=batches,
    )
    js.publish(f"{JOBS}.access", msgspec.json.encode(job))
