"""Delta tables: what a batch adds, what a repeated one does not, and compaction between batches."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.logs.job.config import Config, SinkWriter
from jetspark.logs.job.parse.rows import parse_lines
from jetspark.logs.job.sinks.delta import DeltaSink, DeltaWriter, _added, _load, _statistics
from jetspark.logs.toml_lines import Where
from tests.logs.job.support import Pipes, access_line, config_of, messages_of

PARSE = 'format = "json"\ntime = "at"\nfields = { at = "string", app = "string", n = "bigint" }'
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def settings(
    place: Path, more: str = "", by: str = '["date", "app"]', name: str = "test"
) -> tuple[Config, Where]:
    return config_of(place, PARSE, more, format="delta", sink=f"partition_by = {by}", name=name)


class Overtaken(DeltaWriter):
    """Something else happens, once, between its look at the table and its commit."""

    def __init__(
        self, sink: DeltaSink, config: Config, where: Where, meanwhile: list[Callable[[], object]]
    ) -> None:
        super().__init__(sink, config, where)
        self._meanwhile = meanwhile

    def evolved(self, wanted: StructType) -> DeltaTable:
        table = super().evolved(wanted)
        if self._meanwhile:
            self._meanwhile.pop()()
        return table


class Killed(DeltaWriter):
    """Is killed before it commits."""

    def commit(self, actions: list[Any], schema: StructType, owner: str, batch: int) -> None:
        raise InterruptedError


def writer_of(
    session: SparkSession,
    place: Path,
    more: str = "",
    owner: str | None = None,
    *,
    name: str = "test",
    kind: type[DeltaWriter] = DeltaWriter,
) -> SinkWriter:
    config, where = settings(place, more, name=name)
    assert isinstance(config.sink, DeltaSink)
    writer = kind(config.sink, config, where)
    writer.prepare(session, owner)
    return writer


def rows_of(session: SparkSession, place: Path, numbers: range, more: str = "") -> DataFrame:
    config, where = settings(place, more)
    apps = ["web", None, "a b/c", ""]
    lines = [
        json.dumps({"at": f"2026-01-{30 + n % 2}T12:00:00.25Z", "app": apps[n % 4], "n": n}) for n in numbers
    ]
    return parse_lines(messages_of(session, lines), config, where)


def numbers_in(place: Path) -> list[int]:
    return sorted(DeltaTable(place / "table").to_pyarrow_table(columns=["n"])["n"].to_pylist())


def test_statistics_of_a_file_come_from_its_footer(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    times = pyarrow.array([NOW, None, NOW + timedelta(microseconds=1)], pyarrow.timestamp("us", "UTC"))
    table = pyarrow.table(
        {
            "time": times,
            "n": [3, 1, 2],
            "text": ["b" * 40, "a" * 40, None],
            "day": [date(2026, 1, 31), None, None],
            "part": [0.5, float("inf"), 1.0],
            "flag": [True, False, True],
            "none": pyarrow.array([None] * 3, pyarrow.string()),
            "many": [[1], [2], [3]],
        }
    )
    pyarrow.parquet.write_table(table, file, row_group_size=2)
    assert _statistics(pyarrow.parquet.read_metadata(file)) == {
        "numRecords": 3,
        "minValues": {
            "time": "2026-01-31T00:00:00.000000Z",
            "n": 1,
            "text": "a" * 32,
            "day": "2026-01-31",
        },
        "maxValues": {
            "time": "2026-01-31T00:00:00.000001Z",
            "n": 3,
            "text": "b" * 32 + "\U0010ffff",
            "day": "2026-01-31",
        },
        "nullCount": {"time": 1, "n": 0, "text": 1, "day": 2, "part": 0, "flag": 0, "none": 3},
    }


def committer(
    place: Path, name: str = "test", meanwhile: list[Callable[[], object]] | None = None
) -> Callable[[range, int], None]:
    """Commits the files of a batch, as if Spark had written them."""
    config, where = settings(place, by="[]", name=name)
    sink = config.sink
    assert isinstance(sink, DeltaSink)
    writer = Overtaken(sink, config, where, [] if meanwhile is None else meanwhile)
    writer._table = _load(sink, where)

    def commit(numbers: range, batch: int) -> None:
        directory = f"data/{name}/{batch}-{secrets.token_hex(4)}"
        (place / "table" / directory).mkdir(parents=True)
        rows = pyarrow.table({"n": list(numbers)})
        pyarrow.parquet.write_table(rows, place / "table" / directory / "part-0.parquet")
        writer.commit(_added(sink, directory), StructType().add("n", "long"), name, batch)

    return commit


def test_files_of_tasks_that_spark_gave_up_are_not_added(tmp_path: Path) -> None:
    config, _ = settings(tmp_path, by="[]")
    assert isinstance(config.sink, DeltaSink)
    directory = tmp_path / "table/data/one/0-a"
    rows = pyarrow.table({"n": [1]})
    for name in ("part-0.parquet", "_temporary/0/part-1.parquet", ".part-0.parquet"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(rows, directory / name)
    pyarrow.parquet.write_table(rows.slice(1), directory / "part-2.parquet")
    assert [each.path for each in _added(config.sink, "data/one/0-a")] == ["data/one/0-a/part-0.parquet"]


def test_a_commit_that_meets_another_one_is_repeated_unless_that_was_its_batch(tmp_path: Path) -> None:
    meanwhile: list[Callable[[], object]] = []
    commit, other = committer(tmp_path, meanwhile=meanwhile), committer(tmp_path, "other")
    commit(range(2), 0)
    other(range(2, 4), 0)
    config, where = settings(tmp_path, by="[]")
    more = Field("more", PrimitiveType("long"))
    meanwhile.append(lambda: DeltaTable(tmp_path / "table").alter.add_columns(more))
    commit(range(4, 6), 1)
    meanwhile.append(lambda: config.sink.compact(config, where, timedelta(0)))
    commit(range(6, 8), 2)
    meanwhile.append(lambda: other(range(8, 10), 1))
    commit(range(10, 12), 3)
    assert numbers_in(tmp_path) == list(range(12))
    twin = committer(tmp_path)
    meanwhile.append(lambda: twin(range(12, 14), 4))
    with pytest.raises(UsageError, match=r"checkpoint: .*/table has a batch 4 of this checkpoint"):
        commit(range(12, 14), 4)
    assert numbers_in(tmp_path) == list(range(14))


def test_the_name_of_a_directory_may_contain_what_urls_may_not(tmp_path: Path) -> None:
    place = tmp_path / "a b#[1] {é}"
    place.mkdir()
    committer(place)(range(2), 0)
    committer(place)(range(2, 4), 1)
    config, where = settings(place, by="[]")
    assert config.sink.compact(config, where, timedelta(0)) == (2, 1, 2)
    assert numbers_in(place) == list(range(4))
    assert sorted(each.name for each in tmp_path.iterdir()) == [place.name]


def test_compaction_deletes_what_killed_processes_left_over_when_it_is_old(tmp_path: Path) -> None:
    committer(tmp_path)(range(2), 0)
    (kept,) = (tmp_path / "table").rglob("part-0.parquet")
    old, new = (kept.with_name(f"{name}.parquet") for name in ("old", "new"))
    for file in (old, new):
        shutil.copy(kept, file)
    for file in (kept, old):
        os.utime(file, (0, 0))
    config, where = settings(tmp_path, by="[]")
    assert config.sink.compact(config, where, timedelta(hours=1)) == (0, 0, 0)
    assert config.sink.compact(config, where, timedelta(days=1)) == (0, 0, 1)
    assert [each.exists() for each in (kept, old, new)] == [True, False, True]


def test_a_spark_without_the_jar_is_refused(session: SparkSession, tmp_path: Path) -> None:
    config, where = config_of(tmp_path, PARSE, format="delta", sink='writer = "spark"')
    writer = config.sink.open(config, where, cast(Any, None))
    with pytest.raises(
        UsageError,
        match=r"sink\.writer: this Spark does not have the class org\.apache\.spark\.sql\.delta\.",
    ) as refused:
        writer.prepare(session, None)
    assert "io.delta:delta-spark" in str(refused.value.hint)


def test_a_batch_is_added_once_and_compaction_changes_no_row(session: SparkSession, tmp_path: Path) -> None:
    rows = [rows_of(session, tmp_path, range(8 * batch, 8 * batch + 8)) for batch in range(3)]
    writer = writer_of(session, tmp_path)
    writer.write(rows[0], 0, owner="one", since=None)
    writer.write(rows[1], 1, owner="one", since=None)
    writer.write(rows[1], 1, owner="one", since=NOW)
    again = writer_of(session, tmp_path, owner="one")
    again.write(rows[0], 0, owner="one", since=NOW)
    assert numbers_in(tmp_path) == list(range(16))

    config, where = settings(tmp_path)
    compacted = config.sink.compact(config, where, timedelta(0))
    assert compacted.merged >= 8
    assert compacted.written == 4
    assert compacted.deleted == compacted.merged
    assert numbers_in(tmp_path) == list(range(16))
    # The writer has not seen the compaction; nor does it forget a batch.
    again.write(rows[1], 1, owner="one", since=NOW)
    again.write(rows[2], 2, owner="one", since=None)
    assert numbers_in(tmp_path) == list(range(24))
    # Another job has numbers of its own.
    writer_of(session, tmp_path, name="other").write(rows[0], 0, owner="two", since=None)
    assert sorted(Counter(numbers_in(tmp_path)).values()) == [1] * 16 + [2] * 8

    with pytest.raises(
        UsageError, match=r"checkpoint: .*/table has a batch 2 of this checkpoint: it is older"
    ):
        again.write(rows[2], 2, owner="one", since=None)
    with pytest.raises(
        UsageError, match=r"sink\.path: .*/table has rows of job test with another checkpoint"
    ):
        writer_of(session, tmp_path)
    assert list((tmp_path / "table").rglob("*.crc")) == []

    table = DeltaTable(tmp_path / "table")
    logs = table.to_pyarrow_dataset()
    assert logs.schema.field("time").type == pyarrow.timestamp("us", "UTC")
    query = "SELECT app, count(*), min(time) FROM logs WHERE date = '2026-01-30' GROUP BY app ORDER BY app"
    found = duckdb.sql(query)
    assert found is not None
    (space, none, first), (web, count, _) = found.fetchall()
    assert (space[:4], none, web, count) == ("sha-", 8, "web", 8)
    assert first == datetime(2026, 1, 30, 12, 0, 0, 250000, UTC)
    actions: Any = pyarrow.table(table.get_add_actions(flatten=True))
    assert set(actions["null_count.n"].to_pylist()) == {0}
    assert min(actions["min.n"].to_pylist()) == 0


def test_readers_see_nothing_of_a_batch_that_is_not_committed(session: SparkSession, tmp_path: Path) -> None:
    writer_of(session, tmp_path).write(rows_of(session, tmp_path, range(4)), 0, owner="one", since=None)
    killed = writer_of(session, tmp_path, owner="one", kind=Killed)
    with pytest.raises(InterruptedError):
        killed.write(rows_of(session, tmp_path, range(4, 8)), 1, owner="one", since=None)
    left = list((tmp_path / "table/data/one").glob("1-*"))
    assert [any(each.rglob("*.parquet")) for each in left] == [True]
    assert numbers_in(tmp_path) == list(range(4))
    again = writer_of(session, tmp_path, owner="one")
    again.write(rows_of(session, tmp_path, range(4, 8)), 1, owner="one", since=NOW)
    assert numbers_in(tmp_path) == list(range(8))
    assert not left[0].exists()


def test_columns_may_be_added_and_left_out_but_not_change_their_type(
    session: SparkSession, tmp_path: Path
) -> None:
    writer_of(session, tmp_path).write(rows_of(session, tmp_path, range(2)), 0, owner="one", since=None)
    more = '[columns]\ntwice = "n * 2"\n'
    writer = writer_of(session, tmp_path, more, "one")
    writer.write(rows_of(session, tmp_path, range(2, 4), more), 1, owner="one", since=None)
    writer = writer_of(session, tmp_path, owner="one")
    writer.write(rows_of(session, tmp_path, range(4, 6)), 2, owner="one", since=None)
    found = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["n", "twice"]).sort_by("n")
    assert found["twice"].to_pylist() == [None, None, 4, 6, None, None]
    other = '[columns]\ntwice = "app"\n'
    writer = writer_of(session, tmp_path, other, "one")
    with pytest.raises(UsageError, match=r"sink\.path: .*/table has column twice as .*long.*, not .*string"):
        writer.write(rows_of(session, tmp_path, range(2), other), 3, owner="one", since=None)


def test_a_directory_must_be_empty_or_a_table_with_the_same_partitions(
    session: SparkSession, tmp_path: Path
) -> None:
    config, where = settings(tmp_path)
    with pytest.raises(UsageError, match=r"sink\.path: .*/table is not a Delta table yet"):
        config.sink.compact(config, where, timedelta(0))
    (tmp_path / "table").mkdir()
    (tmp_path / "table/notes.txt").touch()
    with pytest.raises(UsageError, match="contains files and is not a Delta table"):
        writer_of(session, tmp_path)
    (tmp_path / "table/notes.txt").unlink()
    writer_of(session, tmp_path).write(rows_of(session, tmp_path, range(1)), 0, owner="one", since=None)
    config, where = settings(tmp_path, by="[]")
    assert isinstance(config.sink, DeltaSink)
    with pytest.raises(UsageError, match=r'was created with partition_by = \["date", "app"\]'):
        DeltaWriter(config.sink, config, where).prepare(session, "one")


def test_a_job_adds_each_line_once_though_its_last_commit_is_lost(pipes: Pipes) -> None:
    file = pipes.file(sink='[sink]\nformat = "delta"\npath = "table"\n')
    pipes.publish([access_line("web1", n) for n in range(20)])
    pipes.publish(["no access line"])
    assert [(each.rows, each.dead_letters) for each in pipes.run(file)] == [(20, 1)]
    pipes.forget_the_last_commit()
    assert [(each.rows, each.dead_letters) for each in pipes.run(file)] == [(20, 1)]
    table = DeltaTable(pipes.place / "table")
    assert table.version() == 1
    assert Counter(table.to_pyarrow_table()["sequence"].to_pylist()) == Counter(range(1, 21))
    assert len(pipes.letters()) == 1
    log = pipes.place / "table/_delta_log/00000000000000000001.json"
    assert log.stat().st_mode & 0o007 == 0
