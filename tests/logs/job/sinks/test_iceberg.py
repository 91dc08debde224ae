"""Iceberg tables: what a batch adds, what a repeated one does not, and compaction between batches.

Most of it needs no Spark: the files of a batch are written by pyarrow.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from pyiceberg.table import StaticTable, Table
from pyspark.sql import DataFrame, SparkSession

from jetspark.errors import UsageError
from jetspark.logs.job.config import Config
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.sinks.iceberg import IcebergSink
from jetspark.logs.job.sinks.iceberg.compaction import replace_files, small_files, write_merged
from jetspark.logs.job.sinks.iceberg.table import load_table, note_version
from jetspark.logs.job.sinks.iceberg.writer import IcebergWriter
from jetspark.logs.toml_lines import Where
from tests.cli.conftest import cli, no_settings
from tests.cli.support import Cli
from tests.logs.job.support import Pipes, access_line, config_of, messages_of

__all__ = ["cli", "no_settings"]

PARSE = 'format = "json"\ntime = "at"\nfields = { at = "string", app = "string", n = "bigint" }'
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def settings(place: Path, by: str = '["date", "app"]', name: str = "test") -> tuple[Config, Where]:
    more = 'table = "logs.test"\n'  # Whatever the name of the job is.
    return config_of(place, PARSE, format="iceberg", sink=f"{more}partition_by = {by}", name=name)


class Overtaken(IcebergWriter):
    """Something else happens, once, between its look at the table and its commit."""

    def __init__(
        self, sink: IcebergSink, config: Config, where: Where, meanwhile: list[Callable[[], object]]
    ) -> None:
        super().__init__(sink, config, where)
        self._meanwhile = meanwhile

    def evolved(self, schema: pyarrow.Schema) -> Table:
        table = super().evolved(schema)
        if self._meanwhile:
            self._meanwhile.pop()()
        return table


class Killed(IcebergWriter):
    """Is killed before it commits."""

    def commit(self, files: list[str], owner: str, batch: int) -> None:
        raise InterruptedError


def writer_of(
    place: Path, name: str = "test", meanwhile: list[Callable[[], object]] | None = None
) -> IcebergWriter:
    config, where = settings(place, name=name)
    assert isinstance(config.sink, IcebergSink)
    writer = Overtaken(config.sink, config, where, [] if meanwhile is None else meanwhile)
    writer._table = load_table(config.sink, config)
    return writer


def table_of(place: Path) -> Table:
    return StaticTable.from_metadata(str(place / "table"))


def numbers_in(place: Path) -> list[int]:
    return sorted(table_of(place).scan(selected_fields=("n",)).to_arrow()["n"].to_pylist())


def files_of(place: Path, numbers: range, **more: pyarrow.Array) -> list[str]:
    """Files of two partitions, as Spark would write them."""
    files = []
    for index, app in enumerate(("web", None)):
        own = [n for n in numbers if n % 2 == index]
        count = len(own)
        times = pyarrow.array([NOW + timedelta(seconds=n) for n in own], pyarrow.timestamp("us", "UTC"))
        columns = {
            "time": times,
            "app": pyarrow.array([app] * count, pyarrow.string()),
            "n": pyarrow.array(own, pyarrow.int64()),
            "date": pyarrow.array([date(2026, 1, 31)] * count),
            **{name: values.slice(0, count) for name, values in more.items()},
        }
        file = place / f"table/data/one/{numbers.start}/app={app}/part-{index}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        files.append(str(file))
    return files


def test_a_batch_is_committed_once_though_another_writer_has_not_seen_it(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    writer.commit(files_of(tmp_path, range(4)), "one", 0)
    stale, other = writer_of(tmp_path), writer_of(tmp_path, "other")
    writer.commit(files_of(tmp_path, range(4, 8)), "one", 1)
    with pytest.raises(UsageError, match="has a batch 1 of this checkpoint"):
        stale.commit(files_of(tmp_path, range(4, 8)), "one", 1)
    with pytest.raises(UsageError, match="has rows of job test with another checkpoint"):
        stale.commit(files_of(tmp_path, range(4, 8)), "two", 0)
    other.commit(files_of(tmp_path, range(8, 12)), "two", 0)
    writer.commit(files_of(tmp_path, range(12, 16)), "one", 2)
    assert numbers_in(tmp_path) == list(range(16))
    snapshot = table_of(tmp_path).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["jetspark.checkpoint"], snapshot.summary["jetspark.batch"]) == ("one", "2")


@pytest.mark.parametrize(("owner", "batch"), [("two", 0), ("one", 1)])
def test_a_commit_that_meets_another_one_is_repeated_unless_that_was_its_batch(
    tmp_path: Path, owner: str, batch: int
) -> None:
    meanwhile: list[Callable[[], object]] = []
    writer = writer_of(tmp_path, meanwhile=meanwhile)
    writer.commit(files_of(tmp_path, range(4)), "one", 0)
    other, files, theirs = (
        writer_of(tmp_path, "test" if owner == "one" else "other"),
        files_of(tmp_path, range(4, 8)),
        files_of(tmp_path, range(8, 12)),
    )
    meanwhile.append(lambda: other.commit(theirs, owner, batch))
    if owner == "one":
        with pytest.raises(UsageError, match="has a batch 1 of this checkpoint"):
            writer.commit(files, "one", 1)
        assert numbers_in(tmp_path) == [*range(4), *range(8, 12)]
    else:
        writer.commit(files, "one", 1)
        assert numbers_in(tmp_path) == list(range(12))


def test_compaction_merges_the_files_of_a_partition_and_forgets_no_batch(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for batch in range(3):
        writer.commit(files_of(tmp_path, range(4 * batch, 4 * batch + 4)), "one", batch)
    config, where = settings(tmp_path)
    kept = config.sink.compact(config, where, timedelta(days=1))
    assert kept == (6, 2, 0)
    assert numbers_in(tmp_path) == list(range(12))
    # The writer has not seen the compaction.
    writer.commit(files_of(tmp_path, range(12, 16)), "one", 3)
    removed = config.sink.compact(config, where, timedelta(0))
    assert removed == (4, 2, 10)
    assert numbers_in(tmp_path) == list(range(16))
    assert len(list(tmp_path.glob("table/data/**/*.parquet"))) == 2
    assert len(table_of(tmp_path).snapshots()) == 1
    with pytest.raises(UsageError, match="has a batch 3 of this checkpoint"):
        writer.commit(files_of(tmp_path, range(12, 16)), "one", 3)
    assert config.sink.compact(config, where, timedelta(0)).merged == 0

    found = table_of(tmp_path).scan().to_arrow()
    assert found.schema.field("time").type == pyarrow.timestamp("us", "UTC")
    query = "SELECT app, count(*), min(time) FROM found WHERE date = '2026-01-31' GROUP BY app ORDER BY app"
    counts = duckdb.sql(query)
    assert counts is not None
    assert counts.fetchall() == [("web", 8, NOW), (None, 8, NOW + timedelta(seconds=1))]
    bounds = [task.file.lower_bounds for task in table_of(tmp_path).scan("n < 1").plan_files()]
    assert len(bounds) == 1  # By statistics.


def test_a_batch_may_be_added_while_files_are_merged_and_two_compactions_merge_them_once(
    tmp_path: Path,
) -> None:
    writer = writer_of(tmp_path)
    for batch in range(2):
        writer.commit(files_of(tmp_path, range(4 * batch, 4 * batch + 4)), "one", batch)
    config, where = settings(tmp_path)
    assert isinstance(config.sink, IcebergSink)
    table = load_table(config.sink, config)
    assert table is not None

    written = [(files, write_merged(table, files)) for files in small_files(table)]
    writer.commit(files_of(tmp_path, range(8, 12)), "one", 2)
    assert [replace_files(table, files, path) for files, path in written] == [True, True]
    note_version(config.sink, table)
    assert numbers_in(tmp_path) == list(range(12))

    written = [(files, write_merged(table, files)) for files in small_files(table)]
    assert config.sink.compact(config, where, timedelta(days=2)) == (4, 2, 0)
    assert [replace_files(table, files, path) for files, path in written] == [False, False]
    assert [os.path.exists(path) for _, path in written] == [False, False]
    assert numbers_in(tmp_path) == list(range(12))


def test_compaction_deletes_what_killed_processes_left_over_when_it_is_old(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    (kept, _), (new, old) = files_of(tmp_path, range(2)), files_of(tmp_path, range(2, 4))
    writer.commit([kept], "one", 0)
    (tmp_path / "table/data/one/empty").mkdir()
    for file in (kept, old, tmp_path / "table/data/one/empty"):
        os.utime(file, (0, 0))
    config, where = settings(tmp_path)
    assert config.sink.compact(config, where, timedelta(hours=1)) == (0, 0, 0)
    assert config.sink.compact(config, where, timedelta(days=1)) == (0, 0, 1)
    assert [os.path.exists(each) for each in (kept, new, old)] == [True, True, False]
    assert not (tmp_path / "table/data/one/empty").exists()


def test_the_name_of_a_directory_may_contain_what_urls_may_not(tmp_path: Path) -> None:
    place = tmp_path / "a b#[1] {é}"
    place.mkdir()
    writer = writer_of(place)
    writer.commit(files_of(place, range(4)), "one", 0)
    writer_of(place).commit(files_of(place, range(4, 8)), "one", 1)
    config, where = settings(place)
    assert config.sink.compact(config, where, timedelta(0)) == (4, 2, 4)
    assert numbers_in(place) == list(range(8))
    assert sorted(each.name for each in tmp_path.iterdir()) == [place.name]
    other = tmp_path / "100%41"
    other.mkdir()
    with pytest.raises(UsageError, match=r"sink\.path: '.*/100%41/table' contains %, "):
        settings(other)


def test_two_jobs_may_create_the_table_at_once(tmp_path: Path) -> None:
    one, two = writer_of(tmp_path), writer_of(tmp_path, "other")
    one.commit(files_of(tmp_path, range(4)), "one", 0)
    two.commit(files_of(tmp_path, range(4, 8)), "two", 0)
    assert numbers_in(tmp_path) == list(range(8))


def test_columns_may_be_added_and_left_out_but_not_change_their_type(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    writer.commit(files_of(tmp_path, range(2)), "one", 0)
    writer.commit(files_of(tmp_path, range(2, 4), twice=pyarrow.array([7, 7])), "one", 1)
    writer.commit(files_of(tmp_path, range(4, 6)), "one", 2)
    config, where = settings(tmp_path)
    config.sink.compact(config, where, timedelta(0))
    found = table_of(tmp_path).scan(selected_fields=("n", "twice")).to_arrow().sort_by("n")
    assert found["twice"].to_pylist() == [None, None, 7, 7, None, None]
    with pytest.raises(UsageError, match=r"sink\.path: .*/table has a column of another type: .*twice"):
        writer.commit(files_of(tmp_path, range(6, 8), twice=pyarrow.array(["a", "b"])), "one", 3)


def test_the_command_line_compacts_beside_a_writer(cli: Cli, tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for batch in range(2):
        writer.commit(files_of(tmp_path, range(4 * batch, 4 * batch + 4)), "one", batch)
    file = tmp_path / "pipeline.toml"
    told = cli("pipeline", "compact", file, "--keep", "1h").out
    assert told == "4 files merged into 2, 0 files of old versions deleted\n"
    assert cli.json("pipeline", "compact", file, "--keep", "0s") == {"merged": 0, "written": 0, "deleted": 4}
    assert numbers_in(tmp_path) == list(range(8))
    config_of(tmp_path, PARSE)
    refused = cli("pipeline", "compact", file, code=2)
    assert "sink.format: parquet cannot be compacted" in refused.err


def test_the_catalog_of_a_remote_table_must_be_given(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    settings(tmp_path)
    file.write_text(file.read_text().replace('path = "table"', 'path = "s3://logs/table"'))
    from jetspark.logs.job.config_file import read_config

    with pytest.raises(UsageError, match=r"sink\.catalog: is missing"):
        read_config(file)
    file.write_text(
        file.read_text().replace('table = "logs.test"', 'table = "access"\ncatalog = { type = "rest" }')
    )
    with pytest.raises(UsageError, match=r"sink\.table: 'access' must be like logs\.access"):
        read_config(file)
    config, where = settings(tmp_path)
    with pytest.raises(UsageError, match="is not an Iceberg table yet"):
        config.sink.compact(config, where, timedelta(0))


def rows_of(session: SparkSession, place: Path, numbers: range) -> DataFrame:
    config, where = settings(place)
    apps = ["web", None, "a b/c", ""]
    lines = [
        json.dumps({"at": f"2026-01-{30 + n % 2}T12:00:00.25Z", "app": apps[n % 4], "n": n}) for n in numbers
    ]
    return parse_lines(messages_of(session, lines), config, where)


def test_spark_writes_the_files_and_a_lost_attempt_is_removed(session: SparkSession, tmp_path: Path) -> None:
    config, where = settings(tmp_path)
    assert isinstance(config.sink, IcebergSink)
    writer = IcebergWriter(config.sink, config, where)
    writer.prepare(session, None)
    writer.write(rows_of(session, tmp_path, range(8)), 0, owner="one", since=None)
    killed = Killed(config.sink, config, where)
    killed.prepare(session, "one")
    with pytest.raises(InterruptedError):
        killed.write(rows_of(session, tmp_path, range(8, 16)), 1, owner="one", since=None)
    left = list((tmp_path / "table/data/one").glob("1-*"))
    assert [any(each.rglob("*.parquet")) for each in left] == [True]
    assert numbers_in(tmp_path) == list(range(8))
    writer = IcebergWriter(config.sink, config, where)
    hint = tmp_path / "table/metadata/version-hint.text"
    newest = hint.read_text()
    hint.write_text("older")  # The job was killed after its commit.
    writer.prepare(session, "one")
    assert hint.read_text() == newest
    for batch in (0, 1, 1):
        writer.write(
            rows_of(session, tmp_path, range(8 * batch, 8 * batch + 8)), batch, owner="one", since=NOW
        )
    assert numbers_in(tmp_path) == list(range(16))
    assert not left[0].exists()
    assert list((tmp_path / "table").rglob("*.crc")) == []
    with pytest.raises(
        UsageError, match=r"checkpoint: .*/table has a batch 1 of this checkpoint: it is older"
    ):
        writer.write(rows_of(session, tmp_path, range(8)), 1, owner="one", since=None)
    with pytest.raises(
        UsageError, match=r"sink\.path: .*/table has rows of job test with another checkpoint"
    ):
        IcebergWriter(config.sink, config, where).prepare(session, None)
    found = table_of(tmp_path).scan("date = '2026-01-30'").to_arrow()
    assert {(app or "")[:4]: count for app, count in Counter(found["app"].to_pylist()).items()} == {
        "web": 4,
        "sha-": 4,
    }
    config, where = settings(tmp_path, by="[]")
    assert isinstance(config.sink, IcebergSink)
    with pytest.raises(UsageError, match=r'was created with partition_by = \["date", "app"\]'):
        IcebergWriter(config.sink, config, where).prepare(session, "one")


def test_a_spark_without_the_jar_is_refused(session: SparkSession, tmp_path: Path) -> None:
    config, where = config_of(tmp_path, PARSE, format="iceberg", sink='writer = "spark"\ntable = "lake.a.b"')
    writer = config.sink.open(config, where, cast(Any, None))
    with pytest.raises(
        UsageError,
        match=r"sink\.writer: this Spark does not have the class org\.apache\.iceberg\.spark\.SparkCatalog",
    ) as refused:
        writer.prepare(session, None)
    assert "org.apache.iceberg:iceberg-spark-runtime" in str(refused.value.hint)
    with pytest.raises(UsageError, match=r"sink\.table: is missing"):
        config_of(tmp_path, PARSE, format="iceberg", sink='writer = "spark"')


def test_a_job_adds_each_line_once_though_its_last_commit_is_lost(pipes: Pipes) -> None:
    file = pipes.file(sink='[sink]\nformat = "iceberg"\npath = "table"\n')
    pipes.publish([access_line("web1", n) for n in range(20)])
    pipes.publish(["no access line"])
    assert [(each.rows, each.dead_letters) for each in pipes.run(file)] == [(20, 1)]
    pipes.forget_the_last_commit()
    assert [(each.rows, each.dead_letters) for each in pipes.run(file)] == [(20, 1)]
    found = table_of(pipes.place).scan().to_arrow()
    assert Counter(found["sequence"].to_pylist()) == Counter(range(1, 21))
    assert len(pipes.letters()) == 1
    written = [pipes.place / "table/catalog.db", *(pipes.place / "table/metadata").iterdir()]
    assert [each for each in written if each.stat().st_mode & 0o007] == []
