"""`python -m jetspark.shipper.demo`: the whole pipeline for about a minute, with a kill on the way.

Hosts write, agents ship, the server stores, Spark parses and writes a table. When the hosts are done, the
rest is waited for, the job is stopped, and Spark counts: the exit code says whether the books balance.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from jetspark.shipper.demo.agents import Start, ship
from jetspark.shipper.demo.books import Books, balance
from jetspark.shipper.demo.hosts import Host
from jetspark.shipper.demo.job import JobProcess, write_config
from jetspark.shipper.demo.png import write_plot
from jetspark.shipper.demo.view import Sample, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main", "run_demo"]

_LOGS: Final = "LOGS"
_DEAD: Final = "DEAD"
_LOOK: Final = 0.5
#: How long the rest may take when the hosts are done.
_PATIENCE: Final = 240.0


def run_demo(
    place: Path,
    *,
    seconds: float = 30.0,
    hosts: int = 5,
    rate: float = 400.0,
    seed: int = 1,
    kill: bool = True,
    agent: Start = ship,
    spark: SparkSession | None = None,
) -> Books:
    """Run it with everything below `place`; `spark` counts in the end, or else one of its own.

    Raises `RuntimeError` when the job ends by itself or hangs.
    """
    place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(Server(store_dir=place / "store"))
        js = stack.enter_context(blocking.connect(server.url)).jetstream(timeout=30)
        js.create_stream(StreamConfig(name=_LOGS, subjects=["logs.>"]))
        js.create_stream(StreamConfig(name=_DEAD, subjects=["dead.>"]))
        machines = [
            Host(
                f"web{number}",
                place / "hosts" / f"web{number}",
                rate=rate,
                rotate_after=2000,
                seed=seed + number,
            )
            for number in range(1, hosts + 1)
        ]
        config = write_config(place, url=server.url, logs=_LOGS, dead_subject="dead.lines")
        view = stack.enter_context(View())
        demo = _Demo(js, machines, config, view)
        stack.callback(demo.stop)
        for machine in machines:
            stack.callback(agent(machine, place / f"positions-{machine.name}.json", server.url).stop)
        demo.run(seconds, kill=kill)
        demo.job.stop()
        view.note("Spark counts")
        written = sum(machine.written for machine in machines)
        books = _balance(written, place, server.url, spark)
    blue, orange = (31, 119, 180), (255, 127, 14)
    write_plot(
        place / "throughput_and_lag.png",
        [(_rates(view.samples), blue), ([(s.seconds, s.lag) for s in view.samples], orange)],
    )
    return books


class _Demo:
    """Everything that moves."""

    def __init__(self, js: blocking.JetStream, hosts: Sequence[Host], config: Path, view: View) -> None:
        self._js = js
        self._hosts = hosts
        self._config = config
        self._view = view
        self._began = time.monotonic()
        self.job = JobProcess(config)

    def run(self, seconds: float, *, kill: bool) -> None:
        # Spark takes its time to start; what is written meanwhile is its first batch.
        for host in self._hosts:
            host.start()
        ends = time.monotonic() + seconds
        killed = not kill
        while time.monotonic() < ends or not killed:
            sample = self._sample()
            if not killed and sample.processed and time.monotonic() > ends - seconds / 2:
                self.job.kill()
                self._view.note("The Spark job was killed, and starts again")
                self.job = JobProcess(self._config)
                killed = True
        for host in self._hosts:
            host.stop()
        self._view.note("The hosts are done; the rest is on its way")
        deadline = time.monotonic() + _PATIENCE
        while (sample := self._sample()).processed < sample.written:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"of {sample.written} lines only {sample.processed} were processed in time"
                )

    def stop(self) -> None:
        for host in self._hosts:
            host.stop()
        if self.job.running:
            self.job.kill()

    def _sample(self) -> Sample:
        time.sleep(_LOOK)
        if not self.job.running:
            raise RuntimeError(f"the Spark job ended: {self.job.complaint()}")
        stored = self._js.get_stream(_LOGS).cached_info.state.messages
        letters = self._js.get_stream(_DEAD).cached_info.state.messages
        last = self.job.last
        sample = Sample(
            seconds=time.monotonic() - self._began,
            written=sum(host.written for host in self._hosts),
            stored=stored,
            processed=self._view.last.processed if last is None else last["reached"],
            dead_letters=letters,
        )
        self._view.show(sample)
        return sample


def _rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    pairs = itertools.pairwise(samples)
    return [
        (b.seconds, max(b.processed - a.processed, 0) / max(b.seconds - a.seconds, 1e-6)) for a, b in pairs
    ]


def _balance(written: int, place: Path, url: str, spark: SparkSession | None) -> Books:
    if spark is not None:
        return balance(spark, written, str(place / "table"), url, _DEAD)
    from jetspark.shipper.pipeline.config_file import read_config  # noqa: PLC0415 - Spark is slow to load
    from jetspark.shipper.pipeline.session import start_session  # noqa: PLC0415

    config, _ = read_config(place / "pipeline.toml")
    spark = start_session(config, place / "spark.log")
    try:
        return balance(spark, written, str(place / "table"), url, _DEAD)
    finally:
        spark.stop()


def _summary(books: Books, place: Path) -> str:
    top = ", ".join(f"{host} {count:,}" for host, count in books.hosts)
    statuses = ", ".join(f"{status} {count:,}" for status, count in books.statuses)
    verdict = (
        "the books balance" if books.balanced else f"THE BOOKS DO NOT BALANCE, {books.lost:,} lines are lost"
    )
    return "\n".join(
        (
            f"Lines written {books.written:,} = rows {books.rows:,} + dead letters {books.dead_letters:,}; "
            f"duplicates {books.duplicates:,}: {verdict}",
            f"Top hosts: {top}",
            f"Status codes: {statuses}",
            f"Table: {place / 'table'}",
            f"Plot: {place / 'throughput_and_lag.png'} (lines per second above, lag below)",
            f"Logs: {place / 'hosts'}, Spark's log: {place / 'spark.log'}",
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo from the command line. Returns the exit code: 0 when the books balance."""
    parser = argparse.ArgumentParser(prog="python -m jetspark.shipper.demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long hosts write (30)")
    parser.add_argument("--hosts", type=int, default=5, help="how many there are (5)")
    parser.add_argument("--rate", type=float, default=400.0, help="lines a second and host (400)")
    parser.add_argument("--directory", type=Path, help="where everything goes; a temporary one by default")
    given = parser.parse_args(arguments)
    place = given.directory or Path(tempfile.mkdtemp(prefix="jetspark-demo-"))
    try:
        books = run_demo(place, seconds=given.seconds, hosts=given.hosts, rate=given.rate)
    except (RuntimeError, KeyboardInterrupt) as error:
        sys.stderr.write(f"demo: {error or 'interrupted'}; everything is in {place}\n")
        return 1
    sys.stdout.write(_summary(books, place) + "\n")
    return 0 if books.balanced else 1
