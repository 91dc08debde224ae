"""Lines become rows, with Spark's own functions: no line passes through Python, unless it is compressed.

A row that comes out has the columns of `Config.row_columns`, and `_reason`: null, or why its line does not
parse. `_data` and `_headers` keep what the stream has, for the dead letter. Nothing here raises because of
what a line says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.logs.job.config import Config
from jetspark.logs.job.errors import explained
from jetspark.logs.job.parse.decode import read_lines
from jetspark.logs.job.parse.formats import FORMATS
from jetspark.logs.job.parse.times import formatted_time, iso_time, of_this_era
from jetspark.logs.job.toml_lines import Where

__all__ = ["INTERNAL", "parse_lines"]

#: Columns for the job itself.
INTERNAL: Final = ("_reason", "_data", "_headers")
#: What SQL becomes that makes several rows of one, or one of several.
_NOT_BY_LINE: Final = {"Generate", "Window", "Aggregate"}


def parse_lines(messages: DataFrame, config: Config, where: Where) -> DataFrame:
    """The rows of what `format("jetstream")` reads. Raises `UsageError` for what only Spark can judge."""
    _check(messages.sparkSession, config, where)
    frame, unread = read_lines(messages, compressed=config.source.compressed)
    frame, unparsed = FORMATS[config.parse.format](frame, config)
    reasons = [unread, unparsed]
    if config.parse.format in ("json", "logfmt", "regex"):
        frame, reason = _with_time(frame, config)
        reasons.append(reason)
    time = of_this_era(F.col("time"))
    reasons.append(F.when(time.isNull(), F.lit("the time is none")))
    if config.counts is not None:
        # One such line would move the watermark there, and all that come after it would be too late.
        ahead = time > F.col("received") + F.expr("INTERVAL 1 DAY")
        reasons.append(F.when(ahead, F.lit("the time is in the future")))
    frame = frame.withColumns({"time": time, "_reason": F.coalesce(*reasons)})
    if "line" not in {name.lower() for name in config.fields}:
        frame = frame.withColumn("line", F.col("_line"))
    for name, expression in config.columns.items():
        frame = _with_column(frame, name, expression, where)
    return frame.select(*config.row_columns, *INTERNAL)


def _check(spark: SparkSession, config: Config, where: Where) -> None:
    """Let Java read the pattern, and Spark the format of times."""
    assert spark._jvm is not None
    parse = config.parse
    try:
        if parse.format == "regex":
            spark._jvm.java.util.regex.Pattern.compile(config.pattern.text)
    except PySparkException as error:
        told = f"is no regular expression for Java: {explained(error)}"
        raise where.error("parse.pattern", told, "It differs a little from Python's") from None
    try:
        if parse.time_format is not None:
            tried = F.try_to_timestamp(F.lit("2026"), F.lit(parse.time_format))
            spark.sql("SELECT 1").select(tried).collect()
    except PySparkException:
        raise where.error(
            "parse.time_format",
            f"{parse.time_format!r} is no pattern of Spark's",
            "See https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html",
        ) from None


def _with_time(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    """With `time`: that of a field, or else when the stream received the line."""
    parse = config.parse
    if parse.time is None:
        return frame.withColumn("time", F.col("received")), F.lit(None).cast("string")
    given = F.col(parse.time)
    if parse.time_format is not None:
        time = formatted_time(given.cast("string"), parse.time_format)
    elif parse.fields.get(parse.time, "string") == "string":
        time = iso_time(given)
    else:
        time = given.try_cast("timestamp")
    reason = F.when(F.col("_time").isNull(), F.lit(f"{parse.time} is no time"))
    return frame.withColumn("_time", time).withColumn("time", F.col("_time")), reason


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
        raise where.error(
            key, "gives another value each time", "A batch that is written again must be the same"
        )
    return made


def _nodes(plan: Any) -> Iterator[str]:
    yield plan.nodeName()
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
