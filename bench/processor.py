"""Work with Spark: its session, its rate, and the CPU time of each process.

The processes are Spark's JVM, its Python workers and this one, and the server.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import jetspark.server
from bench.cpu import Usage
from bench.harness import Column, Sample, Stopwatch
from jetspark.logs.job.spark_home import use_spark_home
from jetspark.server import Server

CORES: Final = 2
#: What Spark and its workers print.
LOG: Final = Path(__file__).parents[1] / "build/bench-spark.log"
CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
}
#: The columns of a measurement with Spark.
COLUMNS: Final = (
    Column("rate", "rows/s", "{:,.0f}"),
    Column("jvm", "JVM, s/million", "{:.2f}"),
    Column("python", "Python, s/million", "{:.2f}"),
    Column("server", "nats-server, s/million", "{:.2f}"),
)


@functools.cache
def session() -> SparkSession:
    """The Spark session of this process: two cores, on loopback only, its log in `LOG`.

    It starts from the home of the pipeline's jobs, in which Python need not compile Spark's modules anew.
    """
    use_spark_home()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    server()  # Stops after Spark, whose workers hold connections to it.
    with _stderr_to(LOG):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    atexit.register(spark.stop)
    return spark


@functools.cache
def server() -> Server:
    """The server of all measurements with Spark. Spark's workers live on, and would miss one that ends."""
    running = jetspark.server.run()
    atexit.register(running.stop)
    return running


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect standard error. Processes that start meanwhile, as Java does, keep writing to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    with log.open("wb") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def metered(count: int, work: Callable[[], object]) -> Sample:
    """The rate of `work`, and the seconds of CPU per million rows, by process."""
    gateway: Any = session()._jvm
    jvm = int(gateway.java.lang.ProcessHandle.current().pid())
    before = Usage(jvm)
    with Stopwatch(server().pid) as watch:
        work()
    in_jvm, in_python = Usage(jvm).since(before)
    scale = 1e6 / count
    return {
        "rate": count / watch.seconds,
        "seconds": watch.seconds,
        "jvm": in_jvm * scale,
        "python": in_python * scale,
        "server": watch.server_cpu * scale,
    }
