"""The format `syslog`: RFC 5424, RFC 3164, and lines as daemons write them to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.logs.job.parse.fields import LineFormat
from jetspark.logs.job.parse.match import dashed, matched
from jetspark.logs.job.parse.times import iso_time, time_of_this_year
from jetspark.logs.job.patterns import numbered
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SyslogFormat"]

#: Unescaped brackets in quoted values are accepted.
_RFC5424: Final = numbered(
    r"(?s)^<(\d{1,3})>1 (\S++) (\S++) (\S++) (\S++) (\S++) "
    r"(-|(?:\[[^\s\]\"=]++(?: [^\s\]\"=]++=\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+\])++)"
    r"(?: (?:\uFEFF)?+(.*+))?+\z",
    *("priority", "time", "hostname", "app", "process", "message_id", "structured_data", "message"),
)
#: RFC 3164, without year and time zone, and the same with an ISO 8601 time, as rsyslog writes it to files.
_PLAIN: Final = numbered(
    r"(?s)^(?:<(\d{1,3})>)?+([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*+) "
    r"(\S++) ([^\s:\[]++)(?:\[([^\]]*+)\])?+:? ?+(.*+)\z",
    *("priority", "time", "hostname", "app", "process", "message"),
)
_ISO: Final = r"^\d{4}-\d\d-\d\dT"


class SyslogFormat(LineFormat, frozen=True):
    """Without `<PRI>`, facility and severity are null."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (
            *("facility", "severity", "hostname", "app", "process", "message_id"),
            *("structured_data", "message"),
        )

    def parse(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        made = matched(matched(frame, "_line", _RFC5424, "_n_"), "_line", _PLAIN, "_o_")
        new, old = F.col("_n_"), F.col("_o_time")

        def either(name: str) -> Column:
            plain = dashed(f"_o_{name}") if name in _PLAIN.groups else F.lit(None)
            return F.when(new, dashed(f"_n_{name}")).otherwise(plain)

        priority = either("priority").try_cast("int")
        names = ("hostname", "app", "process", "message_id", "structured_data")
        columns = {name: either(name) for name in names}
        columns |= {
            "message": F.when(new, F.col("_n_message")).otherwise(F.col("_o_message")),
            "facility": F.floor(priority / 8).cast("int"),
            "severity": (priority % 8).cast("int"),
            # RFC 5424 allows `-` for an unknown time.
            "time": F.when(new & (F.col("_n_time") == "-"), F.col("_logged"))
            .when(new, iso_time(F.col("_n_time"), _ISO))
            .when(old < "A", old.try_cast("timestamp"))  # it begins with the year
            .otherwise(time_of_this_year(old)),
        }
        reason = F.when(~(new | F.col("_o_")), F.lit("not a syslog line")).when(
            priority > 191, F.lit("invalid priority")
        )
        return made.withColumns(columns), reason
