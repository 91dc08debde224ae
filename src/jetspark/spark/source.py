"""`format("jetstream")`: the entry point, which makes a reader or a writer out of the options.

Spark starts several Python processes for a query, and each imports this module. So readers and writers are
imported where they are made.
"""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jetspark.core.servers import DEFAULT_URL
from jetspark.errors import UsageError
from jetspark.spark.options import SourceOptions, Use, parse_options
from jetspark.spark.schema import check_schema, read_schema
from jetspark.spark.table import insert_options, new_table_options, read_options, with_table_options

if TYPE_CHECKING:
    from jetspark.spark.queue.stream import JetStreamQueueReader
    from jetspark.spark.read.batch import JetStreamReader
    from jetspark.spark.read.stream import JetStreamStreamReader
    from jetspark.spark.write.writer import JetStreamStreamWriter, JetStreamWriter

__all__ = ["JetStreamDataSource"]


class JetStreamDataSource(DataSource):
    """NATS JetStream as a source and a sink of Spark.

    Spark discovers `format("jetstream")` where jetspark is installed. Elsewhere, register it:
    `spark.dataSource.register(JetStreamDataSource)`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._new_table = new_table_options(options)
        self._parsed = parse_options(options if self._new_table is None else self._new_table)

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> StructType:
        """The columns of a read: of messages, dead letters, keys or objects, depending on the options."""
        _require_stream(self._parsed)
        columns = read_schema(self._parsed)
        return columns if self._new_table is None else with_table_options(columns, self._new_table)

    def reader(self, schema: StructType) -> JetStreamReader:
        options = self._checked(schema, Use.BATCH)
        if options.dead_letters is not None:
            from jetspark.spark.dead_letters import DeadLetterReader  # noqa: PLC0415

            return DeadLetterReader(options)
        from jetspark.spark.read.batch import JetStreamReader  # noqa: PLC0415

        return JetStreamReader(options)

    def streamReader(self, schema: StructType) -> JetStreamStreamReader | JetStreamQueueReader:
        options = self._checked(schema, Use.STREAM)
        if options.consumer is not None:
            return _queue_reader(options)
        if options.dead_letters is not None:
            from jetspark.spark.dead_letters import DeadLetterStreamReader  # noqa: PLC0415

            return DeadLetterStreamReader(options)
        from jetspark.spark.read.stream import JetStreamStreamReader  # noqa: PLC0415

        return JetStreamStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> JetStreamWriter:
        from jetspark.spark.write.writer import JetStreamWriter  # noqa: PLC0415

        merged = insert_options(schema, self.options)
        options = self._parsed
        if merged is None:
            self._require_options()
        else:
            options = dataclasses.replace(parse_options(merged), of_table=True)
        options.check_use(Use.WRITE)
        return JetStreamWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
        """For `df.writeStream`. Spark sets `overwrite` for the output mode complete."""
        from jetspark.spark.write.writer import JetStreamStreamWriter  # noqa: PLC0415

        self._require_options()
        self._parsed.check_use(Use.WRITE)
        if overwrite:
            raise UsageError("a stream cannot be overwritten", hint='Use outputMode("append")')
        return JetStreamStreamWriter(self._parsed, schema)

    def _checked(self, schema: StructType, use: Use) -> SourceOptions:
        options = parse_options(read_options(schema, self.options, use))
        _require_stream(options)
        options.check_use(use)
        options.check_read(use)
        check_schema(schema, options)
        return options

    def _require_options(self) -> None:
        """In some statements Spark drops a table's options. Their rows must not go to the default server."""
        if not self._parsed.given:
            raise UsageError(
                "a write without options: it is not clear where the rows should go",
                hint=f'Add .option("servers", "{DEFAULT_URL}"), or another option. Spark passes no options '
                "of a table to CREATE TABLE ... AS SELECT and toTable(), nor to an INSERT of rows that have "
                "all its columns; INSERT INTO t (subject, data) SELECT subject, data FROM ... works",
            )


def _require_stream(options: SourceOptions) -> None:
    if not (options.stream or options.object_store or options.dead_letters):
        raise UsageError(
            "missing option stream",
            hint='Name the streams to read: .option("stream", "ORDERS"), or "A,B", or "ORDERS-*"; '
            'or a bucket: .option("bucket", "prices"). A table must be created without a list of columns, '
            "because Spark does not pass its options otherwise",
        )


def _queue_reader(options: SourceOptions) -> JetStreamQueueReader:
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise UsageError(
            f"option consumer requires Spark 4.2 or later, not {pyspark.__version__}: "
            "older versions do not report committed batches to a Python source",
            hint="Upgrade Spark, or read the stream without the option",
        )
    from jetspark.spark.queue.stream import JetStreamQueueReader  # noqa: PLC0415

    return JetStreamQueueReader(options)
