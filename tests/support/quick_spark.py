"""Spark for tests: its processes do not live for long, so they are made to start quickly.

What is set here is inherited by everything that tests start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark

__all__ = ["QUICK_JAVA", "quicken"]

#: A JVM that does not run for long is up sooner without the optimising compiler.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quicken() -> None:
    """Let every Spark that is started from now on start quickly, with this Python, on loopback only."""
    os.environ["SPARK_HOME"] = str(_home())
    os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JAVA
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable


def _home() -> Path:
    """A SPARK_HOME without pyspark.zip, which every Python process would compile anew.

    Without it they import the installed package, and start with half of the work.
    """
    home = Path(tempfile.mkdtemp(prefix="jetspark-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home
