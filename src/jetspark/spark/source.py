"""`format("jetstream")`: what Spark makes of its name and options."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jetspark.errors import UsageError
from jetspark.spark.options import SourceOptions, Use, parse_options
from jetspark.spark.read.batch import JetStreamReader
from jetspark.spark.read.stream import JetStreamStreamReader
from jetspark.spark.schema import check_schema, read_schema
from jetspark.spark.write.writer import JetStreamStreamWriter, JetStreamWriter

__all__ = ["JetStreamDataSource"]


class JetStreamDataSource(DataSource):
    """NATS JetStream as a source and a sink of Spark.

    Spark finds it by itself, as `format("jetstream")`, where jetspark is installed. Where it does not:
    `spark.dataSource.register(JetStreamDataSource)`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "jetstream"

    def schema(self) -> StructType:
        """The columns of a read; `includeHeaders` decides about one of them."""
        self._readable()
        return read_schema(headers=self._parsed.include_headers)

    def reader(self, schema: StructType) -> JetStreamReader:
        """For `spark.read`."""
        return JetStreamReader(self._checked(schema, Use.BATCH))

    def streamReader(self, schema: StructType) -> JetStreamStreamReader:
        """For `spark.readStream`."""
        return JetStreamStreamReader(self._checked(schema, Use.STREAM))

    def writer(self, schema: StructType, overwrite: bool) -> JetStreamWriter:
        """For `df.write`."""
        self._parsed.check_use(Use.WRITE)
        return JetStreamWriter(self._parsed, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
        """For `df.writeStream`. Spark says `overwrite` for the output mode complete."""
        self._parsed.check_use(Use.WRITE)
        if overwrite:
            raise UsageError("a stream cannot be overwritten", hint='Use outputMode("append")')
        return JetStreamStreamWriter(self._parsed, schema)

    def _readable(self) -> None:
        if not self._parsed.stream:
            raise UsageError(
                "option stream is missing",
                hint='Say what to read: .option("stream", "ORDERS"); also several with commas, or with *',
            )

    def _checked(self, schema: StructType, use: Use) -> SourceOptions:
        self._readable()
        self._parsed.check_use(use)
        check_schema(schema, headers=self._parsed.include_headers)
        return self._parsed
