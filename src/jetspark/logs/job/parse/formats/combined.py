"""The format `combined`: access logs of Apache and nginx. The last two columns are missing in `common`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.parse.fields import LineFormat
from jetspark.logs.job.parse.match import dashed, matched, or_null
from jetspark.logs.job.patterns import numbered

__all__ = ["CombinedFormat"]

_QUOTED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
# Four digits: Spark raises for longer years.
_TIME: Final = r"\[(\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"
_LINE: Final = numbered(
    rf"(?s)^(\S++) \S++ (\S++) {_TIME} {_QUOTED} (\d{{3}}) (\d++|-)(?: {_QUOTED} {_QUOTED})?+\s*+\z",
    *("remote_addr", "user", "time", "request", "status", "bytes", "referer", "user_agent"),
)
_REQUEST: Final = numbered(r"^([A-Z]++) (\S++)(?: (HTTP/\d[.\d]*+))?+$", "method", "path", "protocol")


class CombinedFormat(LineFormat, frozen=True):
    """A request in each line."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (
            *("remote_addr", "user", "request", "method", "path", "protocol"),
            *("status", "bytes", "referer", "user_agent"),
        )

    def parse(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        made = matched(frame, "_line", _LINE, "_c_")
        made = matched(made, "_c_request", _REQUEST, "_r_")
        names = ("remote_addr", "user", "request", "referer", "user_agent")
        columns = {name: dashed(f"_c_{name}") for name in names}
        columns |= {name: or_null(f"_r_{name}") for name in ("method", "path", "protocol")}
        columns["status"] = F.col("_c_status").try_cast("int")
        columns["bytes"] = F.coalesce(dashed("_c_bytes"), F.lit("0")).try_cast("bigint")
        columns["time"] = F.try_to_timestamp("_c_time", F.lit("dd/MMM/yyyy:HH:mm:ss Z"))
        reason = F.when(~F.col("_c_"), F.lit("not a line of format combined")).when(
            F.col("bytes").isNull(), F.lit("invalid number of bytes")
        )
        return made.withColumns(columns), reason
