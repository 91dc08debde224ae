"""The reports of jobs. `jetspark.reports` makes them, for any query."""

from __future__ import annotations

from jetspark.reports.jobs import HISTORY, JOBS, JobBatch, JobReport, read_jobs

__all__ = ["HISTORY", "JOBS", "JobBatch", "JobReport", "read_jobs"]
