"""Tables and checkpoints: whose they are, and what an earlier attempt at a batch leaves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from jetspark.errors import UsageError
from jetspark.logs.job.checkpoint import Checkpoint, lock_checkpoint
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.sinks.files import FileSink, TableWriter
from tests.logs.job.support import config_of, messages_of

PARSE = 'format = "json"\ntime = "at"\nfields = { at = "string", app = "string" }'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory whose name looks like a pattern."""
    place = tmp_path / "logs[1]{a}*"
    place.mkdir()
    return place


def table_of(place: Path, sink: str = 'partition_by = ["date", "app"]') -> TableWriter:
    config, where = config_of(place, PARSE, sink=sink)
    assert isinstance(config.sink, FileSink)
    return TableWriter(config.sink, config, where)


def rows_of(place: Path) -> int:
    return int(pyarrow.dataset.dataset(str(place / "table"), partitioning="hive").count_rows())


def test_a_name_that_ends_with_a_line_break_is_hashed(session: SparkSession, place: Path) -> None:
    config, where = config_of(place, PARSE, sink='partition_by = ["date", "app"]')
    ends = ["", "\n", "\r\n", "\r", "\x85", "\u2028", "\u2029"]
    lines = [json.dumps({"at": "2026-01-31T12:00:00Z", "app": f"web1{end}"}) for end in ends]
    table = table_of(place)
    table.prepare(session, None)
    table.write(parse_lines(messages_of(session, lines), config, where), 0, owner="first", since=None)
    apps = sorted(each.name for each in (place / "table/date=2026-01-31").iterdir())
    assert [name[:8] for name in apps] == ["app=sha-"] * 6 + ["app=web1"]


def test_a_table_belongs_to_the_checkpoint_that_began_it(session: SparkSession, place: Path) -> None:
    config, where = config_of(place, PARSE, sink='partition_by = ["date", "app"]')
    lines = [
        '{"at": "2026-01-30T12:00:00Z", "app": "one"}',
        '{"at": "2026-01-31T12:00:00Z", "app": "__HIVE_DEFAULT_PARTITION__"}',
        '{"at": "2026-01-31T12:00:00Z"}',
    ]
    rows = parse_lines(messages_of(session, lines), config, where)
    table = table_of(place)
    table.prepare(session, None)
    table.write(rows, 0, owner="first", since=None)
    table.write(rows, 10, owner="first", since=None)
    assert json.loads((place / "table/_jetspark").read_text()) == {
        "id": "first",
        "format": "parquet",
        "partition_by": ["date", "app"],
    }
    # What says it is null, and what is, are in places of their own.
    apps = sorted(each.name for each in (place / "table/date=2026-01-31").iterdir())
    assert (apps[0], apps[1][:8]) == ("app=__HIVE_DEFAULT_PARTITION__", "app=sha-")
    assert rows_of(place) == 6
    # The next job of the same checkpoint removes what a killed one had prepared, or had written of a batch.
    staging = place / "table/.spark-staging-1"
    staging.mkdir()
    again = table_of(place)
    again.prepare(session, "first")
    assert not staging.exists()
    again.forget(1)
    assert rows_of(place) == 6
    again.forget(0)
    assert rows_of(place) == 3
    assert {each.name for each in place.glob("table/*/*/batch=*")} == {"batch=10"}
    # Another checkpoint would write its own batch 10 over this one.
    told = r"pipeline\.toml, line \d+, sink\.path: .*/table "
    for owner in (None, "second"):
        with pytest.raises(
            UsageError, match=told + "belongs to another checkpoint.* Name a new directory, or"
        ):
            table_of(place).prepare(session, owner)
    (place / "table").rename(place / "theirs")
    late = table_of(place)
    late.prepare(session, "second")
    (place / "theirs").rename(place / "table")
    with pytest.raises(UsageError, match=told + "belongs to another checkpoint"):
        late.write(rows, 0, owner="second", since=None)
    with pytest.raises(UsageError, match=told + r'was created with partition_by = \["date", "app"\]'):
        table_of(place, sink='partition_by = ["app"]').prepare(session, "first")
    (place / "table/_jetspark").unlink()
    with pytest.raises(UsageError, match=told + "contains files that this job did not write"):
        table_of(place).prepare(session, "first")


def test_a_checkpoint_knows_its_query_and_what_was_planned(session: SparkSession, place: Path) -> None:
    checkpoint = Checkpoint(session, str(place / "rows"))
    assert (checkpoint.id(), checkpoint.last_planned()) == (None, -1)
    offsets = place / "rows/offsets"
    offsets.mkdir(parents=True)
    (place / "rows/metadata").write_text('{"id":"an-id"}')
    for name in ("8", "9", "10", ".10.crc", ".11.tmp"):
        (offsets / name).write_text(
            'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1769860800000,"conf":{}}\n{}'
        )
    (offsets / ".10.crc").unlink()
    assert (checkpoint.id(), checkpoint.last_planned()) == ("an-id", 10)
    assert checkpoint.planned_at(10) == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_checkpoint_has_one_job_at_a_time(tmp_path: Path) -> None:
    config, where = config_of(tmp_path, PARSE)
    with lock_checkpoint(config, where):  # noqa: SIM117
        with (
            pytest.raises(UsageError, match=r"line 2, checkpoint: another job uses it"),
            lock_checkpoint(config, where),
        ):
            pass
    with lock_checkpoint(config, where):
        pass
