"""The log pipeline: a Spark job that parses shipped lines and writes a table, and the agent before it."""

from __future__ import annotations

import dataclasses
import itertools
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import jetspark.blocking
from bench.harness import Contender, Measurement, Sample
from bench.measurements.ship import ship
from bench.processor import COLUMNS, metered, server, session
from jetspark import StreamConfig
from jetspark.logs.demo.hosts import access_line
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from jetspark.logs.job.preflight import check_server
from jetspark.logs.job.runner import Runner
from jetspark.logs.job.session import SQL_CONF

CONFIG: Final = """
name = "bench"
checkpoint = "{directory}/state"
trigger = "available-now"

[source]
stream = "{stream}"

[parse]
format = "combined"

[sink]
format = "parquet"
path = "{directory}/table"

[dead_letters]
drop = true
"""


LOGS: Final = StreamConfig(name="LOGS", subjects=["logs.>"])
LOGS_ASIDE: Final = StreamConfig(name="LOGS", subjects=["aside"])
NEW: Final = StreamConfig(name="NEW", subjects=["logs.>"])


class Bed:
    """A file of access log lines, and a stream LOGS that holds them, as the agent ships them."""

    def __init__(self, js: jetspark.blocking.JetStream, directory: Path) -> None:
        self.file = directory / "access.log"
        self._js = js
        self._directory = directory
        self._numbers = itertools.count(1)

    def ship(self, count: int) -> float:
        """Ship the file as if it were new. Returns the CPU seconds of the agent."""
        report, cpu = ship(server().url, self.file, self._place() / "positions.json")
        if report["lines"] != count:
            raise RuntimeError(f"the agent reports {report}")
        return cpu

    def run_job(self, count: int, stream: str) -> None:
        """Process the whole stream into a new table."""
        place = self._place()
        file = place / "pipeline.toml"
        file.write_text(CONFIG.format(directory=place, stream=stream))
        config, where = read_config(file, servers=server().url, default_servers=None)
        runner = Runner(Job(session(), config, where), lambda progress: None)
        runner.run(check_server(config, where), once=True)
        if runner.totals["rows"] != count:
            raise RuntimeError(f"the job wrote {runner.totals}, not {count} rows")

    @contextmanager
    def new_stream(self) -> Iterator[None]:
        """A stream NEW that gets the lines in place of LOGS."""
        self._js.update_stream(LOGS_ASIDE)
        self._js.create_stream(NEW)
        try:
            yield
        finally:
            self._js.delete_stream("NEW")
            self._js.update_stream(LOGS)

    def _place(self) -> Path:
        place = self._directory / str(next(self._numbers))
        place.mkdir()
        return place


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    for key, value in SQL_CONF.items():
        session().conf.set(key, value)
    with tempfile.TemporaryDirectory() as directory, jetspark.blocking.connect(server().url) as nc:
        js = nc.jetstream(timeout=30)
        js.create_stream(LOGS)
        bed = Bed(js, Path(directory))
        chance, now = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
        with bed.file.open("w") as file:
            file.writelines(access_line(chance, "bench", number, now) + "\n" for number in range(count))
        bed.ship(count)
        bed.run_job(count, "LOGS")  # Warm-up.
        yield bed
        js.delete_stream("LOGS")


def job(bed: Bed, count: int) -> Sample:
    return metered(count, lambda: bed.run_job(count, "LOGS"))


def file_to_table(bed: Bed, count: int) -> Sample:
    cpu = 0.0

    def work() -> None:
        nonlocal cpu
        cpu = bed.ship(count)
        bed.run_job(count, "NEW")

    with bed.new_stream():
        sample = metered(count, work)
    return {**sample, "python": sample["python"] + cpu * 1e6 / count}


PIPELINE: Final = Measurement(
    name="pipeline",
    title="The pipeline",
    text="""
    The Spark job of `jetspark pipeline run --once`, with a warm session: it reads the lines of an
    access log from a stream, parses them and writes a Parquet table, exactly once. Its time includes
    the start of the streaming query. "File to table" is the agent, then the job. CPU time is in seconds
    per million lines.
    """,
    bed=bed,
    contenders=(
        Contender("job, access log to Parquet", job, "jetspark"),
        Contender("file to table", file_to_table, "jetspark"),
    ),
    count=300_000,
    quick=500,
    rounds=3,
    columns=(dataclasses.replace(COLUMNS[0], title="lines/s"), *COLUMNS[1:]),
)
