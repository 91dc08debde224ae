"""Reports of a job or query, from the loop of a connection: the caller never waits for them."""

from __future__ import annotations

from contextlib import suppress

from jetspark.core.signal import Signal
from jetspark.errors import Error
from jetspark.reports.jobs import JOBS, JobStatus
from jetspark.reports.publisher import ReportPublisher
from jetspark.spark.connections import Lease

__all__ = ["JobReporter"]


class JobReporter:
    """Publishes the `status` until `stop`, which releases the connection."""

    def __init__(self, lease: Lease, status: JobStatus) -> None:
        self._lease = lease
        self._connection = connection = lease.connection
        self._changed = Signal()
        self._publisher = ReportPublisher(
            connection.js, f"{JOBS}.{status.name}", status.report, self._changed
        )
        connection.post(self._publisher.start)

    def report_soon(self) -> None:
        """Report now, without waiting for it."""
        self._connection.post(self._changed.wake)

    def stop(self) -> None:
        """Report the last state. Waits a few seconds at most."""
        with suppress(Error):
            self._connection.run(self._publisher.stop())
        self._lease.release()
