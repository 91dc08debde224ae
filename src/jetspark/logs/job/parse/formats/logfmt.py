"""The format `logfmt`: `key=value`, `key="a value"` or `key`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.parse.fields import FieldsFormat, column_of, typed

__all__ = ["LogfmtFormat"]

_VALUE: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*+'
#: The key, and the value with its quotes.
_PAIR: Final = rf'(?s)([^\s"=]++)(?:=({_VALUE}))?+(?=\s|$)'
#: A line that consists of such pairs.
_LINE: Final = rf'(?s)^\s*+(?:[^\s"=]++(?:=(?:{_VALUE}))?+(?:\s++|$))++$'


class LogfmtFormat(FieldsFormat, frozen=True):
    """The first of duplicate keys counts."""

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        pair = F.lit(_PAIR)
        made = frame.withColumns(
            {
                "_keys": F.regexp_extract_all("_line", pair, F.lit(1)),
                "_values": F.regexp_extract_all("_line", pair, F.lit(2)),
            }
        )
        found: dict[str, Column] = {}
        for name in self.fields:
            text = F.get("_values", F.array_position("_keys", name).cast("int") - 1)
            quoted = text.startswith('"')
            inner = F.regexp_replace(text.substr(F.lit(2), F.length(text) - 2), r'\\(["\\])', "$1")
            found[f"_text_{column_of(name)}"] = F.when(quoted, inner).otherwise(text)
        bad = F.when(~F.coalesce(F.col("_line").rlike(_LINE), F.lit(False)), F.lit("not logfmt"))
        return typed(made.withColumns(found), self.fields, bad)
