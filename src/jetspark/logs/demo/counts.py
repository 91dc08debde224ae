"""The final check of the demo: every written line is in the table or a dead letter, exactly once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.logs.job.dead_letters import REASON, SEQUENCE

__all__ = ["LineCounts", "count_lines"]

_NO_ROWS: Final = "host string, path string, sequence bigint"
#: The id of a simulated line, in a path or in a line that does not parse.
_ID: Final = r"\bid=([\w-]+)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineCounts:
    """Where the lines are."""

    written: int
    rows: int
    dead_letters: int
    #: Rows and dead letters that are stored more than once.
    duplicates: int
    hosts: tuple[tuple[str, int], ...] = ()
    statuses: tuple[tuple[int, int], ...] = ()
    #: Why lines did not parse, with counts.
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def lost(self) -> int:
        return self.written - (self.rows + self.dead_letters - self.duplicates)

    @property
    def match(self) -> bool:
        """Whether every line is stored exactly once."""
        return self.duplicates == 0 and self.written == self.rows + self.dead_letters


def count_lines(
    spark: SparkSession, written: int, table: str, url: str, dead_letters: str, *, simulated: bool = True
) -> LineCounts:
    """Compare the number of written lines with the table and the stream of dead letters.

    Simulated lines have ids; others are identified by their stream sequence.
    """
    # A job without rows creates no table.
    rows = spark.read.parquet(table) if Path(table).is_dir() else spark.createDataFrame([], _NO_ROWS)
    letters = spark.read.format("jetstream").options(servers=url, stream=dead_letters).load()
    letters = letters.select("data", *map(_header, (REASON, SEQUENCE)))
    if simulated:
        ids = F.regexp_extract("path", _ID, 1), F.regexp_extract(F.col("data").cast("string"), _ID, 1)
    else:
        ids = F.col("sequence").cast("string"), F.col(SEQUENCE)
    both = rows.select(ids[0].alias("id")).unionAll(letters.select(ids[1].alias("id")))
    total, distinct = both.agg(F.count("*"), F.count_distinct("id")).collect()[0]
    reasons = _top(letters.withColumnRenamed(REASON, "reason"), "reason")
    dead = sum(count for _, count in reasons)
    return LineCounts(
        written=written,
        rows=total - dead,
        dead_letters=dead,
        duplicates=total - distinct,
        hosts=_top(rows, "host"),
        statuses=_top(rows, "status") if "status" in rows.columns else (),
        reasons=reasons,
    )


def _header(name: str) -> Column:
    return F.get(F.col("headers")[name], 0).alias(name)


def _top(frame: DataFrame, column: str) -> tuple[tuple[Any, int], ...]:
    counts = frame.groupBy(column).count().orderBy(F.desc("count"), column).limit(10).collect()
    return tuple((row[column], row["count"]) for row in counts)
