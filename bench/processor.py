"""The cost of work with Spark: its rate, and the seconds of CPU time per million rows and process.

The processes are Spark's JVM, its Python workers, and the server.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

import jetspark.server
from bench.harness import Contender, Measure, Stopwatch, compete

CORES = 2
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}


def session() -> SparkSession:
    """A Spark session with two cores, on loopback only."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@dataclasses.dataclass(frozen=True)
class Cpu:
    """Seconds of CPU time, by process."""

    jvm: float
    python: float
    server: float


class Meter:
    """Measures ways to move `count` rows. `around` is set-up and tear-down, which is not measured."""

    def __init__(
        self,
        spark: SparkSession,
        server: jetspark.server.Server,
        count: int,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        assert server.pid is not None
        self._server = server.pid
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        self._count = count
        self._around = around

    async def compare(
        self,
        title: str,
        ways: Mapping[str, Callable[[], object]],
        arguments: Namespace,
        *,
        peer: str,
        ceiling: str,
    ) -> None:
        """Print a table of rates and a table of CPU time."""
        costs: dict[str, list[Cpu]] = {name: [] for name in ways}
        for work in ways.values():
            with self._around():
                work()  # Warm-up: the JVM loads classes and compiles code.
        await compete(
            title,
            [Contender(name, self._measured(work, costs[name])) for name, work in ways.items()],
            rounds=arguments.rounds,
            peer=peer,
            ceiling=ceiling,
        )
        print(f"\n  {'seconds of CPU for a million rows':<34}{'JVM':>12}{'Python':>12}{'nats-server':>12}")
        for name, each in costs.items():
            seconds = [
                statistics.median(getattr(cpu, field.name) for cpu in each) * 1e6 / self._count
                for field in dataclasses.fields(Cpu)
            ]
            print(f"  {name:<34}" + "".join(f"{value:>12.2f}" for value in seconds))

    def _measured(self, work: Callable[[], object], costs: list[Cpu]) -> Measure:
        """Measure the rate of `work`, and append its cost to `costs`."""

        async def measure() -> float:
            with self._around():
                before = Usage(self._jvm)
                server = _times(self._server)[0]
                with Stopwatch() as watch:
                    work()
                jvm, python = Usage(self._jvm).since(before)
                costs.append(Cpu(jvm, python, _times(self._server)[0] - server))
            return watch.rate(self._count)

        return measure


class Usage:
    """CPU time of the JVM and of the Python processes: its descendants and this one.

    Spark starts and ends workers at any time, so each process is compared with itself. The time of workers
    that have ended is in the figures of their parents.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm = _times(jvm)
        self._python = {pid: _times(pid) for pid in [os.getpid(), *_descendants(jvm)]}

    def since(self, before: Usage) -> tuple[float, float]:
        """Seconds of the JVM and of Python between two samples."""
        python = sum(own - before._python.get(pid, (0, 0))[0] for pid, (own, _) in self._python.items())
        ended = sum(own for pid, (own, _) in before._python.items() if pid not in self._python)
        return self._jvm[0] - before._jvm[0], python + max(self._ended() - before._ended() - ended, 0.0)

    def _ended(self) -> float:
        return self._jvm[1] + sum(
            children for pid, (_, children) in self._python.items() if pid != os.getpid()
        )


def _times(pid: int) -> tuple[float, float]:
    """The seconds of a process itself and of its ended children; zeros if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    user, system, children_user, children_system = map(int, fields[11:15])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + system) / tick, (children_user + children_system) / tick


def _descendants(pid: int) -> Iterator[int]:
    """All descendants of a process."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in map(int, children):
            yield child
            yield from _descendants(child)
