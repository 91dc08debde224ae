"""Columns for the times in lines. Parsing a line again gives the same time, and no line raises.

Spark takes a time without a date as today's, which changes tomorrow, and raises for years out of range. So
texts are checked before Spark parses them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from jetspark.logs.job.patterns import far_year

__all__ = ["formatted_time", "iso_time", "of_this_era", "time_of", "time_of_this_year"]

_DATE: Final = r"^\d{4}-\d\d-\d\d"
_FIRST: Final = "0001-01-01 00:00:00"
_LAST: Final = "9999-12-31 23:59:59.999999"
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"


def iso_time(text: Column, begins: str = _DATE) -> Column:
    """An ISO 8601 time with its date; null if the text is not one."""
    return F.when(text.rlike(begins), text).try_cast("timestamp")


def formatted_time(text: Column, time_format: str) -> Column:
    """A time in a Spark format, or null."""
    return F.try_to_timestamp(F.when(~text.rlike(far_year(time_format)), text), F.lit(time_format))


def time_of(
    *, day: Column, month: Column, year: Column, hour: Column, minute: Column, second: Column, zone: Column
) -> Column:
    """A time from texts such as `31`, `Jan`, `2026`, `12`, `00`, `00`, `+0100`; null if there is none.

    Spark's own function for a format takes as long as the match of a whole line of an access log.
    """
    years, days, hours, minutes, seconds, clock = (
        text.try_cast("int") for text in (year, day, hour, minute, second, zone)
    )
    place = F.instr(F.lit(_MONTHS), F.lower(month))
    date = F.make_date(years, F.when(place % 3 == 1, ((place + 2) / 3).cast("int")), days)
    ahead = clock - 40 * ((clock - clock % 100) / 100).cast("int")  # +0130 is 90 minutes.
    valid = (hours < 24) & (minutes < 60) & (seconds < 60)
    valid &= (F.abs(clock % 100) < 60) & ahead.between(-18 * 60, 18 * 60)
    moment = F.unix_date(date).cast("bigint") * 86_400 + hours * 3_600 + (minutes - ahead) * 60 + seconds
    return F.when(valid, F.timestamp_seconds(moment))


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
