"""Dead letters: lines that do not parse, published as they were, with the reason in a header."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.target import line_id
from jetspark.spark.write.dead_letters import REASON, TRUNCATED

__all__ = ["HEADER_BYTES", "REASON", "SEQUENCE", "STREAM", "as_dead_letters"]

STREAM: Final = "Dead-Letter-Stream"
SEQUENCE: Final = "Dead-Letter-Sequence"
#: The bytes of a message that are reserved for headers.
HEADER_BYTES: Final = 16 * 1024

#: The longest value of a header, so that all of them fit into `HEADER_BYTES`.
_MAX_CHARACTERS: Final = 512


def as_dead_letters(rows: DataFrame, name: str, max_bytes: int) -> DataFrame:
    """Rows with a `_reason` as messages: the data of the line, its headers, and its place in the stream."""
    # Other headers of the line may be instructions to the server.
    kept = {header: F.col(column) for column, header in HEADER_COLUMNS.items()}
    own = {
        REASON: F.col("_reason"),
        STREAM: F.col("stream"),
        SEQUENCE: F.col("sequence").cast("string"),
        TRUNCATED: F.when(F.octet_length("_data") > max_bytes, F.lit("true")),
    }
    entries = [
        F.struct(F.lit(header).alias("key"), _one_line(value).alias("value"))
        for header, value in {**kept, **own}.items()
    ]
    headers = F.map_from_entries(F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull()))
    return rows.select(
        F.substring("_data", 1, max_bytes).alias("data"),
        headers.alias("headers"),
        line_id(name, "dead").alias("msg_id"),
    )


def _one_line(value: Column) -> Column:
    return F.substring(F.regexp_replace(value, r"[\x00-\x1f\x7f]", "?"), 1, _MAX_CHARACTERS)
