"""Columns for the groups of a match, and for JSON values. No line raises."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.patterns import Pattern

__all__ = ["dashed", "is_one_value", "matched", "or_null"]

#: Separates the groups of a match; a line that contains it does not parse.
_MARK: Final = "\x01"


def matched(frame: DataFrame, column: str, pattern: Pattern, prefix: str) -> DataFrame:
    """The frame with the groups of a match as columns `<prefix><name>`, and whether it matched as `<prefix>`.

    The line is matched once, not once for each group: one replacement joins the groups, and a split separates
    them again.
    """
    order = list(pattern.groups.items())
    template = "".join(f"{_MARK}${number}" for _, number in order) + _MARK
    marked = F.when(~F.col(column).contains(_MARK), F.regexp_replace(column, pattern.text, template))
    parts = f"{prefix}parts"
    frame = frame.withColumn(parts, F.split(marked, _MARK, -1))
    found = F.coalesce(F.size(parts) == len(order) + 2, F.lit(False)) & (F.get(parts, 0) == "")
    columns = {prefix: F.coalesce(found, F.lit(False))}
    columns |= {f"{prefix}{name}": F.get(parts, index) for index, (name, _) in enumerate(order, 1)}
    return frame.withColumns(columns)


def dashed(name: str) -> Column:
    """A text column, null if it is `-` or empty."""
    return F.when(~F.col(name).isin("-", ""), F.col(name))


def or_null(name: str) -> Column:
    """A text column, null if it is empty."""
    return F.when(F.col(name) != "", F.col(name))


def is_one_value(text: Column) -> Column:
    """Whether a text is a single JSON value.

    Spark's functions stop after the first value. So the text is put into two lists whose lengths are known if
    it is one value: alone, and before another element.
    """

    def listed(rest: str) -> Column:
        return F.json_array_length(F.concat(F.lit("["), text, F.lit(rest)))

    return F.coalesce((listed("]") == 1) & (listed(",0]") == 2), F.lit(False))
