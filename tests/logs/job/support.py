"""What the tests of the pipeline do again and again: write a file, ship lines, run, count lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jetspark import blocking
from jetspark.logs.demo.pipeline import Pipeline, Sample
from jetspark.logs.job.config import Config
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.preflight import check_server
from jetspark.logs.job.runner import BatchProgress, Runner
from jetspark.logs.toml_lines import Where
from jetspark.spark.schema import READ_SCHEMA
from tests.spark.support import Bench

RECEIVED = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

MINIMAL = """\
name = "{name}"
checkpoint = "checkpoint"

[source]
stream = "LOGS"{source}

[parse]
{parse}

[sink]
format = "{format}"
path = "table"
{sink}
[dead_letters]
drop = true
{more}
"""


def access_line(host: str, number: int, *, minute: int = 0, status: int = 200) -> str:
    """A line of an access log that tells which one it is."""
    return (
        f"10.0.0.{number % 250} - - [31/Jan/2026:12:{minute:02}:{number % 60:02} +0000] "
        f'"GET /item/{host}-{number} HTTP/1.1" {status} {number} "-" "curl/8.5"'
    )


def config_of(
    place: Path,
    parse: str,
    more: str = "",
    source: str = "",
    sink: str = "",
    *,
    format: str = "parquet",
    name: str = "test",
) -> tuple[Config, Where]:
    """A configuration that differs only in what is given."""
    file = place / "pipeline.toml"
    file.write_text(
        MINIMAL.format(parse=parse, more=more, source=source, sink=sink, format=format, name=name)
    )
    return read_config(file)


def messages_of(
    session: SparkSession, lines: Iterable[str | bytes], headers: Mapping[str, str] | None = None
) -> DataFrame:
    """Lines as they are read from a stream."""
    given = {name.lower(): value for name, value in (headers or {}).items()}
    values = [given.get(header.lower()) for header in HEADER_COLUMNS.values()]
    messages = [
        (
            *("logs.1.web1", line.encode() if isinstance(line, str) else line, "LOGS", number, RECEIVED),
            *values,
        )
        for number, line in enumerate(lines, 1)
    ]
    schema = StructType([field for field in READ_SCHEMA if field.name != "headers"])
    for column in HEADER_COLUMNS:
        schema.add(column, "string")
    return session.createDataFrame(messages, schema)


def parsed(
    session: SparkSession,
    place: Path,
    parse: str,
    lines: Iterable[str | bytes],
    *,
    more: str = "",
    source: str = "",
    headers: Mapping[str, str] | None = None,
    text_of: str | None = None,
) -> list[Row]:
    """The rows that lines become, in order. `text_of` is a column to get as text: Python has fewer times."""
    config, where = config_of(place, parse, more, source)
    rows = parse_lines(messages_of(session, lines, headers), config, where)
    if text_of is not None:
        rows = rows.withColumn(text_of, F.col(text_of).cast("string"))
    return sorted(rows.collect(), key=lambda row: row.sequence)


class Pipes:
    """Jobs over streams of the shared server."""

    def __init__(self, session: SparkSession, bench: Bench, place: Path) -> None:
        self.session = session
        self.bench = bench
        self.place = place
        self.logs = bench.stream()
        # It forgets ids at once: what is not stored twice is not so because of them.
        self.dead = bench.stream(duplicate_window=0.1, allow_direct=True)

    @property
    def js(self) -> blocking.JetStream:
        return self.bench.js

    def publish(self, lines: Iterable[str | bytes], *, host: str = "web1", **headers: str) -> None:
        """Ship lines of a host."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.js.publisher() as publisher:
            for line in lines:
                data = line.encode() if isinstance(line, str) else line
                publisher.send(f"{self.logs}.0.{host}", data, headers={"Jetspark-Host": host, **names})

    def file(self, text: str = "", **replaced: str) -> Path:
        """A file for access logs into Parquet. `text` follows; names in braces are replaced."""
        sections = {
            "source": f'[source]\nservers = "{self.bench.url}"\nstream = "{self.logs}"\n',
            "parse": '[parse]\nformat = "combined"\n',
            "sink": '[sink]\nformat = "parquet"\npath = "table"\n',
            "dead_letters": f'[dead_letters]\nsubject = "{self.dead}.lines"\n',
        } | replaced
        file = self.place / "pipeline.toml"
        file.write_text(
            'name = "test"\ncheckpoint = "checkpoint"\n' + "\n".join(sections.values()) + f"\n{text}\n"
        )
        return file

    def run(self, file: Path, **options: int) -> list[BatchProgress]:
        """Run a job until it has read what is there."""
        config, where = read_config(file)
        job = Job(self.session, config, where, **options)
        told: list[BatchProgress] = []
        Runner(job, told.append).run(check_server(config, where), once=True)
        return told

    def forget_the_last_commit(self) -> None:
        """Leave the checkpoint as a driver does that is killed when a batch is all but done."""
        for commits in (self.place / "checkpoint").glob("*/commits"):
            last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
            (commits / str(last)).unlink()
            (commits / f".{last}.crc").unlink(missing_ok=True)

    def plan_later(self, minutes: int) -> None:
        """Change the checkpoint to what it is when the clock was wrong."""
        for file in (self.place / "checkpoint").glob("*/offsets/[0-9]*"):
            moved = re.sub(
                r'(?<="batchTimestampMs":)\d+',
                lambda found: str(int(found[0]) + minutes * 60_000),
                file.read_text(),
            )
            file.write_text(moved)
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

    def table(self, name: str = "table") -> DataFrame:
        """What was written."""
        return self.session.read.parquet(str(self.place / name))

    def letters(self) -> list[Any]:
        """The dead letters, as messages."""
        stream = self.js.get_stream(self.dead)
        return list(stream.get_messages(1)) if stream.info().state.messages else []

    def counts(self) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
        """How often each line of the stream is in the table, and among the dead letters."""
        rows = Counter(
            (row.stream, row.sequence) for row in self.table().select("stream", "sequence").collect()
        )
        letters = Counter(
            (each.headers["Dead-Letter-Stream"], int(each.headers["Dead-Letter-Sequence"]))
            for each in self.letters()
        )
        return rows, letters


def assert_each_line_once(pipes: Pipes, lines: int) -> None:
    """Each line is in the table or a dead letter, once."""
    rows, letters = pipes.counts()
    assert [place for place, count in (rows + letters).items() if count > 1] == []
    assert {sequence for _, sequence in rows + letters} == set(range(1, lines + 1))


class Supervised(Pipeline):
    """A pipeline whose job is started again when it fails, as service managers do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: Why it failed: on a busy machine, Spark gives up Python processes that take 10 s to start.
        self.failures: list[str] = []

    def sample(self) -> Sample:
        if self.job is not None and self.job.failed:
            assert "Nothing is lost: the next run repeats the batch" in self.job.last_message
            self.failures.append(self.job.last_message)
            self.kill_job()
        return super().sample()
