"""Spark for tests. Most of its processes live for seconds, so they must start quickly.

Every process that a test starts inherits the environment set here. `python -m tests.support.quick_spark`,
which make runs once per environment, writes an archive of the classes that Spark loads (Java's class data
sharing): with it a JVM needs half the CPU to start. Without the archive the tests only run slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["QUICK_JAVA", "quicken"]

# Java accepts an archive only for the class path it was made with, so the path must not change between runs.
_HOME = Path(sys.prefix) / "spark-home"
_FILE = _HOME / "classes.jsa"

# Use the archive; if it does not fit this Java, continue silently without it.
_ARCHIVE = f"-XX:SharedArchiveFile={_FILE} -Xlog:disable -Xlog:all=error:stderr" if _FILE.exists() else ""
#: No optimising compiler: in a JVM that lives for minutes it costs more than it saves.
QUICK_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_ARCHIVE}".rstrip()


def quicken() -> None:
    """Make every Spark that is started from now on start quickly, with this Python, on loopback only."""
    package = Path(pyspark.__file__).parent
    _HOME.mkdir(exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        link = _HOME / name
        if (package / name).is_dir() and not link.exists():
            made = link.with_name(f"{name}.{os.getpid()}")
            made.symlink_to(package / name)
            made.replace(link)  # Several test processes may start at once.
    os.environ["SPARK_HOME"] = str(_HOME)
    os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JAVA
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable


def _write_archive() -> None:
    """Run typical test code with a JVM that writes the archive when it ends."""
    _FILE.unlink(missing_ok=True)
    quicken()
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={_FILE} -Xlog:disable -Xlog:all=error:stderr"
    from pyspark.sql import SparkSession

    from jetspark.server import Server
    from tests.spark.support import SPARK_CONF

    builder = SparkSession.builder.master("local[2]")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryDirectory() as place, Server() as server:
        _fill(server.url)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        options = {"servers": server.url, "stream": "WARM"}
        lines = spark.readStream.format("jetstream").options(**options, startingPosition="earliest").load()
        for name, frame in {"rows": lines, "counts": lines.groupBy("subject").count()}.items():
            writer = frame.writeStream.option("checkpointLocation", f"{place}/checkpoint-{name}")
            if name == "rows":
                writer = writer.format("parquet").option("path", f"{place}/rows")
            else:
                writer = writer.outputMode("complete").foreachBatch(_collect)
            writer.trigger(availableNow=True).start().awaitTermination()
        found = spark.read.parquet(f"{place}/rows").selectExpr("cast(data as string) as data")
        target = {"servers": server.url, "subject": "warm.again"}
        found.write.format("jetstream").options(**target).mode("append").save()
        assert spark.read.format("jetstream").options(**options).load().count() == 20
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        java = gateway.proc
        spark.stop()
        java.stdin.close()  # This ends a JVM that Python started; it then writes the archive.
        java.wait(120)


def _collect(batch: DataFrame, number: int) -> None:
    batch.collect()


def _fill(url: str) -> None:
    from jetspark import StreamConfig, blocking

    with blocking.connect(url) as connection:
        js = connection.jetstream()
        js.create_stream(StreamConfig(name="WARM", subjects=["warm.>"], allow_direct=True))
        with js.publisher() as publisher:
            for number in range(10):
                publisher.send("warm.up", f"line {number}".encode())


if __name__ == "__main__":
    _write_archive()
