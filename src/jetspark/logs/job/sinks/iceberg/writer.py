"""Writes the batches of an Iceberg table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow.parquet
from pyiceberg.exceptions import CommitFailedException, ResolveError, TableAlreadyExistsError, ValidationError
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.logs.job.attempts import (
    COMMIT_ATTEMPTS,
    Attempt,
    back_off,
    batch_taken_error,
    other_checkpoint_error,
    table_storage,
)
from jetspark.logs.job.config import Config, SinkWriter
from jetspark.logs.job.layout import divided
from jetspark.logs.job.sinks.iceberg.section import IcebergSink
from jetspark.logs.job.sinks.iceberg.table import (
    batch_property,
    checkpoint_property,
    fail_if_changed,
    has_batch,
    load_table,
    note_version,
    open_catalog,
)
from jetspark.logs.job.storage import Storage, created_without
from jetspark.logs.toml_lines import Where

__all__ = ["IcebergWriter"]

#: The metadata of old versions is removed: each batch writes a file of it.
_PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergWriter(SinkWriter):
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
            self._table = load_table(self._sink, self._config)
            if self._table is None:
                if set(others) - {"data", "metadata", "catalog.db"}:
                    raise self._sink.path_error(
                        self._where, "contains files and is not an Iceberg table", "Name a new directory"
                    )
                return
            self._check(self._table, owner)
            note_version(self._sink, self._table)  # A killed job may not have done it.

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        """Write a batch. Raises `UsageError` if a column has another type than in the table."""
        if self._table is not None:
            self._table.refresh()
            self._check(self._table, owner)
            if has_batch(self._table, owner, batch):
                if since is None:
                    raise batch_taken_error(self._where, self._sink.path, batch)
                rows.write.format("noop").mode(
                    "overwrite"
                ).save()  # The job counts lines while they are computed.
                return
        attempt = Attempt(self._storage, owner, batch)
        self._write_files(rows, attempt)
        depth = "/*" * len(self._sink.partition_by)
        files = self._storage.paths(f"{attempt.directory}{depth}/part-*.parquet")
        with created_without(self._config.spark.umask):
            if not self._sink.partition_by:  # Spark writes a file even if there is no row.
                files = [file for file in files if self._footer(file).num_rows]
            if files:
                self.commit(files, owner, batch)
        if since is not None:
            attempt.delete_others()

    def _write_files(self, rows: DataFrame, attempt: Attempt) -> None:
        by = self._sink.partition_by
        made = divided(rows, self._config.written_columns, by)
        # Iceberg wants partition columns in files, and Spark leaves them out: copies name the directories.
        copies = {f"_{name}": F.col(name) for name in by}
        attempt.write(made.withColumns(copies) if by else made, tuple(copies))

    def commit(self, files: list[str], owner: str, batch: int) -> None:
        """Add the files of a batch in one snapshot. Raises `UsageError` if the table has the batch."""
        schema = _schema(self._footer(files[0]))
        batches = {batch_property(owner): str(batch), checkpoint_property(self._config): owner}
        summary = {"jetspark.checkpoint": owner, "jetspark.batch": str(batch)}
        for last in back_off(COMMIT_ATTEMPTS):
            try:
                table = self.evolved(schema)
                self._check(table, owner)
                if has_batch(table, owner, batch):
                    raise batch_taken_error(self._where, self._sink.path, batch)
                with fail_if_changed(table).transaction() as changes:
                    changes.set_properties(batches)
                    changes.add_files(files, snapshot_properties=summary, check_duplicate_files=False)
            except CommitFailedException:
                if last:
                    raise
            else:
                return note_version(self._sink, table)

    def _footer(self, path: str) -> Any:
        io = (
            load_file_io(open_catalog(self._sink).properties, path) if self._table is None else self._table.io
        )
        with io.new_input(path).open() as file:
            return pyarrow.parquet.read_metadata(file)

    def evolved(self, schema: pyarrow.Schema) -> Table:
        """The newest version of the table, with all columns: it is created, or gets the new ones."""
        if self._table is None:
            self._table = self._create(schema)
        table = self._table
        table.refresh()
        if set(schema.names) - set(table.schema().column_names):
            with self._explained(), table.update_schema() as change:
                change.union_by_name(schema)
        with self._explained():
            _check_pyarrow_schema_compatible(table.schema(), schema, format_version=table.format_version)
        return table

    def _create(self, schema: pyarrow.Schema) -> Table:
        catalog, name = open_catalog(self._sink), self._sink.identifier(self._config)
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        with (
            contextlib.suppress(TableAlreadyExistsError, CommitFailedException),
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
            raise self._sink.path_error(self._where, f"was created with partition_by = {json.dumps(by)}")
        if table.properties.get(checkpoint_property(self._config), owner) != owner:
            raise other_checkpoint_error(self._where, self._sink.path, self._config.name)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (ResolveError, ValidationError, ValueError) as error:
            raise self._sink.path_error(
                self._where, f"has a column of another type: {' '.join(str(error).split())}"
            ) from error


def _schema(footer: Any) -> pyarrow.Schema:
    """The columns of a file. Each may be null: it may be absent from earlier or later files."""
    return pyarrow.schema([field.with_nullable(True) for field in footer.schema.to_arrow_schema()])
