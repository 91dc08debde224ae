"""Parses a few lines as a job would: into rows, or reasons why they do not parse. Writes nothing.

It is the parser of the job, in a local Spark. Python's regular expressions, casts and times differ from
Java's in details, so another parser would be wrong where it matters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from jetspark.logs.format.line import Line
from jetspark.logs.job.config import Config
from jetspark.logs.job.errors import spark_explained
from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.toml_lines import Where
from jetspark.spark.schema import READ_SCHEMA

__all__ = ["TrialLines", "TriedLine", "try_lines"]


class TrialLines(NamedTuple):
    """Lines as an agent would ship them."""

    lines: Sequence[Line]
    host: str
    file: str | None


class TriedLine(NamedTuple):
    """The result for a line."""

    #: As it was read, with invalid UTF-8 replaced.
    line: str
    #: The columns that come from the line; empty if it does not parse.
    row: dict[str, Any]
    reason: str | None


def try_lines(spark: SparkSession, config: Config, where: Where, lines: TrialLines | int) -> list[TriedLine]:
    """Parse these lines, or this many from the start of the source.

    Raises `UsageError` for an error in the configuration, and `Error` if Spark fails.
    """
    with spark_explained():
        if isinstance(lines, int):
            messages = config.source.read_first(spark, HEADER_COLUMNS, lines)
        else:
            messages = _messages(spark, lines)
        return _outcomes(parse_lines(messages, config, where), config)


def _messages(spark: SparkSession, given: TrialLines) -> DataFrame:
    """The lines as messages of a stream, which it received now."""
    now = datetime.now(UTC)
    fields = [field for field in READ_SCHEMA if field.name != "headers"]
    fields += [StructField(name, StringType()) for name in HEADER_COLUMNS]
    headers = {"_host": given.host, "_file": given.file}
    rows = []
    for number, line in enumerate(given.lines, 1):
        of_line = {**headers, "_offset": str(line.offset), "_cut": "true" if line.cut else None}
        place = (f"logs.0.{given.host}", line.data, "TRY", number, now)
        rows.append((*place, *(of_line.get(name) for name in HEADER_COLUMNS)))
    return spark.createDataFrame(rows, StructType(fields))


def _outcomes(rows: DataFrame, config: Config) -> list[TriedLine]:
    names = ("time", *config.line_columns, *config.columns)
    found = rows.select(
        F.make_valid_utf8(F.col("_data").cast("string")).alias("line"),
        F.when(F.col("_reason").isNull(), F.to_json(F.struct(*names))).alias("row"),
        F.col("_reason").alias("reason"),
    )
    return [TriedLine(each.line, json.loads(each.row or "{}"), each.reason) for each in found.collect()]
