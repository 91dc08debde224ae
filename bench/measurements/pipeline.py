"""The log pipeline: a Spark job that parses shipped lines and writes a table, and the agent before it."""

from __future__ import annotations

import dataclasses
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

import jetspark.blocking
from bench.harness import Contender, Measurement, Sample
from bench.measurements.ship import ship
from bench.processor import COLUMNS, metered, server, session
from jetspark import StreamConfig
from jetspark.logs.demo.hosts import access_line
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.preflight import check_server
from jetspark.logs.job.runner import Runner
from jetspark.logs.job.session import LOCAL_CONF, SQL_CONF
from jetspark.logs.job.storage import without_checksums

CONFIG: Final = """
name = "bench"
checkpoint = "{directory}/state"
trigger = "available-now"

[source]
stream = "{stream}"

{parse}

[sink]
format = "parquet"
path = "{directory}/table"

[dead_letters]
drop = true
"""
COMBINED: Final = 'format = "combined"'
#: What a job has to know about an access log; twelve lines of Spark without a pipeline.
PLAIN: Final = r'^(\S+) \S+ (\S+) \[([^\]]+)\] "((\S+) (\S+) ([^"]+))" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"$'
PLAIN_COLUMNS: Final = (
    *("remote_addr", "user", "at", "request", "method", "path", "protocol", "status", "bytes"),
    *("referer", "user_agent"),
)
#: The files of the plain job: as many as the source makes tasks of a million messages.
FILES: Final = 4

LOGS: Final = StreamConfig(name="LOGS", subjects=["logs.>"])
LOGS_ASIDE: Final = StreamConfig(name="LOGS", subjects=["aside"])
NEW: Final = StreamConfig(name="NEW", subjects=["logs.>"])


class Bed:
    """A file of access log lines, and a stream LOGS that holds them, as the agent ships them."""

    def __init__(self, js: jetspark.blocking.JetStream, directory: Path) -> None:
        self.file = directory / "access.log"
        self.texts = directory / "texts"
        self.js = js
        self._directory = directory
        self._numbers = itertools.count(1)

    def ship(self, count: int) -> float:
        """Ship the file as if it were new. Returns the CPU seconds of the agent."""
        report, cpu = ship(server().url, self.file, self.place() / "positions.json")
        if report["lines"] != count:
            raise RuntimeError(f"the agent reports {report}")
        return cpu

    def job(self, stream: str, parse: str = COMBINED) -> Job:
        """A job over a stream, with a new table."""
        place = self.place()
        file = place / "pipeline.toml"
        file.write_text(CONFIG.format(directory=place, stream=stream, parse=f"[parse]\n{parse}"))
        self.config, self.where = read_config(file, servers=server().url, default_servers=None)
        return Job(session(), self.config, self.where)

    def run_job(self, count: int, stream: str, parse: str = COMBINED) -> None:
        """Process the whole stream into a new table."""
        runner = Runner(self.job(stream, parse), lambda progress: None)
        runner.run(check_server(self.config, self.where), once=True)
        if runner.totals["rows"] != count:
            raise RuntimeError(f"the job wrote {runner.totals}, not {count} rows")

    def run_plain(self, *, same_table: bool) -> None:
        """A table out of text files, with Spark alone; `same_table`: with the columns that the job adds."""
        lines = session().read.text(str(self.texts))
        groups = [
            f.regexp_extract("value", PLAIN, number).alias(name)
            for number, name in enumerate(PLAIN_COLUMNS, 1)
        ]
        rows = lines.select(*groups).withColumn("time", f.to_timestamp("at", "dd/MMM/yyyy:HH:mm:ss Z"))
        rows = rows.withColumns(
            {
                "status": f.col("status").cast("int"),
                "bytes": f.col("bytes").cast("bigint"),
                "date": f.to_date("time"),
                "host": f.lit("bench"),
            }
        ).drop("at")
        if same_table:
            number = f.monotonically_increasing_id()
            rows = rows.withColumns(
                {
                    "file": f.input_file_name(),
                    "line_offset": number,
                    "cut": f.lit(False),
                    "subject": f.lit("logs.0.bench"),
                    "stream": f.lit("LOGS"),
                    "sequence": number,
                    "received": f.timestamp_micros(number),
                }
            )
        rows.write.partitionBy("date", "host").parquet(str(self.place() / "table"))

    @contextmanager
    def new_stream(self) -> Iterator[None]:
        """A stream NEW that gets the lines in place of LOGS."""
        self.js.update_stream(LOGS_ASIDE)
        self.js.create_stream(NEW)
        try:
            yield
        finally:
            self.js.delete_stream("NEW")
            self.js.update_stream(LOGS)

    def place(self) -> Path:
        """A new directory."""
        place = self._directory / str(next(self._numbers))
        place.mkdir()
        return place


@contextmanager
def empty_bed() -> Iterator[Bed]:
    """A bed without lines, and a session that behaves as that of a job."""
    hadoop: Any = session().sparkContext._jsc.hadoopConfiguration()
    for key, value in {**SQL_CONF, **LOCAL_CONF}.items():
        if key.startswith("spark.hadoop."):
            hadoop.set(key.removeprefix("spark.hadoop."), value)
        else:
            session().conf.set(key, value)
    without_checksums(session())
    with tempfile.TemporaryDirectory() as directory, jetspark.blocking.connect(server().url) as nc:
        yield Bed(nc.jetstream(timeout=30), Path(directory))


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with empty_bed() as bed:
        js = bed.js
        js.create_stream(LOGS)
        lines = [line + "\n" for line in access_lines(count)]
        bed.file.write_text("".join(lines))
        bed.texts.mkdir()
        for number in range(FILES):
            (bed.texts / f"{number}.log").write_text("".join(lines[number::FILES]))
        bed.ship(count)
        for _ in range(2):  # Java compiles what is often run, and not at once.
            bed.run_job(count, "LOGS")
            bed.run_plain(same_table=True)
        yield bed
        js.delete_stream("LOGS")


def access_lines(count: int) -> Iterator[str]:
    chance, now = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    return (access_line(chance, "bench", number, now) for number in range(count))


def job(bed: Bed, count: int) -> Sample:
    return metered(count, lambda: bed.run_job(count, "LOGS"))


def plain(bed: Bed, count: int) -> Sample:
    return metered(count, lambda: bed.run_plain(same_table=True))


def plain_parsed(bed: Bed, count: int) -> Sample:
    return metered(count, lambda: bed.run_plain(same_table=False))


def file_to_table(bed: Bed, count: int) -> Sample:
    cpu = 0.0

    def work() -> None:
        nonlocal cpu
        cpu = bed.ship(count)
        bed.run_job(count, "NEW")

    with bed.new_stream():
        sample = metered(count, work)
    return {**sample, "python": sample["python"] + cpu * 1e6 / count}


#: The columns of the measurements of a job.
LINES_PER_SECOND: Final = (dataclasses.replace(COLUMNS[0], title="lines/s"), *COLUMNS[1:])

PIPELINE: Final = Measurement(
    name="pipeline",
    title="The pipeline",
    text="""
    The Spark job of `jetspark pipeline run --once`, with a warm session: it reads the lines of an
    access log from a stream, parses them and writes a partitioned Parquet table, exactly once. Its time
    includes the start of the streaming query. "Plain Spark" reads the same lines from text files, with
    eleven `regexp_extract`, into the same partitions, without dead letters and without a checkpoint: into
    a table with the same columns, or only those that are in a line, without file, offset, sequence and
    time of receipt. "File to table" is the agent, then the job. CPU time is in seconds per million lines;
    the server shares two cores with Spark, and the text files need none.
    """,
    bed=bed,
    contenders=(
        Contender("job, access log to Parquet", job, "jetspark"),
        Contender("plain Spark, text files to the same table", plain, "Spark"),
        Contender("plain Spark, only what is in a line", plain_parsed, "Spark"),
        Contender("file to table", file_to_table, "jetspark"),
    ),
    count=1_000_000,
    quick=500,
    rounds=3,
    max_bytes=1 << 30,
    columns=LINES_PER_SECOND,
    peer="plain Spark, text files to the same table",
)


# --- the steps


def _messages(bed: Bed) -> DataFrame:
    columns = ",".join(f"{column}={header}" for column, header in HEADER_COLUMNS.items())
    options = {"servers": server().url, "stream": "LOGS", "includeHeaders": "false"}
    return session().read.format("jetstream").options(**options, headerColumns=columns).load()


def _parsed(bed: Bed) -> DataFrame:
    bed.job("LOGS")
    return parse_lines(_messages(bed), bed.config, bed.where)


def _counted(bed: Bed) -> DataFrame:
    rows, bad = _parsed(bed), f.col("_reason").isNotNull()
    return rows.observe(Observation(), f.count(f.lit(1)).alias("lines"), f.count_if(bad).alias("bad"))


def _to_noop(frame: Callable[[Bed], DataFrame]) -> Callable[[Bed, int], Sample]:
    def run(bed: Bed, count: int) -> Sample:
        return metered(count, lambda: frame(bed).write.format("noop").mode("overwrite").save())

    return run


STEPS: Final = Measurement(
    name="pipeline-steps",
    title="The steps of the pipeline",
    text="""
    Where the CPU time of the job goes: the source alone, with the agent's five headers as columns;
    parsed; with rows and bad lines counted on the way; and the whole job, which writes the table. The
    first three write to `noop`. CPU time is in seconds per million lines.
    """,
    bed=bed,
    contenders=(
        Contender("source to noop", _to_noop(_messages), "jetspark"),
        Contender("parsed", _to_noop(_parsed), "jetspark"),
        Contender("parsed and counted", _to_noop(_counted), "jetspark"),
        Contender("the job, to Parquet", job, "jetspark"),
    ),
    count=1_000_000,
    quick=500,
    rounds=3,
    max_bytes=1 << 30,
    columns=LINES_PER_SECOND,
)
