"""A SPARK_HOME whose Python processes start in half the time.

pip puts pyspark there twice: as a package, and as a zip file that Spark has its Python processes import. What
comes out of a zip file is compiled anew each time, and a query starts half a dozen processes. Without the zip
file they import the package.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pyspark

__all__ = ["use_package"]


def use_package() -> None:
    """Let the Spark that is started next use the package. Nothing changes where SPARK_HOME is set.

    For Spark on this machine: executors elsewhere have a home of their own.
    """
    package = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or not (package / "jars").is_dir():
        return
    home = Path(tempfile.mkdtemp(prefix="jetspark-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars", "sbin"):
        if (package / name).is_dir():
            (home / name).symlink_to(package / name)
    os.environ["SPARK_HOME"] = str(home)
