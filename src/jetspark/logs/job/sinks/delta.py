"""The sink `delta`: a Delta table. Spark's tasks write the files, delta-rs commits them.

The tasks of a batch write Parquet files (`attempts`). No reader of the table sees them before the driver adds
all of them to the table's log, in one commit. The commit also records the number of the batch under the id of
the checkpoint (`txn`), so that a repeated batch is skipped; delta-rs refuses a commit if another one has
recorded a batch of this checkpoint since. So several jobs may write one table. A second `txn` names the
checkpoint of a job: with a new one, the job would write the same lines again.

With `writer = "spark"`, Delta's own classes write, which Spark must then have. They record the same `txn`.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jetspark.errors import Error
from jetspark.logs.job.attempts import (
    COMMIT_ATTEMPTS,
    LEFT_OVER,
    Attempt,
    back_off,
    batch_taken_error,
    other_checkpoint_error,
    remove_empty_directories,
    table_storage,
)
from jetspark.logs.job.config import Compacted, Config, SinkWriter
from jetspark.logs.job.jars import require_class
from jetspark.logs.job.layout import divided, partition_values
from jetspark.logs.job.sinks.versioned import RUN_AGAIN, VersionedSink
from jetspark.logs.job.sql import types
from jetspark.logs.job.storage import Storage, created_without
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSink", "DeltaWriter"]

#: Footers that are read at once: on an object store, each is a request or two.
_READERS: Final = 8
#: The characters of a string that statistics keep, as in Delta's own writer.
_PREFIX: Final = 32
#: Sorts after every other character.
_LAST: Final = "\U0010ffff"


class DeltaSink(VersionedSink, frozen=True):
    """A Delta table."""

    #: The options of the object store for delta-rs; Spark has its own in `[spark] conf`.
    storage_options: dict[str, str] = msgspec.field(default_factory=dict)

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        if self.writer == "spark":
            return _SparkWriter(self, config, where)
        self.require("deltalake", where)
        return DeltaWriter(self, config, where)

    def compact(self, config: Config, where: Where, keep: timedelta) -> Compacted:
        self.require("deltalake", where)
        table = _load(self, where)
        if table is None:
            raise self.path_error(where, "is not a Delta table yet")
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 - an extra

        try:
            with created_without(config.spark.umask):
                # It changes no row, so a batch that is added meanwhile does not conflict.
                merged = table.optimize.compact()
                # New files that are not in the log may belong to a batch that is being written.
                deleted = table.vacuum(
                    math.ceil(keep.total_seconds() / 3600),
                    dry_run=False,
                    enforce_retention_duration=False,
                    full=keep >= LEFT_OVER,
                )
                table.create_checkpoint()
                table.cleanup_metadata()
        except DeltaError as error:
            raise Error(f"cannot compact {self.path}: {error}", hint=RUN_AGAIN) from error
        remove_empty_directories(self.path, keep)
        return Compacted(merged["numFilesRemoved"], merged["numFilesAdded"], len(deleted))


class DeltaWriter(SinkWriter):
    """Writes files with Spark, and commits them with delta-rs."""

    _storage: Storage

    def __init__(self, sink: DeltaSink, config: Config, where: Where) -> None:
        self._sink = sink
        self._config = config
        self._where = where
        self._table: DeltaTable | None = None

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        self._storage = table_storage(spark, self._sink.path)
        self._table = _load(self._sink, self._where)
        if self._table is None:
            if any(not name.startswith((".", "_")) and name != "data" for name in self._storage.names()):
                raise self._sink.path_error(
                    self._where, "contains files and is not a Delta table", "Name a new directory"
                )
            return
        self._check(self._table, owner)

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        """Write a batch. Raises `UsageError` if a column has another type than in the table."""
        made = divided(rows, self._config.written_columns, self._sink.partition_by)
        with created_without(self._config.spark.umask):
            table = self.evolved(made.schema)
        self._check(table, owner)
        if _has(table, owner, batch):
            if since is None:
                raise batch_taken_error(self._where, self._sink.path, batch)
            rows.write.format("noop").mode(
                "overwrite"
            ).save()  # The job counts lines while they are computed.
            return
        attempt = Attempt(self._storage, owner, batch)
        attempt.write(made, self._sink.partition_by)
        with created_without(self._config.spark.umask):
            if actions := _added(self._sink, attempt.directory):
                self.commit(actions, made.schema, owner, batch)
        if since is not None:
            attempt.delete_others()

    def evolved(self, wanted: types.StructType) -> DeltaTable:
        """The newest version of the table, with all columns: it is created, or gets the new ones."""
        from deltalake import DeltaTable, Schema  # noqa: PLC0415 - an extra

        schema = Schema.from_json(_nullable(wanted))
        if self._table is None:
            self._table = DeltaTable.create(
                self._sink.path,
                schema,
                mode="ignore",
                partition_by=list(self._sink.partition_by),
                storage_options=self._sink.storage_options or None,
            )
        table = self._table
        table.update_incremental()
        there = {field.name: field.type for field in table.schema().fields}
        for field in schema.fields:
            if field.name in there and field.type != there[field.name]:
                raise self._sink.path_error(
                    self._where, f"has column {field.name} as {there[field.name]}, not {field.type}"
                )
        if new := [field for field in schema.fields if field.name not in there]:
            table.alter.add_columns(new)
            table.update_incremental()
        return table

    def commit(self, actions: list[Any], schema: types.StructType, owner: str, batch: int) -> None:
        """Add the files of a batch in one version. Raises `UsageError` if the table has the batch."""
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415 - an extra
        from deltalake.exceptions import CommitFailedError  # noqa: PLC0415

        batches = [Transaction(owner, batch), Transaction(self._job, _fingerprint(owner))]
        for last in back_off(COMMIT_ATTEMPTS):
            try:
                table = self.evolved(schema)
                self._check(table, owner)
                if _has(table, owner, batch):
                    raise batch_taken_error(self._where, self._sink.path, batch)
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    partition_by=list(self._sink.partition_by),
                    commit_properties=CommitProperties(app_transactions=batches),
                )
            except CommitFailedError:
                if last:
                    raise
            else:
                return

    @property
    def _job(self) -> str:
        return f"jetspark/{self._config.name}"

    def _check(self, table: DeltaTable, owner: str | None) -> None:
        by = table.metadata().partition_columns
        if tuple(by) != self._sink.partition_by:
            raise self._sink.path_error(
                self._where, f"was created with partition_by = {json.dumps(list(by))}"
            )
        theirs = table.transaction_version(self._job)
        if theirs is not None and (owner is None or theirs != _fingerprint(owner)):
            raise other_checkpoint_error(self._where, self._sink.path, self._config.name)


class _SparkWriter(SinkWriter):
    """Writes with Delta's own classes."""

    def __init__(self, sink: DeltaSink, config: Config, where: Where) -> None:
        self._sink = sink
        self._where = where
        self._columns = config.written_columns

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        name, package = "org.apache.spark.sql.delta.sources.DeltaDataSource", "io.delta:delta-spark"
        require_class(spark, name, package, self._where)

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        if since is not None:  # Delta skips a batch that it has; the job counts its lines nevertheless.
            rows.write.format("noop").mode("overwrite").save()
        by = self._sink.partition_by
        (
            divided(rows, self._columns, by)
            .write.format("delta")
            .mode("append")
            .options(txnAppId=owner, txnVersion=batch, mergeSchema=True)
            .partitionBy(*by)
            .save(self._sink.path)
        )


def _load(sink: DeltaSink, where: Where) -> DeltaTable | None:
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    options = sink.storage_options or None
    try:
        if not DeltaTable.is_deltatable(sink.path, options):
            return None
        return DeltaTable(sink.path, storage_options=options)
    except (DeltaError, OSError) as error:
        raise where.error("sink.path", f"cannot open {sink.path}: {error}") from error


def _has(table: DeltaTable, owner: str, batch: int) -> bool:
    done = table.transaction_version(owner)
    return done is not None and done >= batch


def _fingerprint(owner: str) -> int:
    """The id of a checkpoint as the number that a `txn` can hold."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8]) >> 1


def _nullable(schema: types.StructType) -> str:
    """Spark's schema as JSON, which is Delta's. A column may be absent from earlier or later files."""
    return types.StructType.fromJson(
        {"type": "struct", "fields": [{**each.jsonValue(), "nullable": True} for each in schema]}
    ).json()


# --- files


def _added(sink: DeltaSink, directory: str) -> list[Any]:
    """The log entry for each file with rows in a directory of the table."""
    import pyarrow.parquet  # noqa: PLC0415 - takes long
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 - an extra
    from deltalake.transaction import AddAction  # noqa: PLC0415
    from pyarrow import fs  # noqa: PLC0415

    files = fs.PyFileSystem(DeltaStorageHandler(sink.path, sink.storage_options or None))
    names = [
        (file.path, file.size)
        for file in files.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
        if file.base_name.endswith(".parquet")
        # A task that Spark has given up may still write to `_temporary`.
        and not any(part.startswith((".", "_")) for part in file.path.removeprefix(directory).split("/"))
    ]

    def add(name: str, size: int) -> AddAction | None:
        with files.open_input_file(name) as opened:
            footer = pyarrow.parquet.read_metadata(opened)
        if not footer.num_rows:
            return None
        values = partition_values(name.removeprefix(f"{directory}/"), sink.partition_by)
        return AddAction(name, size, values, time.time_ns() // 10**6, True, json.dumps(_statistics(footer)))

    with ThreadPoolExecutor(_READERS) as readers:
        return [action for action in readers.map(lambda each: add(*each), names) if action is not None]


def _statistics(footer: Any) -> Mapping[str, object]:
    """Delta's statistics of a file from the footer of a Parquet file: of columns, not of fields in them."""
    found: dict[str, list[Any]] = {}
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            if "." not in column.path_in_schema:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for name, each in found.items():
        if any(one is None or not one.has_null_count for one in each):
            continue
        nulls[name] = sum(one.null_count for one in each)
        bounds = _bounds(one for one in each if one.num_values)
        if bounds is not None:
            least[name], most[name] = bounds
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bounds(each: Iterable[Any]) -> tuple[object, object] | None:
    """The least and the greatest value, as JSON; None if unknown, or not of a type that Delta compares."""
    lows: list[Any] = []
    highs: list[Any] = []
    for one in each:
        if not one.has_min_max:
            return None
        try:
            lows.append(one.min)
            highs.append(one.max)
        except UnicodeDecodeError:
            return None
    if not lows:
        return None
    low, high = _plain(min(lows), end=""), _plain(max(highs), end=_LAST)
    return None if low is None or high is None else (low, high)


def _plain(value: object, *, end: str) -> object:
    if isinstance(value, str):
        return value if len(value) <= _PREFIX else value[:_PREFIX] + end
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
