"""The status reports of jobs in the control stream.

Each job publishes to `jetspark.control.job.<name>` every few seconds; the stream keeps the last report.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from jetspark.errors import StreamNotFound
from jetspark.jetstream.context import JetStream
from jetspark.logs.control.switch import CONTROL_PREFIX, control_stream, parse_report

__all__ = ["HISTORY", "JOBS", "JobBatch", "JobReport", "read_jobs"]

JOBS: Final = f"{CONTROL_PREFIX}.job"
#: The number of batches in a report.
HISTORY: Final = 120


class JobBatch(msgspec.Struct, kw_only=True, frozen=True):
    """A batch that a job has finished."""

    id: int
    #: When it ended, in seconds since 1970.
    at: float
    rows: int
    #: How long it took.
    seconds: float
    #: Messages that waited when it ended.
    lag: int
    bad_lines: int = 0


class JobReport(msgspec.Struct, kw_only=True, frozen=True):
    """The status report of a job."""

    name: str
    host: str
    pid: int
    #: `starting`, `running`, `stopped` or `failed`.
    state: str
    #: What it reads, and where it writes, for people.
    source: str = ""
    sink: str = ""
    #: Totals since it started.
    rows: int = 0
    bad_lines: int = 0
    #: Rows a second, over the last batches.
    rate: float = 0.0
    #: Messages that wait.
    lag: int = 0
    #: The last error, with its way out. Empty if there was none.
    error: str = ""
    #: The last batches, oldest first.
    batches: list[JobBatch] = []
    #: When the stream received it. Set by the reader, not by the job.
    heard: datetime | None = None


async def read_jobs(js: JetStream) -> list[JobReport]:
    """The jobs that reported lately."""
    try:
        stream = await control_stream(js, create=False)
    except StreamNotFound:
        return []
    jobs: list[JobReport] = []
    async for message in stream.get_messages(subject=f"{JOBS}.>"):
        report = parse_report(message.data, JobReport)
        if report is not None:
            jobs.append(msgspec.structs.replace(report, heard=message.timestamp))
    return sorted(jobs, key=lambda job: job.name)
