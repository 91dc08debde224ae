"""Parses lines into rows with Spark's own functions; only compressed lines pass through Python.

A row has the columns of `Config.row_columns`, and `_reason`: null, or why its line does not parse. `_data`
and the columns of its headers keep the message for the dead letter. Nothing here raises because of the
content of a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.config import Config
from jetspark.logs.job.errors import explained
from jetspark.logs.job.parse.containers import unwrap
from jetspark.logs.job.parse.decode import HEADER_COLUMNS, read_lines
from jetspark.logs.job.parse.times import of_this_era
from jetspark.logs.toml_lines import Where

__all__ = ["MESSAGE", "parse_lines"]

#: The columns that keep the message of a row.
MESSAGE: Final = ("_data", *HEADER_COLUMNS)
#: Plan nodes of SQL that changes the number of rows.
_NOT_BY_LINE: Final = {"Generate", "Window", "Aggregate"}


def parse_lines(messages: DataFrame, config: Config, where: Where) -> DataFrame:
    """The rows of messages. Raises `UsageError` for settings that only Spark can check."""
    config.parse.check_with(messages.sparkSession, where)
    frame, unread = read_lines(messages, compressed=config.source.compressed)
    frame, wrapped = unwrap(frame, config.parse.container)
    frame, unparsed = config.parse.parse(frame)
    reasons = [unread, wrapped, unparsed]
    time = of_this_era(F.col("time"))
    reasons.append(F.when(time.isNull(), F.lit("missing or invalid time")))
    if config.counts is not None:
        # One such line would move the watermark into the future, and all later lines would be late.
        ahead = time > F.col("received") + F.expr("INTERVAL 1 DAY")
        reasons.append(F.when(ahead, F.lit("the time is in the future")))
    frame = frame.withColumns({"time": time, "_reason": F.coalesce(*reasons)})
    if "line" not in {name.lower() for name in config.fields}:
        frame = frame.withColumn("line", F.col("_line"))
    for name, expression in config.columns.items():
        frame = _with_column(frame, name, expression, where)
    return frame.select(*config.row_columns, "_reason", *MESSAGE)


def _with_column(frame: DataFrame, name: str, expression: str, where: Where) -> DataFrame:
    key = f"columns.{name}"
    try:
        made = frame.withColumn(name, F.expr(expression))
        plan = made._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise where.error(key, str(explained(error))) from None
    if not _NOT_BY_LINE.isdisjoint(_nodes(plan)):
        raise where.error(key, "must give one value for each line")
    if not plan.deterministic():
        raise where.error(key, "must be deterministic", "A batch that runs again must give the same rows")
    return made


def _nodes(plan: Any) -> Iterator[str]:
    yield plan.nodeName()
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
