"""The Spark session of a job: this Python in the workers, loopback only, its log out of the way."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jetspark.logs.job.config import Config
from jetspark.logs.job.errors import SPARK_ERRORS, spark_explained
from jetspark.logs.job.spark_home import use_package

__all__ = ["apply_conf", "start_session", "stop_session"]

#: What a job needs of a session. A line can say anything: what cannot be computed is null, not an error.
_SQL: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
_STATIC: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # A batch is small beside what 200 tasks cost, which is Spark's default.
    "spark.sql.shuffle.partitions": "2",
}
#: Java's matcher recurses: a stack that suffices for a user's pattern on the longest line that it is for it,
#: which takes memory only where it is used.
_DEEP: Final = {f"spark.{part}.extraJavaOptions": "-Xss64m" for part in ("driver", "executor")}
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def start_session(config: Config, log: Path) -> SparkSession:
    """Start Spark. What it and its workers log goes to the file `log`. Raises `Error` if it does not."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # It would print stack traces of Java for SQL that is wrong, which is told in a line.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    conf = {**_STATIC, **_SQL, **(_DEEP if config.parse.format == "regex" else {})}
    if config.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        use_package()
        conf |= _LOCAL
    builder = SparkSession.builder.master(config.spark.master).appName(f"jetspark pipeline {config.name}")
    for key, value in {**conf, **config.spark.conf}.items():
        builder = builder.config(key, value)
    with _stderr_to(log), spark_explained(f"Its log is {log}"):
        return builder.getOrCreate()


def stop_session(spark: SparkSession) -> None:
    """Stop Spark, even if it is gone already."""
    with contextlib.suppress(*SPARK_ERRORS):
        spark.stop()


def apply_conf(spark: SparkSession) -> None:
    """Let a session that is there already behave as one of `start_session`."""
    for key, value in _SQL.items():
        spark.conf.set(key, value)


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What is started meanwhile, and so Java with all that it starts, writes there for good."""
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
