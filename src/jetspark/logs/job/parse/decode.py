"""Lines, as messages bring them: decompressed, as text, and with where they are from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from jetspark.logs.format.message import CUT, ENCODING, FILE, HOST, OFFSET

__all__ = ["first_header", "read_lines"]

#: What a compressed line may become. Lines are cut far below that when they are shipped.
_MOST_BYTES: Final = 1024 * 1024
#: How much of it is handed on at once: Arrow counts in 31 bits, and many small lines can become very large.
_AT_ONCE: Final = 64 * 1024 * 1024


def first_header(column: str, name: str) -> Column:
    """The first value of a header, whatever the case of its name, or null."""
    values = F.map_values(F.map_filter(column, lambda key, _: F.lower(key) == name.lower()))
    return F.get(F.get(values, 0), 0)


def read_lines(messages: DataFrame, *, compressed: bool) -> tuple[DataFrame, Column]:
    """What `format("jetstream")` reads, with `_line`; and the reason for lines that cannot be read."""
    frame = _decompressed(messages) if compressed else _as_it_is(messages)
    reason = (
        "the line cannot be decompressed"
        if compressed
        else "the line is compressed, and source.compressed is not set"
    )
    return _with_meta(frame), F.when(F.col("_undone"), F.lit(reason))


def _as_it_is(messages: DataFrame) -> DataFrame:
    encoded = F.coalesce(_encoding().isNotNull(), F.lit(False))
    return messages.withColumn("_plain", F.col("data")).withColumn("_undone", encoded)


def _encoding() -> Column:
    encoding = F.lower(first_header("headers", ENCODING))
    return F.when(encoding.isin("gzip", "zstd"), encoding)


def _decompressed(messages: DataFrame) -> DataFrame:
    """With `_plain`, the data as it was before it was compressed; null where that fails."""
    named = messages.withColumn("_encoding", _encoding())
    schema = StructType([*named.schema.fields, StructField("_plain", BinaryType())])
    unpacked = named.mapInArrow(unpack, schema)
    return unpacked.withColumn("_undone", F.col("_plain").isNull()).drop("_encoding")


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with a column `_plain`, of no more than `_AT_ONCE` bytes."""
    for batch in batches:
        data = batch.column(batch.schema.get_field_index("data"))
        encodings = batch.column(batch.schema.get_field_index("_encoding"))
        if encodings.null_count == len(encodings):
            yield _joined(batch, data)
            continue
        first, size, plain = 0, 0, list[bytes | None]()
        for packed, encoding in zip(data, encodings, strict=True):
            made = _plain(packed.as_py(), encoding.as_py())
            if plain and size + len(made or b"") > _AT_ONCE:
                yield _joined(batch.slice(first, len(plain)), pa.array(plain, pa.binary()))
                first, size, plain = first + len(plain), 0, []
            plain.append(made)
            size += len(made or b"")
        yield _joined(batch.slice(first), pa.array(plain, pa.binary()))


def _joined(batch: pa.RecordBatch, plain: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, plain], names=[*batch.schema.names, "_plain"])


def _plain(data: bytes, encoding: str | None) -> bytes | None:
    if encoding is None:
        return data
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), encoding) as stream:
            plain: bytes = stream.read(_MOST_BYTES + 1)
    except (OSError, pa.ArrowException, zlib.error):
        return None
    return plain if len(plain) <= _MOST_BYTES else None


def _with_meta(frame: DataFrame) -> DataFrame:
    last_token = F.element_at(F.split("subject", r"\."), -1)

    def header(name: str) -> Column:
        return first_header("headers", name)

    return frame.select(
        "subject",
        "stream",
        "sequence",
        F.col("timestamp").alias("received"),
        F.coalesce(header(HOST), last_token).alias("host"),
        header(FILE).alias("file"),
        header(OFFSET).try_cast("bigint").alias("line_offset"),
        F.coalesce(F.lower(header(CUT)) == "true", F.lit(False)).alias("cut"),
        F.make_valid_utf8(F.col("_plain").cast("string")).alias("_line"),
        F.col("data").alias("_data"),
        F.col("headers").alias("_headers"),
        "_undone",
    )
