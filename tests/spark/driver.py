"""A Spark driver in processes of its own, for tests that kill it: `python -m tests.spark.driver <job>`.

It runs one query from a stream to Parquet, until it is killed or the query ends.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.spark.processes import QUICK_JAVA, Program
from tests.spark.support import SPARK_CONF, to_parquet
from tests.support.waiting import wait_until

__all__ = ["Driver"]


class Driver:
    """The driver as the test sees it. It stands by, with a session and a plan, until it is told to `go`."""

    def __init__(self, place: Path, options: dict[str, str], *, name: str) -> None:
        """Start it; what it writes and keeps is in `place`, as `to_parquet` has it."""
        directory = place / name
        directory.mkdir()
        self._go = directory / "go"
        self._running = directory / "running"
        job = {"place": str(place), "options": options, "go": str(self._go), "running": str(self._running)}
        command = [sys.executable, "-m", "tests.spark.driver", json.dumps(job)]
        self.program = Program(command, directory / "driver.log")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.close()

    def go(self) -> None:
        """Start the query, and wait until it is started."""
        self._go.touch()

        def running() -> bool:
            self.program.check()
            return self._running.exists()

        wait_until(running, "the query to be started", 120)

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does."""
        self.program.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.program.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL for Python and for Java. The Python workers of a JVM that is gone end by themselves."""
        self.program.kill()


def main(job: dict[str, Any]) -> None:
    """Run the query."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("driver")
    for key, value in (SPARK_CONF | {"spark.driver.extraJavaOptions": QUICK_JAVA}).items():
        builder = builder.config(key, value)
    frame = builder.getOrCreate().readStream.format("jetstream").options(**job["options"]).load()
    while not Path(job["go"]).exists():
        time.sleep(0.01)
    query = to_parquet(frame, Path(job["place"]), processingTime="0 seconds")
    Path(job["running"]).touch()
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
