"""The columns of a read as Spark types; `jetspark.arrow` has the same as Arrow types."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types
from pyspark.sql.types import StringType, StructField, StructType

from jetspark.errors import UsageError
from jetspark.spark.options import SourceOptions

__all__ = ["READ_SCHEMA", "check_schema", "read_schema"]

READ_SCHEMA: Final = StructType(
    [
        StructField("subject", StringType()),
        StructField("data", types.BinaryType()),
        StructField("headers", types.MapType(StringType(), types.ArrayType(StringType()))),
        StructField("stream", StringType()),
        StructField("sequence", types.LongType()),
        StructField("timestamp", types.TimestampType()),
    ]
)


def read_schema(options: SourceOptions) -> StructType:
    fields = [field for field in READ_SCHEMA if options.include_headers or field.name != "headers"]
    if not options.include_data:
        fields[1] = StructField("size", types.LongType())
    return StructType([*fields, *(StructField(name, StringType()) for name, _ in options.header_columns)])


def check_schema(given: StructType, options: SourceOptions) -> None:
    """Raise `UsageError` for any other schema."""
    if given != read_schema(options):
        raise UsageError(
            f"the schema of a stream is fixed and cannot be {given.simpleString()}",
            hint="Remove .schema(...), and select or cast columns instead",
        )
