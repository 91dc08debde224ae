"""Columns for the groups of a match, and for JSON values. No line raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.logs.job.patterns import Pattern
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["MARK", "dashed", "is_list", "matched", "or_null"]

#: Separates the groups of a match; a line that contains it does not parse.
MARK: Final = "\x01"


def matched(frame: DataFrame, column: str, pattern: Pattern, prefix: str) -> DataFrame:
    """The frame with the groups of a match as columns `<prefix><name>`, and whether it matched as `<prefix>`.

    The line is matched once, not once for each group: one replacement joins the groups, and a split separates
    them again.
    """
    order = list(pattern.groups.items())
    template = "".join(f"{MARK}${number}" for _, number in order) + MARK
    marked = F.when(~F.col(column).contains(MARK), F.regexp_replace(column, pattern.text, template))
    parts = f"{prefix}parts"
    frame = frame.withColumn(parts, F.split(marked, MARK, -1))
    # As SQL: each call of a function of Spark takes Python a third of a millisecond.
    found = f"coalesce(size({parts}) = {len(order) + 2} AND get({parts}, 0) = '', false)"
    columns = {prefix: F.expr(found)}
    columns |= {
        f"{prefix}{name}": F.expr(f"get({parts}, {index})") for index, (name, _) in enumerate(order, 1)
    }
    return frame.withColumns(columns)


def dashed(name: str) -> Column:
    """A text column, null if it is `-` or empty."""
    return F.expr(f"CASE WHEN `{name}` NOT IN ('-', '') THEN `{name}` END")


def or_null(name: str) -> Column:
    """A text column, null if it is empty."""
    return F.expr(f"nullif(`{name}`, '')")


def is_list(values: Column, count: Column) -> Column:
    """Whether a text is JSON values with commas between them, if Spark reads this many of them from `[text]`.

    Spark ignores text after the end of a list, as in `[1] and more]`. So another value is put at the end of
    the text: it counts only if the list does not end before it.
    """
    length = F.json_array_length(F.concat(F.lit("["), values, F.lit(",0]")))
    return F.coalesce(length == count + 1, F.lit(False))
