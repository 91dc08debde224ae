"""Rows that do not parse, as dead letters: messages with the data of the row and the reason in a header.

`split_poison` is for `foreachBatch`; the pipeline's dead letters are built with the same function, `letters`.

| header                  |                                                    |
|-------------------------|----------------------------------------------------|
| `Dead-Letter-Reason`    | why it does not parse                              |
| `Dead-Letter-Subject`   | the subject of the original message                |
| `Dead-Letter-Stream`    | its stream                                         |
| `Dead-Letter-Sequence`  | its sequence there                                 |
| `Dead-Letter-Headers`   | its headers, as JSON                               |
| `Dead-Letter-Truncated` | `true` if the data was too large and is cut        |

Each value is one line, cut to 512 characters, or more for the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.errors import UsageError
from jetspark.spark.write.dead_letters import HEADERS, REASON, SUBJECT, TRUNCATED

__all__ = ["REASON", "SEQUENCE", "STREAM", "letters", "split_poison"]

STREAM: Final = "Dead-Letter-Stream"
SEQUENCE: Final = "Dead-Letter-Sequence"

#: The longest value of a header.
_MAX_CHARACTERS: Final = 512
#: The longest headers as JSON. A stream takes 64 KiB of headers.
_MAX_HEADERS: Final = 32 * 1024
#: The column in which `parse` says why a row does not parse.
_REASON: Final = "_reason"
#: The columns of a read that `split_poison` needs.
_NEEDED: Final = ("subject", "data", "stream", "sequence", "timestamp")


def split_poison(
    rows: DataFrame, parse: Callable[[DataFrame], DataFrame], *, max_bytes: int = 900_000
) -> tuple[DataFrame, DataFrame]:
    """The rows that parse, and the others as messages for a dead-letter subject.

    `parse` takes the rows of a read and returns them with more columns, one of them `_reason`: null, or why
    the row does not parse. It must not remove rows or the columns of the read. Write the second frame with
    `format("jetstream")` and the option `subject`; its `msg_id` names the place of the original message, so
    that a repeated batch adds nothing within the duplicate window. Both frames compute `parse`: persist
    `rows` if that is expensive. Data of more than `max_bytes` is cut. Raises `UsageError`.
    """
    parsed = parse(rows)
    missing = [name for name in (*_NEEDED, _REASON) if name not in parsed.columns]
    if missing:
        raise UsageError(
            f"parse returned rows without {', '.join(missing)}",
            hint="Add columns to those of the read; `_reason` is null where a row parses",
        )
    poison = parsed.where(F.col(_REASON).isNotNull())
    place = F.concat_ws(
        "/",
        F.lit("dead"),
        "stream",
        F.col("sequence").cast("string"),
        F.unix_micros("timestamp").cast("string"),
    )
    own = {SUBJECT: F.col("subject")}
    if "headers" in parsed.columns:
        own[HEADERS] = F.when(F.size("headers") > 0, F.to_json("headers"))
    return (
        parsed.where(F.col(_REASON).isNull()).drop(_REASON),
        letters(poison, data="data", headers=own, msg_id=place, max_bytes=max_bytes),
    )


def letters(
    rows: DataFrame, *, data: str, headers: Mapping[str, Column], msg_id: Column, max_bytes: int
) -> DataFrame:
    """Rows with `_reason`, `stream` and `sequence` as messages, with the headers that are not null."""
    own = {
        **headers,
        REASON: F.col(_REASON),
        STREAM: F.col("stream"),
        SEQUENCE: F.col("sequence").cast("string"),
        TRUNCATED: F.when(F.octet_length(data) > max_bytes, F.lit("true")),
    }
    entries = [
        F.struct(F.lit(header).alias("key"), _one_line(header, value).alias("value"))
        for header, value in own.items()
    ]
    fields = F.map_from_entries(F.filter(F.array(*entries), lambda entry: entry["value"].isNotNull()))
    return rows.select(
        F.substring(data, 1, max_bytes).alias("data"), fields.alias("headers"), msg_id.alias("msg_id")
    )


def _one_line(header: str, value: Column) -> Column:
    longest = _MAX_HEADERS if header == HEADERS else _MAX_CHARACTERS
    return F.substring(F.regexp_replace(value, r"[\x00-\x1f\x7f]", "?"), 1, longest)
