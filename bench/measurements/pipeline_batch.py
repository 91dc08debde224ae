"""The fixed prices of the log pipeline: a batch of few lines, and a run for one line from a cold start."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from bench.harness import Column, Contender, Measurement, Sample
from bench.measurements.pipeline import (
    COMBINED,
    CONFIG,
    LOGS,
    PLAIN,
    PLAIN_COLUMNS,
    Bed,
    access_lines,
    empty_bed,
)
from bench.measurements.pipeline_formats import HEADERS
from bench.processor import server, session
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from jetspark.logs.job.preflight import check_server
from jetspark.logs.job.runner import Runner

#: Lines in a batch.
FEW: Final = 200
#: Seconds to wait for a batch.
LONG: Final = 60.0
#: Seconds after which a query that had no batch is fed again.
AGAIN: Final = 10.0

SECONDS: Final = (Column("seconds", "seconds", "{:.2f}"),)


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    session().dataSource.register(CountingSource)
    with empty_bed() as bed:
        bed.js.create_stream(LOGS)
        yield bed
        bed.js.delete_stream("LOGS")


def publish(bed: Bed, count: int) -> None:
    with bed.js.publisher() as publisher:
        for line in access_lines(count):
            publisher.send("logs.0.bench", line.encode(), headers=HEADERS)


class CountingSource(DataSource):
    """A Python source without a server: a row for each time that Spark asks."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "number bigint"

    def streamReader(self, schema: StructType) -> CountingReader:
        return CountingReader()


class CountingReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def initialOffset(self) -> dict[str, int]:
        return {"number": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {"number": next(self._numbers)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["number"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def batches(query: StreamingQuery, count: int, feed: Callable[[], None]) -> Sample:
    """The median time of `count` batches, the first half of which is warm-up."""
    found: dict[int, float] = {}
    while len(found) < count:
        before, start = len(found), time.monotonic()
        fed = 0
        while len(found) == before:
            waited = time.monotonic() - start
            if waited > LONG:
                raise TimeoutError(f"no batch for {LONG:.0f} s: {query.exception() or query.status}")
            if waited >= fed * AGAIN:  # What comes before a query knows where to start is not its concern.
                feed()
                fed += 1
            time.sleep(0.02)
            if (last := query.lastProgress) is not None and last["numInputRows"]:
                found[last["batchId"]] = last["durationMs"]["triggerExecution"] / 1e3
    return {"seconds": statistics.median(list(found.values())[count // 2 :])}


def job(bed: Bed, count: int) -> Sample:
    place = bed.place()
    file = place / "pipeline.toml"
    text = CONFIG.format(directory=place, stream="LOGS", parse=f"[parse]\n{COMBINED}")
    file.write_text(
        text.replace("available-now", "0 seconds").replace("[parse]", 'start = "latest"\n[parse]')
    )
    config, where = read_config(file, servers=server().url, default_servers=None)
    runner = Runner(Job(session(), config, where), lambda progress: None)
    running = threading.Thread(target=runner.run, args=(check_server(config, where),))
    running.start()
    try:
        while not (queries := session().streams.active):
            time.sleep(0.02)
        return batches(queries[0], count, lambda: publish(bed, FEW))
    finally:
        runner.stop.set()
        running.join()


def to_noop(frame: Callable[[], DataFrame], *, fed: bool = False) -> Callable[[Bed, int], Sample]:
    def run(bed: Bed, count: int) -> Sample:
        writer = frame().writeStream.format("noop").option("checkpointLocation", str(bed.place()))
        query = writer.start()
        try:
            return batches(query, count, lambda: publish(bed, FEW if fed else 0))
        finally:
            query.stop()

    return run


def _stream() -> DataFrame:
    reader = session().readStream.format("jetstream").option("servers", server().url)
    return reader.option("stream", "LOGS").load()


BATCH: Final = Measurement(
    name="pipeline-batch",
    title="A small batch",
    text=f"""
    The time of a batch of {FEW} lines, in a query that runs: the job of the pipeline; the same lines from
    `format("jetstream")` to `noop`; one row of a Python source that does nothing; and Spark's own source
    `rate`. The last three show what Spark takes for a batch, its checkpoint included.
    """,
    bed=bed,
    contenders=(
        Contender("job, access log to Parquet", job, "jetspark"),
        Contender("jetstream to noop", to_noop(_stream, fed=True), "jetspark"),
        Contender(
            "Python source to noop",
            to_noop(lambda: session().readStream.format("counting").load()),
            "Spark",
        ),
        Contender(
            "rate to noop",
            to_noop(
                lambda: session().readStream.format("rate-micro-batch").option("rowsPerBatch", FEW).load()
            ),
            "Spark",
        ),
    ),
    count=30,
    quick=4,
    rounds=3,
    columns=SECONDS,
)


# --- a cold start

#: A streaming query with Spark alone, from a text file to Parquet.
PLAIN_JOB: Final = """
import sys
from pyspark.sql import SparkSession, functions as f
place, pattern, *names = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.text(f"{place}/texts")
rows = lines.select(*(f.regexp_extract("value", pattern, n).alias(name) for n, name in enumerate(names, 1)))
rows = rows.withColumn("date", f.to_date(f.to_timestamp("at", "dd/MMM/yyyy:HH:mm:ss Z")))
writer = rows.writeStream.format("parquet").partitionBy("date").trigger(availableNow=True)
writer.option("checkpointLocation", f"{place}/state").start(f"{place}/table").awaitTermination()
"""


@contextmanager
def cold_bed(size: int, count: int) -> Iterator[Bed]:
    with bed(size, count) as made:
        publish(made, 1)
        yield made


def cold(bed: Bed, count: int) -> Sample:
    place = bed.place()
    file = place / "pipeline.toml"
    file.write_text(CONFIG.format(directory=place, stream="LOGS", parse=f"[parse]\n{COMBINED}"))
    return timed("-m", "jetspark", "pipeline", "run", str(file), "--once", "--json")


def cold_plain(bed: Bed, count: int) -> Sample:
    place = bed.place()
    (place / "texts").mkdir()
    (place / "texts/access.log").write_text(next(access_lines(1)) + "\n")
    return timed("-c", PLAIN_JOB, str(place), PLAIN, *PLAIN_COLUMNS)


def timed(*arguments: str) -> Sample:
    """A Python that starts as in a shell: without the home of Spark that this process chose."""
    env = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env={**env, "NATS_URL": server().url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return {"seconds": time.perf_counter() - start}


START: Final = Measurement(
    name="pipeline-start",
    title="A cold start",
    text="""
    `jetspark pipeline run --once` for a stream with one line, from the start of the process to its end:
    it starts Java and Spark, plans, runs one batch, and stops. "Plain Spark" is a streaming query over a
    text file with one line, to Parquet.
    """,
    bed=cold_bed,
    contenders=(
        Contender("one line to Parquet", cold, "jetspark"),
        Contender("plain Spark, one line to Parquet", cold_plain, "Spark"),
    ),
    count=1,
    quick=1,
    rounds=3,
    columns=SECONDS,
)
