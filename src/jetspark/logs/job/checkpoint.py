"""The checkpoint of a query: the id of the query, and the batches that Spark planned.

Spark records a batch before it runs it. So a batch that is recorded when a job starts may be written in part
or completely, and may run again; a batch that is planned later has never run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from jetspark.logs.job.config import Config
from jetspark.logs.job.storage import Storage, is_local
from jetspark.logs.toml_lines import Where

__all__ = ["Checkpoint", "lock_checkpoint"]


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._storage = Storage(spark, path)

    def id(self) -> str | None:
        """The permanent id of the query, or None before its first run."""
        text = self._storage.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_planned(self) -> int:
        """The highest planned batch number, or -1."""
        return max((int(name) for name in self._storage.names("offsets/*") if name.isdigit()), default=-1)

    def planned_at(self, batch: int) -> datetime:
        """When a batch was planned."""
        found = re.search(r'"batchTimestampMs"\s*:\s*(\d+)', self._storage.read(f"offsets/{batch}") or "")
        return datetime.fromtimestamp(int(found[1]) / 1000 if found else 0, UTC)


@contextlib.contextmanager
def lock_checkpoint(config: Config, where: Where) -> Iterator[None]:
    """Hold the lock of a local checkpoint. Raises `UsageError` if another job holds it."""
    if not is_local(config.checkpoint):
        yield
        return
    path = config.checkpoint.removeprefix("file://")
    Path(path).mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise where.error(
                "checkpoint", "another job uses it", "Stop that job, or choose another checkpoint"
            ) from None
        yield
    finally:
        os.close(lock)
