"""The columns of a read as Spark types; `jetspark.arrow` has the same as Arrow types."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types
from pyspark.sql.types import StringType, StructField, StructType

from jetspark.errors import UsageError

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


def read_schema(*, headers: bool) -> StructType:
    return StructType([field for field in READ_SCHEMA if headers or field.name != "headers"])


def check_schema(given: StructType, *, headers: bool) -> None:
    """Raise `UsageError` for any other schema."""
    if given != read_schema(headers=headers):
        raise UsageError(
            f"the schema of a stream is fixed and cannot be {given.simpleString()}",
            hint="Remove .schema(...), and select or cast columns instead",
        )
