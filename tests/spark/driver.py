"""A Spark driver in processes of its own, for tests that kill it: `python -m tests.spark.driver <job>`.

It runs one query from a stream to Parquet, or to another stream, until it is killed or the query ends.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame

from tests.spark.processes import Program
from tests.spark.support import SPARK_CONF, to_parquet
from tests.support.waiting import wait_until

__all__ = ["Driver"]


class Driver:
    """The driver as the test sees it. It stands by, with a session and a plan, until it is told to `go`."""

    def __init__(
        self, place: Path, options: dict[str, str], *, name: str, target: dict[str, str] | None = None
    ) -> None:
        """Start it; what it writes and keeps is in `place`, as `to_parquet` has it.

        With `target`, the options of a sink, it writes to a stream what `done` makes of the rows.
        """
        directory = place / name
        directory.mkdir()
        self._go = directory / "go"
        self._running = directory / "running"
        job = {"place": str(place), "options": options, "target": target}
        job |= {"go": str(self._go), "running": str(self._running)}
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


def done(frame: DataFrame) -> DataFrame:
    """What a query from stream to stream makes of its rows."""
    return frame.selectExpr("concat('done ', cast(data as string)) as data")


def main(job: dict[str, Any]) -> None:
    """Run the query."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("driver")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    frame = builder.getOrCreate().readStream.format("jetstream").options(**job["options"]).load()
    while not Path(job["go"]).exists():
        time.sleep(0.01)
    place, trigger = Path(job["place"]), {"processingTime": "0 seconds"}
    if job["target"] is None:
        query = to_parquet(frame, place, **trigger)
    else:
        writer = done(frame).writeStream.format("jetstream").options(**job["target"])
        query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(**trigger).start()
    Path(job["running"]).touch()
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
