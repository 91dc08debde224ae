"""The Spark session of a job: this Python in the workers, loopback only, its log in a file.

The log, the table and the checkpoint may hold log lines, so other users cannot read them: `[spark] umask`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from jetspark.logs.job.config import Config
from jetspark.logs.job.errors import SPARK_ERRORS, spark_explained
from jetspark.logs.job.spark_home import ClassArchive, check_java, use_spark_home
from jetspark.logs.job.storage import created_without, is_local, without_checksums

__all__ = ["LOCAL_CONF", "SQL_CONF", "start_session", "stop_session"]

#: For every job. Without ANSI mode, an expression that fails on a line is null, not an error.
SQL_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    # Instants in UTC for every reader. Spark's default, INT96, has no zone and no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A task may have this many files open; Spark sorts the rows by directory only for more.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Spark's default is 200 tasks, which cost more than a batch.
    "spark.sql.shuffle.partitions": "2",
}
_STATIC: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # Otherwise Python passes the source line of each column to Spark: ten calls for a column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
#: Java's matcher recurses: this stack suffices for a user's pattern on the longest line that it is tried on.
#: It takes memory only where it is used.
_DEEP: Final = "-Xss64m"
#: For a few lines, Java's quick compiler takes less time.
_BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Hadoop sets the permissions of files itself, whatever the process would give them.
_UMASK: Final = "spark.hadoop.fs.permissions.umask-mode"
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
#: For jobs with their checkpoint on a local disk.
# Without its native library, which pip does not install, Hadoop starts a process for each file and directory
# that it creates on a local disk, to set permissions, and several for each rename through its `FileContext`:
# most of the time of a small batch. So it writes no files that nothing reads, and checkpoints are renamed
# through its `FileSystem`: the same rename, without these processes.
_RENAMED: Final = "org.apache.spark.sql.execution.streaming.{}FileSystemBasedCheckpointFileManager"
LOCAL_CONF: Final = {
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _RENAMED.format(
        "" if pyspark.__version__.startswith("4.0.") else "checkpointing."
    ),
}

#: The archive of this process, until Spark stops.
_archives: list[ClassArchive] = []


def _silence_query_errors() -> None:
    """Spark prints Java stack traces for invalid SQL, which the job reports in one line."""
    # The logger must be of Spark's class: it is called with arguments that others do not take.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def start_session(config: Config, log: Path, *, trial: bool = False) -> SparkSession:
    """Start Spark; it and its workers log to the file `log`. Raises `Error` if it does not start.

    For a `trial`, it is a local Spark that starts sooner, and is slower.
    """
    check_java()
    master = "local[1]" if trial else config.spark.master
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _silence_query_errors()
    umask = config.spark.umask
    conf = {**_STATIC, **SQL_CONF, _UMASK: umask}
    java = [*([_DEEP] if config.parse.deep else []), *([_BRIEF] if trial else [])]
    if java:
        conf |= {f"spark.{part}.extraJavaOptions": " ".join(java) for part in ("driver", "executor")}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        conf |= _LOOPBACK
        archive = use_spark_home()
        # Only a whole job loads the classes that the next one needs.
        if archive is not None and (options := archive.options(write=not trial)):
            _archives.append(archive)
            conf["spark.driver.defaultJavaOptions"] = options
    if is_local(config.checkpoint):
        conf |= LOCAL_CONF
    builder = SparkSession.builder.master(master).appName(f"jetspark pipeline {config.name}")
    for key, value in {**conf, **config.spark.conf}.items():
        builder = builder.config(key, value)
    with created_without(umask), _stderr_to(log), spark_explained(f"Its log is {log}"):
        spark = builder.getOrCreate()
        if master.startswith("local"):
            without_checksums(spark)
        return spark


def stop_session(spark: SparkSession) -> None:
    """Stop Spark, even if its process has ended."""
    java = getattr(spark.sparkContext._gateway, "proc", None)
    with contextlib.suppress(*SPARK_ERRORS):
        spark.stop()
    while _archives and java is not None:
        _archives.pop().keep(java)


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect standard error. Processes that start meanwhile, as Java does, keep writing to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    with log.open("ab") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
