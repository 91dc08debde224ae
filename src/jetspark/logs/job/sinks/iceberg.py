"""The sink `iceberg`: an Iceberg table. Spark's tasks write the files, pyiceberg commits them.

The tasks of a batch write Parquet files (`attempts`). No reader of the table sees them before the driver
commits a snapshot with all of them. The same commit sets the table property `jetspark.batch.<checkpoint>` to
the number of the batch, so that a repeated batch is skipped, even after its snapshot has expired. So several
jobs may write one table. The property `jetspark.checkpoint.<job>` names the checkpoint of a job: with a new
one, the job would write the same lines again.

Without `catalog`, a table in a local directory has a catalog of its own there, in SQLite. The file
`metadata/version-hint.text` then names the newest version, for readers that get only the directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.errors import Error
from jetspark.logs.job.attempts import (
    LEFT_OVER,
    Attempt,
    back_off,
    batch_taken_error,
    check_path,
    other_checkpoint_error,
    remove_empty_directories,
    table_storage,
)
from jetspark.logs.job.config import Compacted, Config, Section, SinkSection, SinkWriter
from jetspark.logs.job.layout import check_layout, divided
from jetspark.logs.job.storage import Storage, created_without
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table

__all__ = ["IcebergSink"]

#: So often a commit is tried while other writers change the table.
_ATTEMPTS: Final = 20
#: The bytes of a large file; files of half of it and more are not merged.
_LARGE: Final = 128 * 1024 * 1024
_AGAIN: Final = "No row is lost: run it again"
#: Seconds that a process waits for the one that writes to the catalog of a local table.
_PATIENCE: Final = 60
_INSTALL: Final = "Install it with `pip install 'jetspark[iceberg]'`"
#: The metadata of old versions is removed: each batch writes a file of it.
_PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergSink(Section, SinkSection, frozen=True):
    """An Iceberg table."""

    format: str
    #: The location of the table.
    path: str
    #: The identifier in the catalog; by default `logs.` and the name of the job.
    table: str | None = None
    partition_by: tuple[str, ...] = ("date",)
    #: pyiceberg's properties of the catalog; `name` is the one of its configuration file.
    catalog: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def destination(self) -> str:
        return self.path

    def partitions(self, config: Config) -> tuple[str, ...]:
        return self.partition_by

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        return msgspec.structs.replace(self, path=resolve(self.path).removeprefix("file://"))

    def check(self, config: Config, where: Where) -> None:
        check_path(self.path, where)
        check_layout(self.path, self.partition_by, config, where)
        if "://" in self.path and not self.catalog:
            raise where.error("sink.catalog", "is missing: only a local table can have its own catalog")
        if not all(self.identifier(config).split(".")) or "." not in self.identifier(config):
            raise where.error("sink.table", f"{self.table!r} must be like logs.access")

    def identifier(self, config: Config) -> str:
        """The name of the table in the catalog."""
        return self.table or f"logs.{config.name}"

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        _check_installed(where)
        return _IcebergWriter(self, config, where)

    def compact(self, config: Config, where: Where, keep: timedelta) -> Compacted:
        _check_installed(where)
        from pyiceberg.exceptions import CommitFailedException, ValidationException  # noqa: PLC0415 - an extra

        try:
            with created_without(config.spark.umask):
                table = _load(self, config)
                if table is None:
                    raise where.error("sink.path", f"{self.path} is not an Iceberg table yet")
                merged = written = 0
                for files in _small_files(table):
                    _merge(table, files)
                    merged, written = merged + len(files), written + 1
                deleted = _expire(table, datetime.now(UTC) - keep)
                _note_version(self, table)
                if keep >= LEFT_OVER:
                    deleted += _delete_left_over(table, datetime.now(UTC) - keep)
        except (CommitFailedException, ValidationException) as error:
            raise Error(f"cannot compact {self.path}: {error}", hint=_AGAIN) from error
        remove_empty_directories(self.path, keep)
        return Compacted(merged, written, deleted)


class _IcebergWriter(SinkWriter):
    """Writes files with Spark, and commits them with pyiceberg."""

    _storage: Storage

    def __init__(self, sink: IcebergSink, config: Config, where: Where) -> None:
        self._sink = sink
        self._config = config
        self._where = where
        self._table: Table | None = None

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        self._storage = table_storage(spark, self._sink.path)
        others = [name for name in self._storage.names() if not name.startswith((".", "_"))]
        with created_without(self._config.spark.umask):
            self._table = _load(self._sink, self._config)
            if self._table is None:
                if set(others) - {"data", "metadata", "catalog.db"}:
                    raise self._error("contains files and is not an Iceberg table", "Name a new directory")
                return
            self._check(self._table, owner)
            _note_version(self._sink, self._table)  # A killed job may not have come to it.

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        """Write a batch. Raises `UsageError` if a column has another type than in the table."""
        if self._table is not None:
            self._table.refresh()
            self._check(self._table, owner)
            if _has(self._table, owner, batch):
                if since is None:
                    raise batch_taken_error(self._where, self._sink.path, batch)
                rows.write.format("noop").mode("overwrite").save()  # The job counts the lines on their way.
                return
        attempt = Attempt(self._storage, owner, batch)
        self._write_files(rows, attempt)
        depth = "/*" * len(self._sink.partition_by)
        files = self._storage.paths(f"{attempt.directory}{depth}/part-*.parquet")
        with created_without(self._config.spark.umask):
            if not self._sink.partition_by:  # Spark writes a file even if there is no row.
                files = [file for file in files if _footer(self._sink, file).num_rows]
            if files:
                self._commit(files, owner, batch)
        if since is not None:
            attempt.delete_others()

    def _write_files(self, rows: DataFrame, attempt: Attempt) -> None:
        by = self._sink.partition_by
        made = divided(rows, self._config.written_columns, by)
        # Iceberg wants partition columns in files, and Spark leaves them out: copies name the directories.
        copies = {f"_{name}": F.col(name) for name in by}
        attempt.write(made.withColumns(copies) if by else made, tuple(copies))

    def _commit(self, files: list[str], owner: str, batch: int) -> None:
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

        schema = _schema(_footer(self._sink, files[0]))
        batches = {_batch_property(owner): str(batch), _checkpoint_property(self._config): owner}
        summary = {"jetspark.checkpoint": owner, "jetspark.batch": str(batch)}
        for last in back_off(_ATTEMPTS):
            try:
                table = self._evolved(schema)
                self._check(table, owner)
                if _has(table, owner, batch):
                    raise batch_taken_error(self._where, self._sink.path, batch)
                with _at_once(table).transaction() as changes:
                    changes.set_properties(batches)
                    changes.add_files(files, snapshot_properties=summary, check_duplicate_files=False)
            except CommitFailedException:
                if last:
                    raise
            else:
                return _note_version(self._sink, table)

    def _evolved(self, schema: pyarrow.Schema) -> Table:
        """The newest version of the table, with all columns: it is created, or gets the new ones."""
        if self._table is None:
            self._table = self._create(schema)
        table = self._table
        table.refresh()
        if set(schema.names) - set(table.schema().column_names):
            with self._explained(), table.update_schema() as change:
                change.union_by_name(schema)
        with self._explained():
            _check_types(table, schema)
        return table

    def _create(self, schema: pyarrow.Schema) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError  # noqa: PLC0415 - an extra

        catalog, name = _catalog(self._sink), self._sink.identifier(self._config)
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        with (
            contextlib.suppress(TableAlreadyExistsError),
            catalog.create_table_transaction(
                name, schema, location=self._sink.path, properties=_PROPERTIES
            ) as create,
            create.update_spec() as spec,
        ):
            for column in self._sink.partition_by:
                spec.add_identity(column)
        return catalog.load_table(name)

    def _check(self, table: Table, owner: str | None) -> None:
        by = tuple(field.name for field in table.spec().fields)
        if by != self._sink.partition_by:
            raise self._error(f"was created with partition_by = {json.dumps(by)}")
        if table.properties.get(_checkpoint_property(self._config), owner) != owner:
            raise other_checkpoint_error(self._where, self._sink.path, self._config.name)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from pyiceberg.exceptions import ResolveError, ValidationError  # noqa: PLC0415 - an extra

        try:
            yield
        except (ResolveError, ValidationError, ValueError) as error:
            raise self._error(f"has a column of another type: {' '.join(str(error).split())}") from error

    def _error(self, what: str, hint: str | None = None) -> Exception:
        return self._where.error("sink.path", f"{self._sink.path} {what}", hint)


# --- the table


def _check_installed(where: Where) -> None:
    try:
        import pyiceberg  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise where.error("sink.format", "iceberg requires pyiceberg", _INSTALL) from None


def _catalog(sink: IcebergSink) -> Catalog:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra

    given = dict(sink.catalog)
    if not given:
        os.makedirs(sink.path, exist_ok=True)
        # As a URI, because a path may contain `?`.
        uri = f"sqlite:///file:{quote(sink.path)}/catalog.db?uri=true&timeout={_PATIENCE}"
        given = {"type": "sql", "uri": uri, "warehouse": sink.path}
    return load_catalog(given.pop("name", "jetspark"), **given)


def _load(sink: IcebergSink, config: Config) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - an extra

    if not sink.catalog and not os.path.exists(f"{sink.path}/catalog.db"):
        return None
    try:
        return _catalog(sink).load_table(sink.identifier(config))
    except NoSuchTableError:
        return None


def _batch_property(owner: str) -> str:
    return f"jetspark.batch.{owner}"


def _checkpoint_property(config: Config) -> str:
    return f"jetspark.checkpoint.{config.name}"


def _has(table: Table, owner: str, batch: int) -> bool:
    return int(table.properties.get(_batch_property(owner), -1)) >= batch


def _at_once(table: Table) -> Table:
    """Let a commit fail if the table has changed: pyiceberg would repeat it without looking at the batch."""
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _note_version(sink: IcebergSink, table: Table) -> None:
    """Name the newest version for readers without a catalog."""
    if sink.catalog:
        return
    hint = f"{sink.path}/metadata/version-hint.text"
    noted = None
    # The job and a compaction may note their versions at the same time: the last one looks again.
    while (version := table.metadata_location) != noted:
        new = f"{hint}.{uuid.uuid4().hex}"
        with open(new, "w", encoding="utf-8") as file:
            file.write(os.path.basename(version).removesuffix(".metadata.json"))
        os.replace(new, hint)
        noted = version
        table.refresh()


# --- files


def _footer(sink: IcebergSink, path: str) -> Any:
    import pyarrow.parquet  # noqa: PLC0415 - takes long
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - an extra

    with load_file_io(dict(sink.catalog), path).new_input(path).open() as file:
        return pyarrow.parquet.read_metadata(file)


def _schema(footer: Any) -> pyarrow.Schema:
    """The columns of a file. Each may be null: it may be absent from earlier or later files."""
    import pyarrow  # noqa: PLC0415 - takes long

    return pyarrow.schema([field.with_nullable(True) for field in footer.schema.to_arrow_schema()])


def _check_types(table: Table, schema: pyarrow.Schema) -> None:
    from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible  # noqa: PLC0415 - an extra

    _check_pyarrow_schema_compatible(table.schema(), schema, format_version=table.format_version)


def _small_files(table: Table) -> Iterable[Sequence[FileScanTask]]:
    """Small files of one partition that make a large one; none of them has rows that are deleted."""
    partitions: dict[tuple[int, str], list[FileScanTask]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < _LARGE // 2 and not task.delete_files:
            partitions[task.file.spec_id, str(task.file.partition)].append(task)
    for files in partitions.values():
        together: list[FileScanTask] = []
        size = 0
        for task in files:
            if size + task.file.file_size_in_bytes > _LARGE and together:
                if len(together) > 1:
                    yield together
                together, size = [], 0
            together.append(task)
            size += task.file.file_size_in_bytes
        if len(together) > 1:
            yield together


def _merge(table: Table, files: Sequence[FileScanTask]) -> None:
    """Replace files with one that has their rows. A batch that is added meanwhile does not conflict."""
    path = f"{table.location()}/data/compacted/{uuid.uuid4().hex}.parquet"
    _write_merged(table, files, path)
    _replace(table, files, path)


def _write_merged(table: Table, files: Sequence[FileScanTask], path: str) -> None:
    import pyarrow.parquet  # noqa: PLC0415 - takes long
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow  # noqa: PLC0415

    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches(files)
    with (
        table.io.new_output(path).create() as stream,
        pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as file,
    ):
        for batch in rows:
            file.write_table(pyarrow.Table.from_batches([batch]).cast(schema))


def _replace(table: Table, files: Sequence[FileScanTask], path: str) -> None:
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra
    from pyiceberg.io.pyarrow import parquet_file_to_data_file  # noqa: PLC0415

    for last in back_off(_ATTEMPTS):
        try:
            with (
                table.transaction() as changes,
                changes.update_snapshot(
                    snapshot_properties={"jetspark.compacted": "true"}
                ).overwrite() as change,
            ):
                for task in files:
                    change.delete_data_file(task.file)
                change.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
        except CommitFailedException:
            if last:
                raise
            table.refresh()
        else:
            return


def _expire(table: Table, before: datetime) -> int:
    """Expire snapshots, and delete the files that no other snapshot has. Returns the number of data files."""
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

    for last in back_off(_ATTEMPTS):
        table.refresh()
        old_data, old_metadata = _referenced(table)
        try:
            table.maintenance.expire_snapshots().older_than(before).commit()
        except CommitFailedException:
            if last:
                raise
        else:
            break
    table.refresh()
    data, metadata = _referenced(table)
    for path in (old_data | old_metadata) - (data | metadata):
        with contextlib.suppress(FileNotFoundError):
            table.io.delete(path)
    return len(old_data - data)


def _delete_left_over(table: Table, before: datetime) -> int:
    """Delete old data files that no snapshot has: of a killed job or compaction. Returns their number."""
    from pyarrow import fs  # noqa: PLC0415 - takes long
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - an extra

    if not isinstance(table.io, PyArrowFileIO):
        return 0
    scheme, host, path = table.io.parse_location(f"{table.location()}/data")
    files = table.io.fs_by_scheme(scheme, host)
    found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    old = {file.path for file in found if file.is_file and file.mtime < before}
    table.refresh()
    left = old - {table.io.parse_location(file)[2] for file in _referenced(table)[0]}
    for each in left:
        files.delete_file(each)
    return len(left)


def _referenced(table: Table) -> tuple[set[str], set[str]]:
    """The data files of all snapshots, and the files of the snapshots themselves."""
    data: set[str] = set()
    metadata: set[str] = set()
    for snapshot in table.snapshots():
        metadata.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in metadata:
                metadata.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                data.update(entry.data_file.file_path for entry in entries)
    return data, metadata
