"""The format `regex`: a pattern of the user with named groups, which matches the whole line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.logs.job.errors import explained
from jetspark.logs.job.parse.fields import FieldsFormat, typed
from jetspark.logs.job.parse.match import matched
from jetspark.logs.job.patterns import Pattern, read_pattern
from jetspark.logs.toml_lines import Where

__all__ = ["RegexFormat"]

#: The longest line in bytes that a user's pattern is tried on. Java's matcher recurses, and a stack overflow
#: ends Spark.
_MAX_BYTES: Final = 64 * 1024


class RegexFormat(FieldsFormat, frozen=True, kw_only=True):
    """The groups of `pattern`; `fields` has the types other than string."""

    pattern: str

    def read(self) -> Pattern:
        """The pattern for Java. Raises ValueError."""
        return read_pattern(self.pattern)

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

    def check_with(self, spark: SparkSession, where: Where) -> None:
        super().check_with(spark, where)
        assert spark._jvm is not None
        try:
            spark._jvm.java.util.regex.Pattern.compile(self.read().text)
        except PySparkException as error:
            what = f"invalid Java regular expression: {explained(error)}"
            raise where.error("parse.pattern", what, "Java's syntax differs slightly from Python's") from None

    def parse_fields(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        fits = F.octet_length("_line") <= _MAX_BYTES
        short = frame.withColumn("_short", F.when(fits, F.col("_line")))
        made = matched(short, "_short", self.read(), "_text_")
        bad = F.when(~fits, F.lit("the line is too long for parse.pattern")).when(
            ~F.col("_text_"), F.lit("parse.pattern does not match")
        )
        return typed(made, self.kinds, bad)
