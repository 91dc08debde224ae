"""The sink `console`: the first rows of each batch, on standard output."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from jetspark.logs.job.config import Config, Section, SinkSection, SinkWriter
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ConsoleSink"]


class ConsoleSink(Section, SinkSection, frozen=True):
    """Rows on the console."""

    format: str
    #: The rows of a batch that are shown.
    rows: int = 20

    def check(self, config: Config, where: Where) -> None:
        if self.rows < 1:
            raise where.error("sink.rows", "must be at least 1")

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        return _ConsoleWriter(config.written_columns, self.rows)


class _ConsoleWriter(SinkWriter):
    def __init__(self, columns: tuple[str, ...], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        shown = rows.select(*self._columns).persist()
        try:
            shown.count()  # Showing alone would not compute all of them.
            shown.show(self._rows, truncate=False)
        finally:
            shown.unpersist()
