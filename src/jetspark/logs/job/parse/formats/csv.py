"""The format `csv`: values between separators, quoted or not; quotes inside of quotes are doubled."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final

from jetspark.logs.job.parse.fields import FieldsFormat, column_of, typed
from jetspark.logs.job.parse.match import matched
from jetspark.logs.job.patterns import numbered
from jetspark.logs.job.sql import F
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CsvFormat"]

#: A limit for the length of the pattern.
_MAX_COLUMNS: Final = 500


class CsvFormat(FieldsFormat, frozen=True):
    """The `fields` are the values of a line in order, or those that `header` names."""

    separator: str = ","
    #: Empty: quotes are like other characters.
    quote: str = '"'
    #: The first line of the files, which says which value belongs to a field; or true, if it names `fields`
    #: in order. Such lines are skipped: they have no values.
    header: str | bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all values of a line."""
        if isinstance(self.header, bool):
            return tuple(self.fields)
        lines = [self.header.strip("\r\n")]
        if not self.quote:
            return tuple(lines[0].split(self.separator))
        rows = csv.reader(lines, delimiter=self.separator, quotechar=self.quote, strict=True)
        return tuple(next(rows, ()))

    def check(self, where: Where) -> None:
        if re.fullmatch(r"[^\r\n\x01]", self.separator) is None:
            raise where.error("parse.separator", f"{self.separator!r} must be one character")
        if re.fullmatch(r"[^\r\n\x01]?", self.quote) is None or self.quote == self.separator:
            raise where.error("parse.quote", f"{self.quote!r} must be another character, or empty")
        super().check(where)
        try:
            names = self.names
        except (csv.Error, ValueError, TypeError) as error:
            raise where.error("parse.header", f"invalid: {error}") from None
        if len(names) > _MAX_COLUMNS:
            raise where.error(
                "parse.header" if isinstance(self.header, str) else "parse.fields",
                f"more than {_MAX_COLUMNS} values",
            )
        for name in self.fields:
            if names.count(name) != 1:
                how = "not in" if name not in names else "twice in"
                raise where.error(("parse", "fields", name), f"is {how} parse.header")

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        names, quote = self.names, self.quote
        separator, mark = re.escape(self.separator), re.escape(quote)
        bare = rf"[^{separator}{mark}\r\n]*+"
        value = rf"{mark}[^{mark}]*+(?:{mark}{mark}[^{mark}]*+)*+{mark}|{bare}" if quote else bare
        line = rf"^{separator.join([f'({value})'] * len(names))}\r?+\z"
        any_line = rf"^(?:{value})(?:{separator}(?:{value}))*+\r?+\z"
        if self.header:
            is_header = F.col("_line").isin(*self._headers())
            frame = frame.where(~F.coalesce(is_header, F.lit(False)))
        made = matched(frame, "_line", numbered(line, *map(str, range(len(names)))), "_value_")
        texts: dict[str, Column] = {}
        for name in self.fields:
            text = F.col(f"_value_{names.index(name)}")
            texts[f"_text_{column_of(name)}"] = self._unquoted(text) if quote else text
        bad = F.when(~F.col("_value_"), F.lit("not CSV: a quote is inside of a value, or not closed"))
        other_count = F.lit(f"not {len(names)} values")
        bad = F.when(~F.col("_value_") & F.col("_line").rlike(any_line), other_count).otherwise(bad)
        return typed(made.withColumns(texts), self.fields, bad)

    def _headers(self) -> list[str]:
        """The lines that are headers: with a byte order mark or not, and with either end."""
        if isinstance(self.header, str):
            lines = {self.header.strip("\r\n")}
        else:
            quoted = (
                self.quote + name.replace(self.quote, self.quote * 2) + self.quote for name in self.names
            )
            lines = {self.separator.join(self.names), self.separator.join(quoted)}
        return [
            f"{mark}{line}{end}" for line in sorted(lines) for mark in ("", "\ufeff") for end in ("", "\r")
        ]

    def _unquoted(self, text: Column) -> Column:
        inner = text.substr(F.lit(2), F.length(text) - 2)
        inner = F.replace(inner, F.lit(self.quote * 2), F.lit(self.quote))
        return F.when(text.startswith(self.quote), inner).otherwise(text)
