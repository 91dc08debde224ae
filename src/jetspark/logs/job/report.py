"""Reports the state of a job to the control stream, on the server that it reads from."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jetspark.errors import Error
from jetspark.logs.job.config import Config
from jetspark.logs.job.runner import BatchProgress
from jetspark.reports.jobs import JobBatch, JobStatus, job_name
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.reports import JobReporter

if TYPE_CHECKING:
    from jetspark.metrics import MetricSample

__all__ = ["JobReports"]

logger = logging.getLogger("jetspark")


class JobReports:
    """The reports of one run: `starting` until `running`, then `stopped`, or `failed` with the error."""

    def __init__(self, config: Config) -> None:
        options = config.source.options()
        self.status = JobStatus(
            job_name(config.name, config.checkpoint),
            source=options["stream"],
            sink=f"{config.sink.format} {config.sink.destination}".strip(),
        )
        self._options = parse_options(options).connection
        # None while there are no reports.
        self._reporter: JobReporter | None = None

    def running(self) -> None:
        """Spark has started."""
        self.status.change("running")
        if self._reporter is not None:
            self._reporter.report_soon()

    def add(self, progress: BatchProgress) -> None:
        """Count a finished batch."""
        if progress.query == "dead-letters":  # It reads the lines of the other query again.
            self.status.count(bad_lines=progress.dead_letters)
            return
        self.status.add(
            JobBatch(
                id=progress.batch,
                at=round(time.time(), 3),
                rows=progress.rows,
                seconds=progress.seconds,
                lag=progress.lag or 0,  # Older consoles reject a report without a number.
                bad_lines=progress.dead_letters,
            )
        )

    def samples(self) -> Iterator[MetricSample]:
        """The metrics of the job: see `jetspark.metrics.register`."""
        from jetspark.metrics import job_samples  # noqa: PLC0415 - few jobs have them

        return job_samples(self.status.report())

    def __enter__(self) -> Self:
        try:
            # The connection that the preflight has opened.
            lease = process_connection(self._options, retry_for=PLANNING_TIMEOUT)
            self._reporter = JobReporter(lease, self.status)
        except Error as error:
            logger.debug("no reports of %s: %s", self.status.name, error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, Exception):
            self.status.change("stopped")
        else:
            text = str(error.args[0]) if error.args else type(error).__name__
            hint = getattr(error, "hint", None)
            self.status.change("failed", f"{text}. {hint}" if hint else text)
        if self._reporter is not None:
            self._reporter.stop()
