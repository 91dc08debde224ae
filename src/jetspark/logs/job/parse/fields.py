"""The keys of `[parse]` that formats share: those of all, and `fields` with their types and `time`.

A field may have any name in a line; its column has the same name in letters, digits and `_`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal

from jetspark.logs.job.config import ParseSection, Section
from jetspark.logs.job.parse.match import or_null
from jetspark.logs.job.parse.times import formatted_time, iso_time
from jetspark.logs.job.patterns import far_year
from jetspark.logs.job.sql import F
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["TYPES", "FieldsFormat", "LineFormat", "column_of", "typed"]

TYPES: Final = ("string", "int", "bigint", "double", "boolean", "timestamp")


class LineFormat(Section, ParseSection, frozen=True):
    """The keys of every format."""

    format: str
    container: Literal["cri", "docker"] | None = None
    keep_line: bool = False


class FieldsFormat(LineFormat, frozen=True):
    """A format whose columns are named in `fields`."""

    fields: dict[str, str] = {}  # noqa: RUF012 - a field of msgspec
    #: The field that is the time of the event; else it is when the line was received, or logged.
    time: str | None = None
    #: Spark's pattern for the time, unless it is ISO 8601.
    time_format: str | None = None

    @property
    def kinds(self) -> Mapping[str, str]:
        """The types of the fields, by their names in a line."""
        return self.fields

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(column_of, self.kinds))

    def key_of(self, column: str) -> tuple[str, ...]:
        names = {column_of(name): name for name in self.kinds}
        return ("parse", "fields", names.get(column, column))

    def check(self, where: Where) -> None:
        for name, kind in self.fields.items():
            if kind not in TYPES:
                raise where.error(("parse", "fields", name), f"{kind!r} is not one of {', '.join(TYPES)}")
        if not self.columns:
            raise where.error("parse.fields", f"is missing: format {self.format} needs its columns")
        for name in self.kinds:
            if column_of(name).lower() == "time" and name != self.time:
                raise where.error("parse.time", f"the field {name} would be lost", f'Set `time = "{name}"`')
        if self.time is not None:
            self._check_time(self.time, where)
        elif self.time_format is not None:
            raise where.error("parse.time_format", "requires parse.time")

    def _check_time(self, time: str, where: Where) -> None:
        if time not in self.kinds:
            raise where.error("parse.time", f"field {time!r} not found")
        kind = self.kinds[time]
        if kind == "boolean":
            raise where.error("parse.time", f"field {time} is a boolean")
        if self.time_format is None:
            return
        if kind not in ("string", "int", "bigint"):
            raise where.error("parse.time_format", f"requires a string, and field {time} is a {kind}")
        try:
            far_year(self.time_format)
        except ValueError as error:
            raise where.error("parse.time_format", str(error)) from None

    def check_with(self, spark: SparkSession, where: Where) -> None:
        if self.time_format is None:
            return
        from pyspark.errors import PySparkException  # noqa: PLC0415 - loads Spark

        try:
            tried = F.try_to_timestamp(F.lit("2026"), F.lit(self.time_format))
            spark.sql("SELECT 1").select(tried).collect()
        except PySparkException:
            raise where.error(
                "parse.time_format",
                f"{self.time_format!r} is not a Spark datetime pattern",
                "See https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html",
            ) from None

    def parse(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        frame, reason = self.parse_fields(frame)
        if self.time is None:
            return frame.withColumn("time", F.col("_logged")), reason
        given, kind = F.col(column_of(self.time)), self.kinds[self.time]
        if self.time_format is not None:
            time = formatted_time(given.cast("string"), self.time_format)
        else:
            time = iso_time(given) if kind == "string" else given.try_cast("timestamp")
        frame = frame.withColumn("_time", time).withColumn("time", F.col("_time"))
        return frame, F.coalesce(reason, F.when(F.col("_time").isNull(), F.lit(f"{self.time} is not a time")))

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        """The frame with the columns of the fields, and the reason why a line does not parse."""
        raise NotImplementedError


def column_of(name: str) -> str:
    """The column of a field: `http_status` of `http.status`, `timestamp` of `@timestamp`, `PID` of `_PID`."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", name):
        return name
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def typed(frame: DataFrame, kinds: Mapping[str, str], bad: Column) -> tuple[DataFrame, Column]:
    """The texts `_text_<column>` as columns of their types; a line with another type does not parse."""
    columns: dict[str, Column] = {}
    reasons = [bad]
    for name, kind in kinds.items():
        text = columns[column_of(name)] = or_null(f"_text_{column_of(name)}")
        if kind != "string":
            made = iso_time(text) if kind == "timestamp" else text.try_cast(kind)
            columns[column_of(name)] = made
            reasons.append(F.when(text.isNotNull() & made.isNull(), F.lit(f"{name} is not of type {kind}")))
    return frame.withColumns(columns), reduce(F.coalesce, reasons)
