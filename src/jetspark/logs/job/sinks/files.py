"""Files of a table: Parquet or JSON lines, divided by columns and, below them, by batch.

A batch has directories of its own, `date=.../host=.../batch=7`. They appear whole, and a batch that is
written again replaces them: so a batch that was killed half-way adds nothing, and any tool that reads
directories reads every row once.

Numbers of batches mean something for one checkpoint only. So a table belongs to the first that writes it,
and says so in a file `_jetspark`, which readers pass over.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import Where
from jetspark.logs.job.storage import Directory

__all__ = ["Table"]

#: What a name of a directory may be; anything else becomes a hash. Names come from anybody, and
#: one is how readers spell null.
_SAFE: Final = r"^(?!__HIVE_DEFAULT_PARTITION__$)[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
#: Where Spark prepares directories before it moves them.
_STAGING: Final = ".spark-staging-*"
_OWNER: Final = "_jetspark"


class Table:
    """The table of a job."""

    def __init__(self, spark: SparkSession, config: Config, where: Where) -> None:
        assert config.sink.path is not None
        self._config = config
        self._where = where
        self._path = config.sink.path
        self._directory = Directory(spark, config.sink.path)
        self._owned = False

    def prepare(self, owner: str | None) -> None:
        """Look whether the checkpoint with the id `owner` may write here; it has none before its first run.

        Then remove what a job that was killed had prepared: nobody reads it, but it takes space. Raises
        `UsageError`.
        """
        self._check(owner)
        self._directory.delete(_STAGING)

    def write(self, rows: DataFrame, batch: int, owner: str) -> None:
        """Write the rows of a batch. Raises `UsageError` if the table came to belong to another meanwhile."""
        self._own(owner)
        by = self._config.partition_by
        made = rows.select(*self._config.written_columns)
        if "date" in by:
            made = made.withColumn("date", F.to_date(self._config.written_columns[0]))
        for field in made.schema:
            if field.name in by and field.dataType.simpleString() == "string":
                made = made.withColumn(field.name, _safe(field.name))
        if by:  # One file for each directory, not one of each task.
            made = made.repartition(*by)
        made = made.withColumn("batch", F.lit(batch).cast("bigint"))
        (
            made.write.format(self._config.sink.format)
            .mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*by, "batch")
            .save(self._path)
        )

    def forget(self, batch: int) -> None:
        """Remove what an earlier attempt at a batch wrote: the next may write to other directories."""
        self._directory.delete("/".join(["*" for _ in self._config.partition_by] + [f"batch={batch}"]))

    def _own(self, owner: str) -> None:
        if not self._owned and not self._check(owner):
            self._directory.write(_OWNER, json.dumps(self._note(owner)) + "\n")
        self._owned = True

    def _note(self, owner: str | None) -> dict[str, object]:
        by = list(self._config.partition_by)
        return {"id": owner, "format": self._config.sink.format, "partition_by": by}

    def _check(self, owner: str | None) -> bool:
        """Whether the table belongs to the owner; if not, it is empty."""
        text = self._directory.read(_OWNER)
        if text is None:
            if any(not name.startswith((".", "_")) for name in self._directory.names()):
                raise self._error("has files that are not of this job")
            return False
        theirs, ours = json.loads(text), self._note(owner)
        if theirs["id"] != owner:
            raise self._error("belongs to another checkpoint, whose batches would be overwritten")
        for key in ("format", "partition_by"):
            if theirs[key] != ours[key]:
                raise self._error(f"was begun with {key} = {json.dumps(theirs[key])}")
        return True

    def _error(self, what: str) -> Exception:
        way_out = "Name a new directory, or delete this one and its checkpoint to read the stream anew"
        return self._where.error("sink.path", f"{self._path} {what}", way_out)


def _safe(name: str) -> Column:
    hashed = F.concat(F.lit("sha-"), F.substring(F.sha2(name, 256), 1, 32))
    return F.when(F.col(name).rlike(_SAFE), F.col(name)).when(F.col(name).isNotNull(), hashed)
