"""The files of a batch before they belong to a table: each attempt at a batch has its own directory.

It is `data/<checkpoint>/<batch>-<random>` below the table, where no reader looks. The sinks `delta` and
`iceberg` commit its files. A killed job leaves an attempt behind. The next run deletes it when it has
committed the batch; compaction deletes what is left after a day.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from jetspark.logs.job.layout import PARQUET_OPTIONS
from jetspark.logs.job.storage import Storage, is_local
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "COMMIT_ATTEMPTS",
    "LEFT_OVER",
    "Attempt",
    "back_off",
    "batch_taken_error",
    "other_checkpoint_error",
    "remove_empty_directories",
    "table_storage",
]

#: Attempts to commit while other writers change the table.
COMMIT_ATTEMPTS: Final = 20
#: No batch takes this long: an older file that is in no version of the table was left by a killed process.
LEFT_OVER: Final = timedelta(days=1)
_OPTIONS: Final = {
    **PARQUET_OPTIONS,
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Hadoop would write a `.crc` beside each local file, which only Hadoop reads and nothing deletes.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def table_storage(spark: SparkSession, path: str) -> Storage:
    """The directory of a table. Spark's default file system need not be the local one."""
    return Storage(spark, f"file://{path}" if is_local(path) else path)


class Attempt:
    """One attempt at a batch."""

    def __init__(self, storage: Storage, owner: str, batch: int) -> None:
        self._storage = storage
        self._others = f"data/{owner}/{batch}-*"
        self._parent = f"data/{owner}"
        self._name = f"{batch}-{uuid.uuid4().hex[:12]}"

    @property
    def directory(self) -> str:
        """Its directory, relative to the table."""
        return f"{self._parent}/{self._name}"

    def write(self, rows: DataFrame, by: Sequence[str]) -> None:
        """Write rows as Parquet files, in directories named after the values of columns."""
        writer = rows.write.mode("error").options(**_OPTIONS).partitionBy(*by)
        writer.parquet(f"{self._storage.url}/{self.directory}")

    def delete_others(self) -> None:
        """Delete earlier attempts. This one is committed, so none of them can be."""
        for name in self._storage.names(self._others):
            if name != self._name:
                self._storage.delete(f"{self._parent}/{name}")


def other_checkpoint_error(where: Where, path: str, name: str) -> Exception:
    """The error for a job that has lost its checkpoint."""
    what = f"{path} has rows of job {name} with another checkpoint, which would be written again"
    return where.error(
        "sink.path", what, "Restore that checkpoint, or choose another name or a new directory"
    )


def batch_taken_error(where: Where, path: str, batch: int) -> Exception:
    """The error for a batch that the table has, and the checkpoint does not."""
    what = (
        f"{path} has a batch {batch} of this checkpoint: it is older than the table, or another job uses it"
    )
    return where.error("checkpoint", what, "Restore the newest one, or choose a new one and a new directory")


def back_off(attempts: int) -> Iterator[bool]:
    """Yield once for each attempt, with pauses in between: whether it is the last one."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(random.uniform(0.01, 0.1) * attempt)
        yield attempt == attempts - 1


def remove_empty_directories(path: str, keep: timedelta) -> None:
    """Remove local directories that have been empty for this long, and for a day at least."""
    if not is_local(path):
        return
    before = (datetime.now(UTC) - max(keep, LEFT_OVER)).timestamp()
    for directory, _, _ in os.walk(f"{path}/data", topdown=False):
        with contextlib.suppress(OSError):  # It is not empty, or was removed.
            if os.stat(directory).st_mtime < before:
                os.rmdir(directory)
