"""The format `logfmt`: `key=value`, `key="a value"` or `key`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.logs.job.parse.fields import FieldsFormat, column_of, typed
from jetspark.logs.job.parse.match import MARK
from jetspark.logs.job.sql import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LogfmtFormat"]

_VALUE: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*+'
#: The key, and the value with its quotes. Each pair begins where the last one ended.
_PAIR: Final = rf'(?s)\G\s*+([^\s"=]++)(?:=({_VALUE}))?+(?:\s++|\z)'
#: Before keys, so that no value is taken for one.
_KEY: Final = "\x02"


class LogfmtFormat(FieldsFormat, frozen=True):
    """The first of duplicate keys counts."""

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        # One pass: an empty text, a key and its value in turn, and the rest of the line.
        pairs = F.regexp_replace("_line", _PAIR, f"{_KEY}$1{MARK}$2{MARK}")
        pairs = F.when(~F.col("_line").contains(MARK), F.concat(F.lit(MARK), pairs))
        made = frame.withColumn("_pairs", F.split(pairs, MARK, -1))
        found: dict[str, Column] = {}
        for name in self.fields:
            # For a missing key, it is the empty text at the start.
            text = F.get("_pairs", F.array_position("_pairs", _KEY + name).cast("int"))
            quoted = text.startswith('"')
            inner = F.regexp_replace(text.substr(F.lit(2), F.length(text) - 2), r'\\(["\\])', "$1")
            found[f"_text_{column_of(name)}"] = F.when(quoted, inner).otherwise(text)
        whole = (F.size("_pairs") > 2) & (F.element_at("_pairs", -1) == "")
        bad = F.when(~F.coalesce(whole, F.lit(False)), F.lit("not logfmt"))
        return typed(made.withColumns(found), self.fields, bad)
