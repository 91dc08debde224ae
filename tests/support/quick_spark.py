"""Spark for tests: its processes do not live for long, so they are made to start quickly.

What is set here is inherited by everything that tests start.
"""

from __future__ import annotations

import os
import sys

from jetspark.logs.job.spark_home import use_package

__all__ = ["QUICK_JAVA", "quicken"]

#: A JVM that does not run for long is up sooner without the optimising compiler.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quicken() -> None:
    """Let every Spark that is started from now on start quickly, with this Python, on loopback only."""
    os.environ.pop("SPARK_HOME", None)
    use_package()
    os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JAVA
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
