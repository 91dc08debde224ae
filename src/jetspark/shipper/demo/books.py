"""The books at the end of the demo: every line that was written must be somewhere, once. Spark counts."""

from __future__ import annotations

import dataclasses

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

__all__ = ["Books", "balance"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Books:
    """What became of the lines."""

    written: int
    rows: int
    dead_letters: int
    #: Rows and dead letters that are there more than once.
    duplicates: int
    hosts: tuple[tuple[str, int], ...]
    statuses: tuple[tuple[int, int], ...]

    @property
    def lost(self) -> int:
        """Lines that are nowhere."""
        return self.written - (self.rows + self.dead_letters - self.duplicates)

    @property
    def balanced(self) -> bool:
        """Whether every line is there, once."""
        return self.duplicates == 0 and self.written == self.rows + self.dead_letters


def balance(spark: SparkSession, written: int, table: str, url: str, dead_letters: str) -> Books:
    """Compare what hosts have written with the table and the stream of dead letters."""
    rows = spark.read.parquet(table).withColumn("id", F.regexp_extract("path", r"[?&]id=([\w-]+)", 1))
    letters = (
        spark.read.format("jetstream")
        .options(servers=url, stream=dead_letters)
        .load()
        .select(F.regexp_extract(F.col("data").cast("string"), r"\bid=([\w-]+)", 1).alias("id"))
    )
    ids = rows.select("id").unionAll(letters)
    total, distinct = ids.agg(F.count("*"), F.count_distinct("id")).collect()[0]
    buried = letters.count()
    hosts = rows.groupBy("host").count().orderBy(F.desc("count"), "host").limit(10).collect()
    statuses = rows.groupBy("status").count().orderBy(F.desc("count"), "status").limit(10).collect()
    return Books(
        written=written,
        rows=total - buried,
        dead_letters=buried,
        duplicates=total - distinct,
        hosts=tuple((row["host"], row["count"]) for row in hosts),
        statuses=tuple((row["status"], row["count"]) for row in statuses),
    )
