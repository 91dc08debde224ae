"""The sinks `parquet` and `json`: a table of files, divided by columns and, below them, by batch.

A batch has its own directories, `date=.../host=.../batch=7`. They appear complete, and writing a batch
again replaces them. So a batch that was killed half-way adds nothing, and any tool that reads directories
reads every row once.

Batch numbers are unique within one checkpoint only. So a table belongs to the first checkpoint that writes
it, which is noted in the file `_jetspark`. Readers skip that file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

import msgspec

from jetspark.logs.job.config import Config, Section, SinkSection, SinkWriter
from jetspark.logs.job.layout import PARQUET_OPTIONS, check_layout, divided
from jetspark.logs.job.sql import F
from jetspark.logs.job.storage import Storage
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FileSink", "TableWriter"]

#: Directories that Spark fills before it moves them.
_STAGING: Final = ".spark-staging-*"
_OWNER: Final = "_jetspark"


class FileSink(Section, SinkSection, frozen=True):
    """A table of files."""

    format: str
    path: str
    partition_by: list[str] | None = None
    #: Unused: earlier versions accepted this key of `console` for every format.
    rows: int = 20

    @property
    def destination(self) -> str:
        return self.path

    def partitions(self, config: Config) -> tuple[str, ...]:
        return (*self.columns(config), "batch")

    def columns(self, config: Config) -> tuple[str, ...]:
        """The partition columns above the batch."""
        if self.partition_by is not None:
            return tuple(self.partition_by)
        return ("date", "host") if "host" in config.written_columns else ("date",)

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        return msgspec.structs.replace(self, path=resolve(self.path))

    def check(self, config: Config, where: Where) -> None:
        check_layout(self.path, self.columns(config), config, where)

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        return TableWriter(self, config, where)


class TableWriter(SinkWriter):
    """Writes the batches of a table. `prepare` it first."""

    _storage: Storage

    def __init__(self, sink: FileSink, config: Config, where: Where) -> None:
        self._sink = sink
        self._where = where
        self._columns = config.written_columns
        self._partitions = sink.columns(config)
        self._owned = False

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        self._storage = Storage(spark, self._sink.path)
        self._check(owner)
        self._storage.delete(_STAGING)  # A killed job leaves them. Nothing reads them, but they take space.

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        """Write a batch. Raises `UsageError` if another checkpoint took the table since `prepare`."""
        self._own(owner)
        by = self._partitions
        made = divided(rows, self._columns, by)
        # As text it is not part of the code that Spark generates, so all batches share that code.
        made = made.withColumn("batch", F.lit(str(batch)))
        (
            made.write.format(self._sink.format)
            .mode("overwrite")
            .options(partitionOverwriteMode="dynamic", **PARQUET_OPTIONS)
            .partitionBy(*by, "batch")
            .save(self._sink.path)
        )

    def forget(self, batch: int) -> None:
        """Remove the files of an earlier attempt at a batch: the next may write to other directories."""
        self._storage.delete("/".join(["*" for _ in self._partitions] + [f"batch={batch}"]))

    def _own(self, owner: str) -> None:
        if not self._owned and not self._check(owner):
            self._storage.write(_OWNER, json.dumps(self._note(owner)) + "\n")
        self._owned = True

    def _note(self, owner: str | None) -> dict[str, object]:
        return {"id": owner, "format": self._sink.format, "partition_by": list(self._partitions)}

    def _check(self, owner: str | None) -> bool:
        """Whether the table belongs to the owner; if not, it is empty."""
        text = self._storage.read(_OWNER)
        if text is None:
            if any(not name.startswith((".", "_")) for name in self._storage.names()):
                raise self._error("contains files that this job did not write")
            return False
        theirs, ours = json.loads(text), self._note(owner)
        if theirs["id"] != owner:
            raise self._error("belongs to another checkpoint, whose batches would be overwritten")
        for key in ("format", "partition_by"):
            if theirs[key] != ours[key]:
                raise self._error(f"was created with {key} = {json.dumps(theirs[key])}")
        return True

    def _error(self, what: str) -> Exception:
        hint = "Name a new directory, or delete this one and its checkpoint to read the stream again"
        return self._where.error("sink.path", f"{self._sink.path} {what}", hint)
