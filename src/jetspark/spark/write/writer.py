"""`df.write` and `df.writeStream`: every row becomes one message, stored once.

Every row has an id, and the stream drops duplicates of it. The id is the column `msg_id`. Without it, the id
is made of the query, the batch and the partition (of the job and the partition in `df.write`), of a digest of
what the row holds, and of how often the task had the same row before (`ids`). A retried task, a speculative
copy and a replayed batch therefore add nothing, in whatever order the rows come, as long as the stream
remembers the ids. A row that comes in another partition is stored again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.jetstream.kv.names import key_prefix
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.log import log_to_stderr, logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.write.ids import short_query_id
from jetspark.spark.write.keys import KEY_COLUMNS, as_messages, check_key_columns, key_check
from jetspark.spark.write.rows import COLUMNS, Columns, RowEncoder, check_columns
from jetspark.spark.write.targets import TargetStreams
from jetspark.spark.write.task import TaskResult, write_rows
from jetspark.wire.subjects import encode_subject

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamWriter
except ImportError:  # Before Spark 4.1, a stream is written row by row.
    _StreamWriter = DataSourceStreamWriter  # type: ignore[misc, assignment]

if TYPE_CHECKING:
    from pyspark.sql import Row

__all__ = ["JetStreamStreamWriter", "JetStreamWriter"]

#: Rows to gather into one piece where Spark passes single rows.
_ROWS: Final = 1000
#: Columns of a read that say where a row is stored.
_POSITIONS: Final = frozenset(("sequence", "revision"))
#: The most bytes of headers that an atomic batch adds to each message.
_BATCH_HEADERS: Final = 100


class JetStreamWriter(DataSourceArrowWriter):
    """Writes a DataFrame. Created on the driver once per job, and pickled to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        _check(options, schema)
        if overwrite:
            raise UsageError("a stream cannot be overwritten", hint='Use mode("append")')
        # An error that would fail every task is better raised now.
        by_option = None if "subject" in schema.fieldNames() else options.subject
        if options.bucket is not None:
            by_option = f"{key_prefix(options.bucket)}key"
        for subject in filter(None, (by_option, options.dead_letter_subject)):
            with process_connection(options.connection, retry_for=PLANNING_TIMEOUT) as connection:
                connection.run(TargetStreams(connection.js, options).find(subject))
        self._options = options
        self._job = secrets.token_urlsafe(8)
        self._began = time.time()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        rows = _without_positions(iterator) if self._options.of_table else iterator
        return _write(self._options, self._job, _all_columns(rows, self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log_result(f"job {self._job}", messages, time.time() - self._began)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Some tasks failed. Rows that were written stay in the stream."""
        _log_result(f"failed job {self._job}", messages, time.time() - self._began)


class JetStreamStreamWriter(_StreamWriter):
    """Writes the batches of a streaming query. Created once per batch, and again to commit it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        _check(options, schema)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskResult:
        query = short_query_id(_property("sql.streaming.queryId"))
        batch = _property("streaming.sql.batchId")
        return _write(self._options, f"{query}/{batch}", _all_columns(iterator, self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _log_result(f"batch {batchId}", messages, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Some tasks failed. Spark retries the batch, and the stream drops duplicates by their ids."""
        _log_result(f"failed batch {batchId}", messages, None)


def _check(options: SourceOptions, schema: StructType) -> None:
    if options.bucket is not None:
        check_key_columns(schema)
        return
    check_columns(schema, subject=options.subject)
    if len(options.stream) > 1 or any("*" in name for name in options.stream):
        raise UsageError(f"option stream must be a single name for a write, not {','.join(options.stream)!r}")


def _write(options: SourceOptions, run: str, rows: Iterable[Columns]) -> TaskResult:
    with process_connection(options.connection, retry_for=options.retry_seconds) as connection:
        encoder = _encoder(options, run, connection.js.connection.max_payload)
        return write_rows(connection, options, encoder, rows)


def _encoder(options: SourceOptions, run: str, max_payload: int) -> RowEncoder:
    partition = _context().partitionId()
    return RowEncoder(
        subject=options.subject,
        stream=options.stream[0] if options.stream else None,
        id_prefix=f"{options.msg_id_prefix}{run}/{partition}/",
        place=f"partition {partition}",
        max_size=max_payload - (_BATCH_HEADERS if options.publish_mode == "atomic" else 0),
        keep_control_headers=options.control_headers == "keep" or options.bucket is not None,
        dead_letters=options.dead_letter_subject,
        subject_column="subject" if options.bucket is None else "key",
        check_subject=encode_subject if options.bucket is None else key_check(options.bucket),
        # Columns that an INSERT leaves out are null.
        fills_subjects=options.of_table and options.bucket is None,
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "writers run in tasks"
    return context


def _property(name: str) -> str:
    value = _context().getLocalProperty(name)
    if value is None:
        raise UsageError(
            f"Spark does not set {name}, which the ids of rows are built from", hint="Add a column msg_id"
        )
    return value


def _all_columns(items: Iterator[Any], options: SourceOptions) -> Iterator[Columns]:
    """The values that Spark passes to a writer: Arrow batches, or single rows to some stream writers."""
    names, data = (COLUMNS, "data") if options.bucket is None else (KEY_COLUMNS, "value")
    for first in items:
        if isinstance(first, pa.RecordBatch):
            columns = _of_batch(first, names, data)
        else:
            columns = _of_rows([first, *islice(items, _ROWS - 1)], names, data)
        yield columns if options.bucket is None else as_messages(options.bucket, columns)


def _without_positions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Refuse messages with all columns of a read: Spark does not pass the table that they are for."""
    for batch in batches:
        for name in _POSITIONS.intersection(batch.schema.names):
            if batch.column(name).null_count < batch.num_rows:
                raise UsageError(
                    f"a row has a {name}, which the server assigns, so it is not clear which table it is for",
                    hint="Name the columns: INSERT INTO t (subject, data) SELECT subject, data FROM ...; "
                    'or use df.write.format("jetstream") with option servers',
                )
        yield batch


def _of_batch(batch: pa.RecordBatch, names: Container[str], data: str) -> Columns:
    """The values of a batch. Text is sent as UTF-8."""
    columns: dict[str, Sequence[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in names:
            values = column.cast(pa.binary()) if name == data else column
            columns[name] = values.to_pylist()
    return columns


def _of_rows(rows: list[Row], names: Container[str], data: str) -> Columns:
    known = [name for name in rows[0].__fields__ if name in names]
    columns: dict[str, Sequence[Any]] = {name: [row[name] for row in rows] for name in known}
    if data not in columns:
        return columns
    return columns | {
        data: [text.encode() if isinstance(text, str) else text and bytes(text) for text in columns[data]]
    }


def _log_result(subject: str, messages: Sequence[WriterCommitMessage | None], seconds: float | None) -> None:
    log_to_stderr()
    results = [message for message in messages if isinstance(message, TaskResult)]
    rows = sum(result.rows for result in results)
    duplicates = sum(result.duplicates for result in results)
    took = max((result.seconds for result in results), default=0.0) if seconds is None else seconds
    dead = sum(result.dead for result in results)
    logger.info("%s wrote %d rows (%d already stored) in %.1f s", subject, rows, duplicates, took)
    if dead:
        logger.warning("%s sent %d of them as dead letters, because they are invalid", subject, dead)
