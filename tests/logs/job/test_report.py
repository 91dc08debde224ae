"""The reports of a job, without Spark: what it says while it starts, runs, ends and fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark import StreamConfig, UsageError, blocking
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.report import JobReports
from jetspark.logs.job.runner import BatchProgress
from jetspark.reports.jobs import JobReport, read_jobs
from jetspark.server import Server
from tests.support.waiting import wait_until

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline" / "access_to_parquet.toml"


def batch(query: str, number: int, rows: int, dead_letters: int) -> BatchProgress:
    return BatchProgress(
        query=query,
        batch=number,
        lines=rows + dead_letters,
        rows=rows,
        dead_letters=dead_letters,
        seconds=2.0,
        lines_per_second=1.0,
        lag=7,
        reached=0,
        total_lines=0,
        total_rows=0,
        total_dead_letters=0,
    )


def test_a_job_reports_its_state_its_batches_and_the_error_that_ended_it(server: Server) -> None:
    config, _ = read_config(EXAMPLE, servers=server.url, default_servers=None)
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))

        def reported(state: str) -> JobReport:
            found: list[JobReport] = []

            def is_there() -> bool:
                found[:] = [job for job in js._bridge.run(read_jobs(js._inner)) if job.state == state]
                return bool(found)

            wait_until(is_there, state)
            return found[0]

        with JobReports(config) as reports:
            name = reported("starting").name
            assert name.startswith(f"{config.name}-")
            reports.add(batch("rows", 0, rows=10, dead_letters=1))
            reports.add(batch("dead-letters", 0, rows=0, dead_letters=4))
            reports.running()
            running = reported("running")
            assert (running.rows, running.bad_lines, running.lag) == (10, 5, 7)
            assert [each.id for each in running.batches] == [0]
            assert running.rate > 0
            assert {each.name: each.value for each in reports.samples()}["jetspark_job_bad_lines_total"] == 5
        assert reported("stopped").error == ""

        again = JobReports(config)
        with pytest.raises(UsageError), again:
            raise UsageError("the disk is full", hint="Delete something")
        failed = reported("failed")
        assert (failed.name, failed.error) == (name, "the disk is full. Delete something")
