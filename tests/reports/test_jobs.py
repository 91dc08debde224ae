"""What a job has done, its name and its report; without a server."""

from __future__ import annotations

import time

from jetspark.reports.jobs import HISTORY, JobBatch, JobStatus, job_name


def batch(number: int, rows: int = 10, *, ago: float = 0.0, seconds: float = 1.0) -> JobBatch:
    return JobBatch(
        id=number, at=time.time() - ago, rows=rows, seconds=seconds, lag=100 - number, bad_lines=1
    )


def test_the_name_of_a_job_is_one_token_and_stable() -> None:
    name = job_name("access logs > table", "/srv/checkpoint")
    assert name == job_name("access logs > table", "/srv/checkpoint")
    assert name.startswith("access_logs___table-")
    assert name != job_name("access logs > table", "/srv/other")
    assert job_name("a b", "x") != job_name("a_b", "x")
    assert len(job_name("x" * 1000, "\udcff")) == 47


def test_a_report_has_totals_and_the_last_batches() -> None:
    status = JobStatus("job", source="LOGS", sink="parquet /t")
    assert status.report().state == "starting"
    status.change("running")
    for number in range(HISTORY + 1):
        status.add(batch(number))
    status.count(bad_lines=5)
    report = status.report()
    assert (report.state, report.source, report.sink) == ("running", "LOGS", "parquet /t")
    assert (report.rows, report.bad_lines) == (10 * (HISTORY + 1), HISTORY + 6)
    assert [each.id for each in report.batches] == list(range(1, HISTORY + 1))
    assert report.lag == 100 - HISTORY
    status.change("failed", "x" * 5000)
    assert len(status.report().error) == 2000


def test_the_rate_is_that_of_the_last_batches() -> None:
    status = JobStatus("job")
    status.add(batch(0, rows=10_000_000, ago=500.0))
    assert status.report().rate == 0.0
    status.add(batch(1, rows=1000, ago=9.0))
    assert 0 < status.report().rate <= 100.0
