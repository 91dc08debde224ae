"""Columns for the times in lines. Parsing a line again gives the same time, and no line raises.

Spark takes a time without a date as today's, which changes tomorrow, and raises for years out of range. So
texts are checked before Spark parses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.logs.job.patterns import far_year
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["TIME_PARTS", "formatted_time", "iso_time", "of_this_era", "time_of", "time_of_this_year"]

_DATE: Final = r"^\d{4}-\d\d-\d\d"
_FIRST: Final = "0001-01-01 00:00:00"
_LAST: Final = "9999-12-31 23:59:59.999999"
#: The parts of a time, such as 31, Jan, 2026, 12, 00, 00 and +0100.
TIME_PARTS: Final = ("day", "month", "year", "hour", "minute", "second", "zone")
_MONTH: Final = "instr('janfebmaraprmayjunjulaugsepoctnovdec', lower({month}))"
_MINUTES_AHEAD: Final = "({zone} div 100 * 60 + {zone} % 100)"
_TIME: Final = f"""
    CASE WHEN {{hour}} < 24 AND {{minute}} < 60 AND {{second}} < 60 AND {_MONTH} % 3 = 1
        AND abs({{zone}} % 100) < 60 AND abs({_MINUTES_AHEAD}) <= 18 * 60
    THEN timestamp_seconds(
        unix_date(make_date({{year}}, cast({_MONTH} div 3 + 1 AS int), {{day}})) * 86400L
        + {{hour}} * 3600 + ({{minute}} - {_MINUTES_AHEAD}) * 60 + {{second}}
    ) END
"""


def iso_time(text: Column, begins: str = _DATE) -> Column:
    """An ISO 8601 time with its date; null if the text is not one."""
    return F.when(text.rlike(begins), text).try_cast("timestamp")


def formatted_time(text: Column, time_format: str) -> Column:
    """A time in a Spark format, or null."""
    return F.try_to_timestamp(F.when(~text.rlike(far_year(time_format)), text), F.lit(time_format))


def time_of(prefix: str) -> Column:
    """A time from text columns `<prefix>day` and so on, see `TIME_PARTS`; null if there is no such time.

    Spark's own function for a format takes as long as the match of a whole line of an access log.
    """
    number = "try_cast({} AS int)".format
    names = {part: f"{prefix}{part}" for part in TIME_PARTS}
    return F.expr(
        _TIME.format(**{part: name if part == "month" else number(name) for part, name in names.items()})
    )


def of_this_era(time: Column) -> Column:
    """The time if its year has four digits, the limit of directories and readers; else null."""
    return F.when(time.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp")), time)


def time_of_this_year(text: Column) -> Column:
    """A time without a year: the last such day before the line was received."""
    day = F.regexp_replace(text, "  ", " ")
    latest = F.col("received") + F.expr("INTERVAL 1 DAY")

    def in_year(back: int) -> Column:
        year = (F.year("received") + 1 - back).cast("string")
        time = F.try_to_timestamp(F.concat_ws(" ", year, day), F.lit("yyyy MMM d HH:mm:ss"))
        return F.when(time <= latest, time)

    # The last February 29 may be up to eight years ago.
    return F.coalesce(*map(in_year, range(10)))
