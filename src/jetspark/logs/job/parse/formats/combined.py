"""The format `combined`: access logs of Apache and nginx. The last two columns are missing in `common`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.logs.job.parse.fields import LineFormat
from jetspark.logs.job.parse.match import dashed, matched, or_null
from jetspark.logs.job.parse.times import TIME_PARTS, time_of
from jetspark.logs.job.patterns import numbered
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CombinedFormat"]

_TEXT: Final = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
_PATH: Final = r'(?=[^\s"])[^\s"\\]*+(?:\\\S[^\s"\\]*+)*+'
#: One match also finds the parts of a request; anything else is text. The version is matched only if the
#: request ends: Java would keep its group when the text is tried instead.
_REQUEST: Final = rf'"(([A-Z]++) ({_PATH})(?: (HTTP/\d[.\d]*+)(?="))?+(?=")|{_TEXT})"'
_TIME: Final = r"\[(\d\d)/([A-Za-z]{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\]"
_LINE: Final = numbered(
    rf'(?s)^(\S++) \S++ (\S++) {_TIME} {_REQUEST} (\d{{3}}) (\d++|-)(?: "({_TEXT})" "({_TEXT})")?+\s*+\z',
    *("remote_addr", "user", *TIME_PARTS, "request", "method", "path", "protocol"),
    *("status", "bytes", "referer", "user_agent"),
)


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
        names = ("remote_addr", "user", "request", "referer", "user_agent")
        columns = {name: dashed(f"_c_{name}") for name in names}
        columns |= {name: or_null(f"_c_{name}") for name in ("method", "path", "protocol")}
        columns["status"] = F.col("_c_status").try_cast("int")
        columns["bytes"] = F.expr("try_cast(if(_c_bytes = '-', '0', _c_bytes) AS bigint)")
        columns["time"] = time_of("_c_")
        reason = F.when(~F.col("_c_"), F.lit("not a line of format combined")).when(
            F.col("bytes").isNull(), F.lit("invalid number of bytes")
        )
        return made.withColumns(columns), reason
