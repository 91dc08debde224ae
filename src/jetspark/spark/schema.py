"""The columns of a read as Spark types; `jetspark.arrow` has the same as Arrow types."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types
from pyspark.sql.types import StringType, StructField, StructType

from jetspark.errors import UsageError
from jetspark.spark.options import SourceOptions

__all__ = ["BUCKET_SCHEMA", "LETTER_SCHEMA", "OBJECT_SCHEMA", "READ_SCHEMA", "check_schema", "read_schema"]

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


#: A revision of a key.
BUCKET_SCHEMA: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("value", types.BinaryType()),
        StructField("revision", types.LongType()),
        StructField("operation", StringType()),
        StructField("created", types.TimestampType()),
    ]
)
#: An object of a store.
OBJECT_SCHEMA: Final = StructType(
    [
        StructField("name", StringType()),
        StructField("size", types.LongType()),
        StructField("chunks", types.LongType()),
        StructField("digest", StringType()),
        StructField("modified", types.TimestampType()),
        StructField("description", StringType()),
        StructField("metadata", types.MapType(StringType(), StringType())),
        StructField("link_bucket", StringType()),
        StructField("link_name", StringType()),
    ]
)
#: The columns of dead letters.
LETTER_SCHEMA: Final = StructType(
    [
        StructField("stream", StringType()),
        StructField("consumer", StringType()),
        StructField("sequence", types.LongType()),
        StructField("kind", StringType()),
        StructField("reason", StringType()),
        StructField("deliveries", types.IntegerType()),
        StructField("given_up", types.TimestampType()),
        StructField("gone", types.BooleanType()),
        StructField("subject", StringType()),
        StructField("data", types.BinaryType()),
        StructField("headers", types.MapType(StringType(), types.ArrayType(StringType()))),
        StructField("timestamp", types.TimestampType()),
    ]
)


def read_schema(options: SourceOptions) -> StructType:
    """The columns of a read with these options."""
    if options.object_store is not None:
        return OBJECT_SCHEMA
    if options.bucket is not None:
        return BUCKET_SCHEMA
    if options.dead_letters is not None:
        return LETTER_SCHEMA
    fields = [field for field in READ_SCHEMA if options.include_headers or field.name != "headers"]
    if not options.include_data:
        fields[1] = StructField("size", types.LongType())
    if options.consumer is not None:
        fields.append(StructField("num_delivered", types.IntegerType()))
    return StructType([*fields, *(StructField(name, StringType()) for name, _ in options.header_columns)])


def check_schema(given: StructType, options: SourceOptions) -> None:
    """Raise `UsageError` for any other schema. The metadata of columns does not matter."""
    if StructType([StructField(each.name, each.dataType, each.nullable) for each in given]) != read_schema(
        options
    ):
        raise UsageError(
            f"the schema of a stream is fixed and cannot be {given.simpleString()}",
            hint="Remove .schema(...), and select or cast columns instead",
        )
