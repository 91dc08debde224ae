"""Decodes messages into lines: decompressed, as text, with the columns of their origin."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from jetspark.logs.format.message import CUT, ENCODING, FILE, HOST, OFFSET
from jetspark.logs.job.target import TRACE_COLUMNS

__all__ = ["HEADER_COLUMNS", "read_lines"]

#: The columns that the source makes of the agent's headers, and of those with the trace context.
HEADER_COLUMNS: Final = {
    "_host": HOST,
    "_file": FILE,
    "_offset": OFFSET,
    "_cut": CUT,
    "_encoding": ENCODING,
    **TRACE_COLUMNS,
}

#: The limit on a decompressed line in bytes. The agent cuts lines far below it.
_MAX_BYTES: Final = 1024 * 1024
#: The limit on a decompressed batch: Arrow offsets have 31 bits, and small payloads can decompress to a lot.
_MAX_BATCH_BYTES: Final = 64 * 1024 * 1024


def read_lines(messages: DataFrame, *, compressed: bool) -> tuple[DataFrame, Column]:
    """The messages with `_line`, and the reason for lines that cannot be decoded."""
    if compressed:
        frame, reason = _decompressed(messages), "invalid compressed data"
    else:
        frame = messages.withColumns({"_plain": F.col("data"), "_undecoded": _compression().isNotNull()})
        reason = "the line is compressed, and source.compressed is not set"
    return _with_meta(frame), F.when(F.col("_undecoded"), F.lit(reason))


def _compression() -> Column:
    encoding = F.lower("_encoding")
    return F.when(encoding.isin("gzip", "zstd"), encoding)


def _decompressed(messages: DataFrame) -> DataFrame:
    """The messages with `_plain`, the decompressed data; null if decompression fails."""
    named = messages.withColumn("_compression", _compression())
    schema = StructType([*named.schema.fields, StructField("_plain", BinaryType())])
    unpacked = named.mapInArrow(unpack, schema)
    return unpacked.withColumn("_undecoded", F.col("_plain").isNull()).drop("_compression")


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with a column `_plain` of at most `_MAX_BATCH_BYTES` bytes."""
    for batch in batches:
        data = batch.column(batch.schema.get_field_index("data"))
        encodings = batch.column(batch.schema.get_field_index("_compression"))
        if encodings.null_count == len(encodings):
            yield _joined(batch, data)
            continue
        first, size, plain = 0, 0, list[bytes | None]()
        for packed, encoding in zip(data, encodings, strict=True):
            made = _plain(packed.as_py(), encoding.as_py())
            if plain and size + len(made or b"") > _MAX_BATCH_BYTES:
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
            plain: bytes = stream.read(_MAX_BYTES + 1)
    except (OSError, pa.ArrowException, zlib.error):
        return None
    return plain if len(plain) <= _MAX_BYTES else None


def _with_meta(frame: DataFrame) -> DataFrame:
    last_token = F.element_at(F.split("subject", r"\."), -1)
    return frame.select(
        "subject",
        "stream",
        "sequence",
        F.col("timestamp").alias("received"),
        F.coalesce("_host", last_token).alias("host"),
        F.col("_file").alias("file"),
        F.col("_offset").try_cast("bigint").alias("line_offset"),
        F.coalesce(F.lower("_cut") == "true", F.lit(False)).alias("cut"),
        F.make_valid_utf8(F.col("_plain").cast("string")).alias("_line"),
        F.col("data").alias("_data"),
        *HEADER_COLUMNS,
        "_undecoded",
    )
