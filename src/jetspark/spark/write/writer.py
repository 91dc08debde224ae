"""`df.write` and `df.writeStream`: rows become messages, each stored once.

A row has an id, and the stream drops what comes again under it. The id is the column `msg_id`, or else the
place of the row: query, batch, partition and number in a stream; the job, partition and number otherwise. So
a task that is tried again, a speculative twin and a batch that is replayed add nothing, as long as the rows
of a partition come in the same order and the stream remembers the ids.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.jetstream.retry import OUTAGE
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.log import log_to_stderr, logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.write.rows import Columns, RowEncoder, check_columns
from jetspark.spark.write.targets import TargetStreams
from jetspark.spark.write.task import TaskResult, write_rows

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamWriter
except ImportError:  # Before Spark 4.1 a stream is written row by row.
    _StreamWriter = DataSourceStreamWriter  # type: ignore[misc, assignment]

if TYPE_CHECKING:
    from pyspark.sql import Row

__all__ = ["JetStreamStreamWriter", "JetStreamWriter"]

#: Rows of a Spark that has no Arrow for streams are gathered.
_ROWS: Final = 1000
#: Bytes of headers that an atomic batch gives to each of its messages, at most.
_OF_A_BATCH: Final = 100


class JetStreamWriter(DataSourceArrowWriter):
    """Writes a DataFrame. It is made on the driver, once for a job, and taken along to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        _check(options, schema)
        if overwrite:
            raise UsageError("a stream cannot be overwritten", hint='Use mode("append")')
        if options.subject is not None and "subject" not in schema.fieldNames():
            # What would stop every task is better said at once.
            connection = process_connection(options.connection, retry_for=PLANNING_TIMEOUT)
            connection.run(TargetStreams(connection.js, options).find(options.subject))
        self._options = options
        self._job = uuid.uuid4().hex
        self._began = time.time()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Write the rows of one task."""
        return _write(self._options, self._job, map(_columns, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        _tell(f"job {self._job}", messages, time.time() - self._began)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Some tasks failed. What they and others have written stays."""
        _tell(f"job {self._job} failed, and", messages, time.time() - self._began)


class JetStreamStreamWriter(_StreamWriter):
    """Writes the batches of a streaming query. Made anew for every batch, and again to commit it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        _check(options, schema)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskResult:
        """Write the rows of one task of one batch."""
        query = _property("sql.streaming.queryId")
        batch = _property("streaming.sql.batchId")
        return _write(self._options, f"{query}/{batch}", _all_columns(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of a batch are done."""
        _tell(f"batch {batchId}", messages, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Some failed. The batch is tried again, and what was written is recognised by its ids."""
        _tell(f"batch {batchId} failed, and", messages, None)


def _check(options: SourceOptions, schema: StructType) -> None:
    check_columns(schema, subject=options.subject)
    if len(options.stream) > 1 or any("*" in name for name in options.stream):
        raise UsageError(f"option stream must be one name to write to, not {','.join(options.stream)!r}")


def _write(options: SourceOptions, run: str, rows: Iterable[Columns]) -> TaskResult:
    partition = _context().partitionId()
    connection = process_connection(options.connection, retry_for=OUTAGE)
    encoder = RowEncoder(
        subject=options.subject,
        stream=options.stream[0] if options.stream else None,
        id_prefix=f"{options.msg_id_prefix}{run}/{partition}/",
        place=f"partition {partition}",
        max_size=connection.js.connection.max_payload
        - (_OF_A_BATCH if options.publish_mode == "atomic" else 0),
    )
    return write_rows(connection, options, encoder, rows)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark writes in tasks"
    return context


def _property(name: str) -> str:
    value = _context().getLocalProperty(name)
    if value is None:
        raise UsageError(
            f"Spark does not tell {name}, so that rows could have no ids", hint="Give a column msg_id"
        )
    return value


def _columns(batch: pa.RecordBatch) -> Columns:
    """The values of a batch. Text goes out as the bytes it is made of."""
    columns: dict[str, Sequence[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ("data", "subject", "headers", "msg_id"):
            values = column.cast(pa.binary()) if name == "data" else column
            columns[name] = values.to_pylist()
    return columns


def _all_columns(items: Iterator[Any]) -> Iterator[Columns]:
    """The values of what a stream is written with: batches, or single rows."""
    for first in items:
        if isinstance(first, pa.RecordBatch):
            yield _columns(first)
        else:
            yield _of_rows([first, *islice(items, _ROWS - 1)])


def _of_rows(rows: list[Row]) -> Columns:
    names = [name for name in rows[0].__fields__ if name in ("data", "subject", "headers", "msg_id")]
    columns: dict[str, Sequence[Any]] = {name: [row[name] for row in rows] for name in names}
    data = columns["data"]
    return columns | {
        "data": [text.encode() if isinstance(text, str) else text and bytes(text) for text in data]
    }


def _tell(what: str, messages: Sequence[WriterCommitMessage | None], seconds: float | None) -> None:
    log_to_stderr()
    results = [message for message in messages if isinstance(message, TaskResult)]
    rows = sum(result.rows for result in results)
    duplicates = sum(result.duplicates for result in results)
    took = max((result.seconds for result in results), default=0.0) if seconds is None else seconds
    logger.info("%s wrote %d rows, %d of them were there, in %.1f s", what, rows, duplicates, took)
