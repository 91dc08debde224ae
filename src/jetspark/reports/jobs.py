"""The progress of a job of the log pipeline, or of any streaming query, and its report.

Each publishes to `jetspark.control.job.<name>`.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
import time
from collections import deque
from datetime import datetime
from typing import Final

import msgspec

from jetspark.errors import StreamNotFound
from jetspark.jetstream.context import JetStream
from jetspark.reports.control import (
    CONTROL_PREFIX,
    SILENT_JOB_AFTER,
    control_stream,
    is_silent,
    parse_report,
)

__all__ = ["HISTORY", "JOBS", "JobBatch", "JobReport", "JobStatus", "job_name", "job_state", "read_jobs"]

JOBS: Final = f"{CONTROL_PREFIX}.job"
#: The number of batches in a report.
HISTORY: Final = 120
#: Seconds of which batches count for the rate; more if a batch takes long.
_RATE_WINDOW: Final = 30.0
#: The longest error in a report.
_LONGEST: Final = 2000


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
    #: Its source and its target, as free text.
    source: str = ""
    sink: str = ""
    #: Totals since it started.
    rows: int = 0
    bad_lines: int = 0
    #: Rows a second, over the last batches.
    rate: float = 0.0
    #: Messages that wait.
    lag: int = 0
    #: The last error, with its hint. Empty if there was none.
    error: str = ""
    #: The last batches, oldest first.
    batches: list[JobBatch] = []
    #: When the stream received it. Set by the reader, not by the job.
    heard: datetime | None = None


def job_state(job: JobReport) -> str:
    """`starting`, `running`, `stopped`, `failed`, or `silent` if it does not report any more."""
    ended = job.state in ("stopped", "failed")
    return "silent" if not ended and is_silent(job.heard, SILENT_JOB_AFTER) else job.state


def job_name(name: str, identity: str) -> str:
    """A name that is one token of a subject; `identity` distinguishes jobs of one name, across restarts."""
    digest = hashlib.sha256(f"{name}\n{identity}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]', '_', name)[:40]}-{digest[:6]}"


class JobStatus:
    """The progress of a job. All threads may use it."""

    def __init__(self, name: str, *, source: str = "", sink: str = "") -> None:
        self._lock = threading.Lock()
        self._batches: deque[JobBatch] = deque(maxlen=HISTORY)
        self._report = JobReport(
            name=name, host=socket.gethostname(), pid=os.getpid(), state="starting", source=source, sink=sink
        )

    @property
    def name(self) -> str:
        return self._report.name

    def change(self, state: str, error: str = "") -> None:
        """Set the state, and why it is so."""
        with self._lock:
            self._report = msgspec.structs.replace(self._report, state=state, error=error[:_LONGEST])

    def add(self, batch: JobBatch) -> None:
        """Count a batch."""
        with self._lock:
            self._batches.append(batch)
            self._report = msgspec.structs.replace(
                self._report,
                rows=self._report.rows + batch.rows,
                bad_lines=self._report.bad_lines + batch.bad_lines,
                lag=batch.lag,
            )

    def measure(self, lag: int) -> None:
        """Set how many messages wait."""
        with self._lock:
            self._report = msgspec.structs.replace(self._report, lag=lag)

    def count(self, *, bad_lines: int) -> None:
        """Count lines that another query of the job found."""
        with self._lock:
            self._report = msgspec.structs.replace(self._report, bad_lines=self._report.bad_lines + bad_lines)

    def report(self) -> JobReport:
        with self._lock:
            batches = list(self._batches)
            return msgspec.structs.replace(self._report, rate=_rate(batches, time.time()), batches=batches)


def _rate(batches: list[JobBatch], now: float) -> float:
    """Rows a second over the last batches; 0 when the last one is long ago."""
    if not batches:
        return 0.0
    window = max(_RATE_WINDOW, 2 * batches[-1].seconds)
    last = [batch for batch in batches if batch.at > now - window]
    if not last:
        return 0.0
    span = now - last[0].at + last[0].seconds
    return round(sum(batch.rows for batch in last) / max(span, 0.001), 1)


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
