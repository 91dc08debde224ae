"""How the rows of a batch are divided into files: partition columns, and their values as directory names."""

from __future__ import annotations

import functools
import os
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from jetspark.logs.job.config import Config
from jetspark.logs.job.sql import F
from jetspark.logs.toml_lines import Where, check_each_once, there_are

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["PARQUET_OPTIONS", "check_layout", "divided", "partition_values"]

#: No dictionary for columns with another value in each row; Parquet would find that out again for each file.
PARQUET_OPTIONS: Final = {
    f"parquet.enable.dictionary#{name}": "false" for name in ("line_offset", "sequence", "received")
}
#: Values that name a directory unchanged; others are hashed. Any publisher can choose the name of a host, and
#: `__HIVE_DEFAULT_PARTITION__` is how readers spell null.
_SAFE: Final = """
    trim(LEADING '{characters}' FROM {name}) = '' AND octet_length({name}) BETWEEN 1 AND 128
    AND NOT startswith({name}, '.') AND {name} <> '{null}'
"""
_SAFE_CHARACTERS: Final = string.ascii_letters + string.digits + "._-"
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Up to this many files of a batch in one directory cost less than a shuffle.
_FEW_TASKS: Final = 4


def check_layout(path: str, by: Sequence[str], config: Config, where: Where) -> None:
    """Check the directory and the partition columns of a table. Raises `UsageError`."""
    if _overlap(path, config.checkpoint):
        raise where.error("sink.path", "table and checkpoint must be apart: one is inside the other")
    known = (*config.written_columns, "date")
    check_each_once(by, where, "sink.partition_by")
    for name in by:
        if name not in known:
            raise where.error("sink.partition_by", f"column {name!r} not found", there_are(known))
    if set(by) >= set(config.written_columns):
        raise where.error("sink.partition_by", "leaves no column to write")


def divided(rows: DataFrame, columns: Sequence[str], by: Sequence[str]) -> DataFrame:
    """The columns of the table, partition columns included, with values that can name a directory."""
    texts = frozenset(field.name for field in rows.schema if field.dataType.simpleString() == "string")
    made = rows.select(*_selection(rows.sparkSession._jvm, tuple(columns), tuple(by), texts))
    if by and rows.sparkSession.sparkContext.defaultParallelism > _FEW_TASKS:
        made = made.repartition(*by)  # One file for each directory, not one for each task.
    return made


@functools.lru_cache(maxsize=8)
def _selection(
    jvm: object, columns: Sequence[str], by: Sequence[str], texts: frozenset[str]
) -> Sequence[Column]:
    """The columns of `divided`. They are made once: each takes a few calls, and a table gets many batches."""

    def column(name: str) -> Column:
        if name.lower() == "date" and "date" in by:
            return F.to_date(columns[0]).alias("date")
        return _safe(name).alias(name) if name in by and name in texts else F.col(name)

    added = {"date"} & set(by) - {name.lower() for name in columns}
    return [column(name) for name in (*columns, *added)]


def partition_values(path: str, by: Sequence[str]) -> Mapping[str, str | None]:
    """The values in a path such as `date=2026-01-31/host=web1/part-0.parquet`, as Spark wrote them."""
    found = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    return {name: None if found[name] == _NULL else unquote(found[name]) for name in by}


def _safe(name: str) -> Column:
    quoted = f"`{name}`"
    safe = _SAFE.format(characters=_SAFE_CHARACTERS, name=quoted, null=_NULL)
    hashed = f"'sha-' || substr(sha2({quoted}, 256), 1, 32)"
    return F.expr(f"CASE WHEN {safe} THEN {quoted} WHEN {quoted} IS NOT NULL THEN {hashed} END")


def _overlap(path: str, other: str) -> bool:
    one, two = (os.path.normpath(each.removeprefix("file://")).split("/") for each in (path, other))
    length = min(len(one), len(two))
    return one[:length] == two[:length]
