"""Times that lines tell, as columns. A line that is read again tells the same time, and none raises.

Spark reads a time without a date as one of today, which is another one tomorrow; and it raises for years that
it cannot count. So what it is given is looked at first.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from jetspark.logs.job.parse.patterns import far_year

__all__ = ["formatted_time", "iso_time", "of_this_era", "time_of_this_year"]

_DATE: Final = r"^\d{4}-\d\d-\d\d"
_FIRST: Final = "0001-01-01 00:00:00"
_LAST: Final = "9999-12-31 23:59:59.999999"


def iso_time(text: Column, begins: str = _DATE) -> Column:
    """A time as ISO 8601 has it, with its date; null for what is none."""
    return F.when(text.rlike(begins), text).try_cast("timestamp")


def formatted_time(text: Column, time_format: str) -> Column:
    """A time in a format of Spark's, or null."""
    return F.try_to_timestamp(F.when(~text.rlike(far_year(time_format)), text), F.lit(time_format))


def of_this_era(time: Column) -> Column:
    """The time if its year has four digits, which is as far as directories and readers go; else null."""
    return F.when(time.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp")), time)


def time_of_this_year(text: Column) -> Column:
    """A time without year: the last such day that had begun when the line was received."""
    day = F.regexp_replace(text, "  ", " ")
    latest = F.col("received") + F.expr("INTERVAL 1 DAY")

    def in_year(back: int) -> Column:
        year = (F.year("received") + 1 - back).cast("string")
        time = F.try_to_timestamp(F.concat_ws(" ", year, day), F.lit("yyyy MMM d HH:mm:ss"))
        return F.when(time <= latest, time)

    # February 29 may be some years ago.
    return F.coalesce(*map(in_year, range(10)))
