"""Merges the small files of an Iceberg table, and deletes old ones. The job may run meanwhile."""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow.parquet
from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table

from jetspark.errors import Error
from jetspark.logs.job.attempts import COMMIT_ATTEMPTS, LEFT_OVER, back_off, remove_empty_directories
from jetspark.logs.job.config import Compacted, Config
from jetspark.logs.job.sinks.iceberg.section import IcebergSink
from jetspark.logs.job.sinks.iceberg.table import fail_if_changed, load_table, note_version
from jetspark.logs.job.sinks.versioned import RUN_AGAIN
from jetspark.logs.job.storage import created_without
from jetspark.logs.toml_lines import Where

__all__ = ["compact", "replace_files", "small_files", "write_merged"]

#: The bytes of a large file; files of half of it and more are not merged.
_LARGE: Final = 128 * 1024 * 1024


def compact(sink: IcebergSink, config: Config, where: Where, keep: timedelta) -> Compacted:
    """See `SinkSection.compact`."""
    try:
        with created_without(config.spark.umask):
            table = load_table(sink, config)
            if table is None:
                raise sink.path_error(where, "is not an Iceberg table yet")
            merged = written = 0
            for files in small_files(table):
                if replace_files(table, files, write_merged(table, files)):
                    merged, written = merged + len(files), written + 1
            expired = _expire(table, datetime.now(UTC) - keep)
            note_version(sink, table)
            deleted = _delete(table, expired)
            if keep >= LEFT_OVER:
                deleted += _delete_left_over(table, datetime.now(UTC) - keep)
    except (CommitFailedException, ValidationException) as error:
        raise Error(f"cannot compact {sink.path}: {error}", hint=RUN_AGAIN) from error
    remove_empty_directories(sink.path, keep)
    return Compacted(merged, written, deleted)


def small_files(table: Table) -> Iterable[Sequence[FileScanTask]]:
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


def write_merged(table: Table, files: Sequence[FileScanTask]) -> str:
    """Write the rows of files to a new one, which is not in the table yet. Returns its path."""
    path = f"{table.location()}/data/compacted/{uuid.uuid4().hex}.parquet"
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches(files)
    with (
        table.io.new_output(path).create() as stream,
        pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as file,
    ):
        for batch in rows:
            file.write_table(pyarrow.Table.from_batches([batch]).cast(schema))
    return path


def replace_files(table: Table, files: Sequence[FileScanTask], path: str) -> bool:
    """Replace files with the merged one; delete that if another process has replaced some of them."""
    merged = {task.file.file_path for task in files}
    for last in back_off(COMMIT_ATTEMPTS):
        table.refresh()
        if not merged <= {task.file.file_path for task in table.scan().plan_files()}:
            table.io.delete(path)
            return False
        try:
            _replace(table, files, path)
        except CommitFailedException:  # A batch was added.
            if last:
                raise
        else:
            break
    return True


def _replace(table: Table, files: Sequence[FileScanTask], path: str) -> None:
    summary = {"jetspark.compacted": "true"}
    with (
        fail_if_changed(table).transaction() as changes,
        changes.update_snapshot(snapshot_properties=summary).overwrite() as change,
    ):
        for task in files:
            change.delete_data_file(task.file)
        change.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))


def _expire(table: Table, before: datetime) -> tuple[set[str], set[str]]:
    """Expire snapshots. Returns the files that they referenced: data files, and files of snapshots."""
    for last in back_off(COMMIT_ATTEMPTS):
        table.refresh()
        referenced = _referenced(table)
        try:
            table.maintenance.expire_snapshots().older_than(before).commit()
        except CommitFailedException:
            if last:
                raise
        else:
            break
    return referenced


def _delete(table: Table, old: tuple[set[str], set[str]]) -> int:
    """Delete the files that no snapshot has any more. Returns the number of data files."""
    table.refresh()
    data, metadata = _referenced(table)
    for path in (old[0] | old[1]) - (data | metadata):
        with contextlib.suppress(FileNotFoundError):
            table.io.delete(path)
    return len(old[0] - data)


def _delete_left_over(table: Table, before: datetime) -> int:
    """Delete old data files that no snapshot has: of a killed job or compaction. Returns their number."""
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
