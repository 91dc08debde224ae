"""Reports in the control stream of a real server."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

import jetspark
from jetspark import JetStream, StreamNotFound
from jetspark.core.signal import Signal
from jetspark.reports.control import CONTROL_STREAM, FORGOTTEN_AFTER, STOPPED_FOR
from jetspark.reports.jobs import JOBS, JobReport, JobStatus, read_jobs
from jetspark.reports.publisher import ReportPublisher
from jetspark.server import Server
from tests.logs.support import until


async def reported(js: JetStream, state: str) -> JobReport:
    found: list[JobReport] = []

    async def is_there() -> bool:
        found[:] = [job for job in await read_jobs(js) if job.state == state]
        return bool(found)

    await until(is_there, state)
    return found[0]


async def test_reports_make_their_stream_follow_the_state_and_are_forgotten_later(server: Server) -> None:
    async with jetspark.connect(server.url) as nc:
        js = nc.jetstream()
        assert await read_jobs(js) == []
        status, changed = JobStatus("job-1", source="LOGS"), Signal()
        publisher = ReportPublisher(js, f"{JOBS}.job-1", status.report, changed)
        publisher.start()
        first = await reported(js, "starting")
        assert (first.name, first.source, first.heard is not None) == ("job-1", "LOGS", True)
        stream = await js.get_stream(CONTROL_STREAM)
        message = await stream.get_last_message(f"{JOBS}.job-1")
        assert message.headers["Nats-TTL"] == f"{FORGOTTEN_AFTER:g}"
        status.change("running")
        changed.wake()
        await reported(js, "running")
        status.change("stopped")
        await publisher.stop()
        await reported(js, "stopped")
        message = await stream.get_last_message(f"{JOBS}.job-1")
        assert message.headers["Nats-TTL"] == f"{STOPPED_FOR:g}"
        await js.publish(f"{JOBS}.evil", b"\xff")
        await js.publish(f"{JOBS}.wrong", msgspec.json.encode({"name": 1}))
        assert [job.name for job in await read_jobs(js)] == ["job-1"]


async def test_an_account_that_may_not_report_gets_no_reports_and_one_debug_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    users = """
    authorization {
      users = [
        {user: all, password: pw}
        {user: some, password: pw, permissions: {publish: {deny: ["jetspark.>"]}}}
      ]
    }
    """
    with Server(config=users) as server, caplog.at_level(logging.DEBUG, "jetspark"):
        async with jetspark.connect(server.url, user="some", password="pw") as nc:
            status, changed = JobStatus("job-1"), Signal()
            publisher = ReportPublisher(nc.jetstream(), f"{JOBS}.job-1", status.report, changed)
            publisher.start()

            def told() -> list[str]:
                return [each.getMessage() for each in caplog.records if each.levelno == logging.DEBUG]

            async def refused() -> bool:
                changed.wake()
                return any("no reports to" in line for line in told())

            await until(refused, "the refusal")
            for _ in range(5):
                changed.wake()
                await asyncio.sleep(0)
            await publisher.stop()
            assert len([line for line in told() if "no reports to" in line]) == 1
        async with jetspark.connect(server.url, user="all", password="pw") as nc:
            with pytest.raises(StreamNotFound):
                await nc.jetstream().get_stream(CONTROL_STREAM)
