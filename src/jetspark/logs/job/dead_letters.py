"""Dead letters: lines that do not parse, published as they were, with the reason in a header."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.parse.decode import HEADER_COLUMNS
from jetspark.logs.job.target import line_id
from jetspark.spark.poison import REASON, SEQUENCE, STREAM, letters

__all__ = ["HEADER_BYTES", "REASON", "SEQUENCE", "STREAM", "as_dead_letters"]

#: The bytes of a message that are reserved for headers.
HEADER_BYTES: Final = 16 * 1024


def as_dead_letters(rows: DataFrame, name: str, max_bytes: int) -> DataFrame:
    """Rows with a `_reason` as messages: the data of the line, its headers, and its place in the stream."""
    # Other headers of the line may be instructions to the server.
    kept = {header: F.col(column) for column, header in HEADER_COLUMNS.items()}
    return letters(rows, data="_data", headers=kept, msg_id=line_id(name, "dead"), max_bytes=max_bytes)
