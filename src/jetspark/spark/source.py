"""`format("jetstream")`: the entry point, which makes a reader or a writer out of the options.

Spark starts several Python processes for a query, and each imports this module. So readers and writers are
imported where they are made.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.spark.options import SourceOptions, Use, parse_options
from jetspark.spark.schema import check_schema, read_schema

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
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> StructType:
        """The columns of a read: of messages, dead letters, keys or objects, depending on the options."""
        self._require_stream()
        return read_schema(self._parsed)

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

        self._parsed.check_use(Use.WRITE)
        return JetStreamWriter(self._parsed, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
        """For `df.writeStream`. Spark sets `overwrite` for the output mode complete."""
        from jetspark.spark.write.writer import JetStreamStreamWriter  # noqa: PLC0415

        self._parsed.check_use(Use.WRITE)
        if overwrite:
            raise UsageError("a stream cannot be overwritten", hint='Use outputMode("append")')
        return JetStreamStreamWriter(self._parsed, schema)

    def _require_stream(self) -> None:
        if not (self._parsed.stream or self._parsed.object_store or self._parsed.dead_letters):
            raise UsageError(
                "missing option stream",
                hint='Name the streams to read: .option("stream", "ORDERS"), or "A,B", or "ORDERS-*"; '
                'or a bucket: .option("bucket", "prices")',
            )

    def _checked(self, schema: StructType, use: Use) -> SourceOptions:
        self._require_stream()
        self._parsed.check_use(use)
        self._parsed.check_read(use)
        check_schema(schema, self._parsed)
        return self._parsed


def _queue_reader(options: SourceOptions) -> JetStreamQueueReader:
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise UsageError(
            f"option consumer requires Spark 4.2 or later, not {pyspark.__version__}: "
            "older versions do not tell a Python source which batch is committed",
            hint="Upgrade Spark, or read the stream without the option",
        )
    from jetspark.spark.queue.stream import JetStreamQueueReader  # noqa: PLC0415

    return JetStreamQueueReader(options)
