"""The progress of a job: one line that is updated on a terminal, elsewhere a line per batch."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetspark.cli.args.units import show_count
from jetspark.cli.ui.output import Output

if TYPE_CHECKING:
    from jetspark.logs.job.runner import BatchProgress

__all__ = ["LiveLine"]


class LiveLine:
    """Shows the last batch while the context lasts."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._status: Any = None

    def __enter__(self) -> LiveLine:
        if sys.stderr.isatty() and not self._out.json:
            from rich.console import Console  # noqa: PLC0415 - loaded when something is shown

            self._status = Console(stderr=True, highlight=False, markup=False).status("Waiting for lines")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, progress: BatchProgress) -> None:
        """Show a finished batch."""
        line = _describe(progress)
        if self._status is not None:
            self._status.update(line)
        else:
            self._out.text(line)


def _describe(progress: BatchProgress) -> str:
    lag = "?" if progress.lag is None else show_count(progress.lag)
    return (
        f"{progress.query} {progress.batch}: {show_count(progress.lines)} lines in {progress.seconds:.1f} s, "
        f"{progress.lines_per_second:,.0f}/s; total {show_count(progress.total_rows)} rows, "
        f"{show_count(progress.total_dead_letters)} dead letters; lag {lag}"
    )
