"""The checkpoint of a query, which is where Spark keeps its notes: who it is, and which batches it planned.

Spark notes a batch before it runs. So a number that is there when a job starts is a batch that may be done in
part, or wholly, and that runs again; whatever is planned later was never begun.
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
from jetspark.logs.job.config_file import Where
from jetspark.logs.job.storage import Directory

__all__ = ["Checkpoint", "alone"]


class Checkpoint:
    """Spark's notes of one query."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._directory = Directory(spark, path)

    def id(self) -> str | None:
        """The id that the query keeps for good, or None before it ran for the first time."""
        text = self._directory.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_planned(self) -> int:
        """The highest number of a batch that was planned, or -1."""
        return max((int(name) for name in self._directory.names("offsets/*") if name.isdigit()), default=-1)

    def planned_at(self, batch: int) -> datetime:
        """When a batch was planned."""
        found = re.search(r'"batchTimestampMs"\s*:\s*(\d+)', self._directory.read(f"offsets/{batch}") or "")
        return datetime.fromtimestamp(int(found[1]) / 1000 if found else 0, UTC)


@contextlib.contextmanager
def alone(config: Config, where: Where) -> Iterator[None]:
    """Keep other jobs away from a checkpoint on this machine. Raises `UsageError` if there is one."""
    path = config.checkpoint.removeprefix("file://")
    if "://" in path:
        yield
        return
    Path(path).mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise where.error(
                "checkpoint", "another job runs with it", "Stop that one, or give this one its own"
            ) from None
        yield
    finally:
        os.close(lock)
