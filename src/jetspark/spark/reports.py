"""Reports of a job or query, from the loop of a connection: the caller never waits for them."""

from __future__ import annotations

from contextlib import suppress

from jetspark.core.signal import Signal
from jetspark.errors import Error
from jetspark.reports.jobs import JOBS, JobStatus
from jetspark.reports.publisher import ReportPublisher
from jetspark.spark.connections import ProcessConnection

__all__ = ["JobReporter"]


class JobReporter:
    """Publishes what `status` says until `stop`."""

    def __init__(self, connection: ProcessConnection, status: JobStatus) -> None:
        self.status = status
        self._connection = connection
        self._changed = Signal()
        self._publisher = ReportPublisher(
            connection.js, f"{JOBS}.{status.name}", status.report, self._changed
        )
        connection.post(self._publisher.start)

    def change(self, state: str, error: str = "") -> None:
        """Set the state, and report it soon."""
        self.status.change(state, error)
        self._connection.post(self._changed.wake)

    def stop(self, state: str, error: str = "") -> None:
        """Report the last state. Waits a few seconds for it at most."""
        self.status.change(state, error)
        with suppress(Error):
            self._connection.run(self._publisher.stop())
