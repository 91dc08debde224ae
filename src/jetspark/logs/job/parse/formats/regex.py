"""The format `regex`: a pattern of the user with named groups, which matches the whole line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from jetspark.logs.job.backtracking import longest
from jetspark.logs.job.parse.fields import FieldsFormat, typed
from jetspark.logs.job.parse.match import matched
from jetspark.logs.job.patterns import Pattern, in_python, read_pattern
from jetspark.logs.job.sql import F
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["RegexFormat"]

#: The longest line in bytes that any pattern of the user is tried on. Java's matcher recurses, and a stack
#: overflow ends Spark.
_MAX_LINE: Final = 64 * 1024


class RegexFormat(FieldsFormat, frozen=True, kw_only=True):
    """The groups of `pattern`; `fields` has the types other than string."""

    pattern: str
    #: The longest line in bytes that the pattern is tried on.
    max_line: int = _MAX_LINE

    @property
    def text(self) -> str:
        """The pattern as a regular expression. Raises ValueError."""
        return self.pattern

    def read(self) -> Pattern:
        """The pattern for Java. Raises ValueError."""
        return read_pattern(self.text)

    @property
    def kinds(self) -> Mapping[str, str]:
        return {name: self.fields.get(name, "string") for name in self.read().names}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.read().names

    @property
    def deep(self) -> bool:
        return True

    def key_of(self, column: str) -> tuple[str, ...]:
        return ("parse", "pattern")

    def check(self, where: Where) -> None:
        try:
            names = self.read().names
        except ValueError as error:
            raise where.error("parse.pattern", str(error)) from None
        if unknown := sorted(set(self.fields) - set(names)):
            raise where.error(("parse", "fields", unknown[0]), "the pattern has no group with this name")
        super().check(where)
        if not 1 <= self.max_line <= _MAX_LINE:
            raise where.error("parse.max_line", f"{self.max_line} is not between 1 and {_MAX_LINE}")
        self._check_time_of_matching(where)

    def _check_time_of_matching(self, where: Where) -> None:
        most = longest(in_python(self.text))
        if most == 0:
            what = "could take forever on some lines: it repeats a part that can match a text in several ways"
            how = r"Make repetitions inside of others possessive, such as `(?:\w++ ?)+`"
            raise where.error("parse.pattern", what, how)
        if most < self.max_line:
            what = "could take hours on some lines: several repetitions can match the same text"
            how = "Exclude the text between them, such as `[^ ]*` or `%{NOTSPACE}` for `.*`"
            how = f"{how}; or set `max_line = {most}`, and longer lines become dead letters"
            raise where.error("parse.pattern", what, how)

    def check_with(self, spark: SparkSession, where: Where) -> None:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - loads Spark

        from jetspark.logs.job.errors import explained  # noqa: PLC0415

        super().check_with(spark, where)
        assert spark._jvm is not None
        try:
            spark._jvm.java.util.regex.Pattern.compile(self.read().text)
        except PySparkException as error:
            what = f"invalid Java regular expression: {explained(error)}"
            raise where.error("parse.pattern", what, "Java's syntax differs slightly from Python's") from None

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        fits = F.octet_length("_line") <= self.max_line
        short = frame.withColumn("_short", F.when(fits, F.col("_line")))
        made = matched(short, "_short", self.read(), "_text_")
        bad = F.when(~fits, F.lit("the line is too long for parse.pattern")).when(
            ~F.col("_text_"), F.lit("parse.pattern does not match")
        )
        return typed(made, self.kinds, bad)
