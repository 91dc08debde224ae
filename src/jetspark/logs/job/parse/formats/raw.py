"""The format `raw`: the line as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.logs.job.parse.fields import LineFormat
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["RawFormat"]


class RawFormat(LineFormat, frozen=True):
    """One column, `line`. Every line parses."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("line",)

    def parse(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        columns = {"time": F.col("_logged"), "line": F.col("_line")}
        return frame.withColumns(columns), F.lit(None).cast("string")
