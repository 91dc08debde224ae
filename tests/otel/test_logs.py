"""Traces of the log pipeline: the agent, consume-logs, and the commands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

import jetspark
from jetspark import ConsumerConfig, Stream
from jetspark.logs.agent.agent import Agent
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.files.consumer import ConsumeOptions, LogConsumer
from jetspark.logs.files.files import LogFiles
from jetspark.otel.spans import Tracing
from jetspark.server import Server
from tests.otel.support import Spans, attributes, context_of, linked
from tests.support.extras import without

LINES = 600


async def test_lines_that_an_agent_sends_together_share_a_span_that_their_reader_links_to(
    plain: jetspark.Connection, stream: Stream, provider: TracerProvider, spans: Spans, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("".join(f"line {number}\n" for number in range(LINES)))
    js = plain.jetstream()
    options = ShipOptions(
        patterns=[str(tmp_path / "*.log")],
        positions=tmp_path / "positions.json",
        prefix=stream.name,
        host="web1",
        once=True,
        control=False,
    )
    agent = Agent(js, options, print, tracing=Tracing(plain, provider))
    async with asyncio.timeout(60):
        await agent.run()
    published = spans.named("publish")
    assert {span.kind for span in published} == {SpanKind.PRODUCER}
    assert [attributes(span)["batch.message_count"] for span in published] == [256, 256, 88]
    assert {attributes(span)["destination.name"] for span in published} == set(options.subjects)
    stored = [message async for message in stream.get_messages(1)]
    assert [message.data for message in stored] == [b"line %d" % number for number in range(LINES)]
    carried = [int(message.headers["traceparent"].split("-")[2], 16) for message in stored]
    ids = [context_of(span).span_id for span in published]
    assert carried == [ids[0]] * 256 + [ids[1]] * 256 + [ids[2]] * 88

    consumer = await js.create_consumer(stream.name, ConsumerConfig(durable_name="files"))
    files = LogFiles(tmp_path / "out", rotate_size=None, keep=1)
    (tmp_path / "out").mkdir()
    writer = LogConsumer(
        js, consumer, files, ConsumeOptions(batch=300, once=True), print, tracing=Tracing(plain, provider)
    )
    async with asyncio.timeout(60):
        await writer.run()
    processed = spans.named("process")
    assert sum(int(str(attributes(span)["batch.message_count"])) for span in processed) == LINES
    assert {attributes(span)["consumer.group.name"] for span in processed} == {"files"}
    assert {each for span in processed for each in linked(span)} <= set(ids)
    assert linked(processed[0]) == [ids[0]]


async def test_an_agent_without_traces_sends_no_context(
    plain: jetspark.Connection, stream: Stream, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("one\n")
    options = ShipOptions(
        patterns=[str(tmp_path / "*.log")],
        positions=tmp_path / "positions.json",
        prefix=stream.name,
        once=True,
        control=False,
    )
    await Agent(plain.jetstream(), options, print).run()
    assert "traceparent" not in (await stream.get_message(1)).headers


def ship(server: Server, stream: Stream, place: Path, **env: str) -> subprocess.CompletedProcess[str]:
    (place / "a.log").write_text("one\ntwo\n")
    arguments = ["ship", str(place / "a.log"), "--once", "--no-control", "--otel", "--prefix", stream.name]
    return subprocess.run(
        [sys.executable, "-m", "jetspark", *arguments, "--positions", str(place / "positions.json")],
        env={**os.environ, "NATS_URL": server.url, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


async def test_the_command_exports_spans_as_the_environment_says(
    shared_server: Server, stream: Stream, tmp_path: Path
) -> None:
    env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "web-logs"}
    ended = await asyncio.to_thread(ship, shared_server, stream, tmp_path, **env)
    assert (ended.returncode, ended.stderr) == (0, "")
    start = ended.stdout.index("{")
    span, _ = json.JSONDecoder().raw_decode(ended.stdout[start:])
    assert span["attributes"]["messaging.batch.message_count"] == 2
    assert span["resource"]["attributes"]["service.name"] == "web-logs"
    (first, second) = [message async for message in stream.get_messages(1)]
    assert first.headers["traceparent"] == second.headers["traceparent"]
    assert first.headers["traceparent"].split("-")[1] == span["context"]["trace_id"].removeprefix("0x")


async def test_the_command_names_what_is_missing(
    shared_server: Server, stream: Stream, tmp_path: Path
) -> None:
    exporter = {"OTEL_TRACES_EXPORTER": "nothing"}
    for env, says in (
        (without(tmp_path / "site", "opentelemetry"), "pip install 'jetspark[otel]'"),
        (exporter, "no exporter of traces is called 'nothing'"),
    ):
        ended = await asyncio.to_thread(ship, shared_server, stream, tmp_path, **env)
        assert (ended.returncode != 0, ended.stdout) == (True, "")
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr
