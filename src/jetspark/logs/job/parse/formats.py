"""The formats of lines: each parses `_line` into columns, with Spark's own functions.

A format returns the frame with its columns, and a reason column that is null if the line parses. Nothing here
raises because of the content of a line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job import patterns
from jetspark.logs.job.config import Config
from jetspark.logs.job.parse.times import iso_time, time_of_this_year

__all__ = ["FORMATS"]

_Format: TypeAlias = Callable[[DataFrame, Config], tuple[DataFrame, Column]]

#: Separates the groups of a match; a line that contains it does not parse.
_MARK: Final = "\x01"
#: The longest line in bytes that a user's pattern is tried on. Java's matcher recurses, and a stack overflow
#: ends Spark.
_MAX_FOR_PATTERNS: Final = 64 * 1024


def _raw(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    return frame.withColumns({"time": F.col("received"), "line": F.col("_line")}), F.lit(None).cast("string")


def _json(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    kinds = config.parse.fields
    texts = {name: "string" if kind == "timestamp" else kind for name, kind in kinds.items()}
    fields = ", ".join(f"`{name}` {kind}" for name, kind in texts.items())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}
    made = frame.withColumn("_json", F.from_json("_line", f"{fields}, _corrupt string", options))
    is_object = F.ltrim("_line").startswith("{") & _is_one_value()
    columns, wrong = {}, F.col("_json._corrupt").isNotNull()
    for name, kind in kinds.items():
        columns[name] = given = F.col(f"_json.`{name}`")
        if kind == "timestamp":
            columns[name] = iso_time(given)
            wrong = wrong | (given.isNotNull() & iso_time(given).isNull())
    reason = F.when(~is_object | F.col("_json").isNull(), F.lit("not a JSON object")).when(
        wrong, F.lit("fields or types differ from parse.fields")
    )
    return made.withColumns(columns), reason


def _is_one_value() -> Column:
    """Whether the line is a single JSON value.

    Spark's functions stop after the first value. So the line is put into two lists whose lengths are known if
    it is one value: alone, and before another element.
    """

    def listed(rest: str) -> Column:
        return F.json_array_length(F.concat(F.lit("["), F.col("_line"), F.lit(rest)))

    return F.coalesce((listed("]") == 1) & (listed(",0]") == 2), F.lit(False))


def _logfmt(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    pair = F.lit(patterns.LOGFMT_PAIR)
    made = frame.withColumns(
        {
            "_keys": F.regexp_extract_all("_line", pair, F.lit(1)),
            "_values": F.regexp_extract_all("_line", pair, F.lit(2)),
        }
    )
    found: dict[str, Column] = {}
    for name in config.parse.fields:
        text = F.get("_values", F.array_position("_keys", name).cast("int") - 1)
        quoted = text.startswith('"')
        inner = F.regexp_replace(text.substr(F.lit(2), F.length(text) - 2), r'\\(["\\])', "$1")
        found[name] = F.when(quoted, inner).otherwise(text)
    made = made.withColumns({f"_text_{name}": text for name, text in found.items()})
    bad = F.when(~F.coalesce(F.col("_line").rlike(patterns.LOGFMT), F.lit(False)), F.lit("not logfmt"))
    return _typed(made, config, bad)


def _regex(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    fits = F.octet_length("_line") <= _MAX_FOR_PATTERNS
    short = frame.withColumn("_short", F.when(fits, F.col("_line")))
    made = _matched(short, "_short", config.pattern, "_text_")
    bad = F.when(~fits, F.lit("the line is too long for parse.pattern")).when(
        ~F.col("_text_"), F.lit("parse.pattern does not match")
    )
    return _typed(made, config, bad)


def _combined(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    made = _matched(frame, "_line", patterns.COMBINED, "_c_")
    made = _matched(made, "_c_request", patterns.REQUEST, "_r_")
    names = ("remote_addr", "user", "request", "referer", "user_agent")
    columns = {name: _dashed(f"_c_{name}") for name in names}
    columns |= {name: _or_null(f"_r_{name}") for name in ("method", "path", "protocol")}
    columns["status"] = F.col("_c_status").try_cast("int")
    columns["bytes"] = F.coalesce(_dashed("_c_bytes"), F.lit("0")).try_cast("bigint")
    columns["time"] = F.try_to_timestamp("_c_time", F.lit("dd/MMM/yyyy:HH:mm:ss Z"))
    reason = F.when(~F.col("_c_"), F.lit("not a line of format combined")).when(
        F.col("bytes").isNull(), F.lit("invalid number of bytes")
    )
    return made.withColumns(columns), reason


def _syslog(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    made = _matched(_matched(frame, "_line", patterns.RFC5424, "_n_"), "_line", patterns.RFC3164, "_o_")
    new = F.col("_n_")

    def either(name: str) -> Column:
        old = _dashed(f"_o_{name}") if name in patterns.RFC3164.groups else F.lit(None)
        return F.when(new, _dashed(f"_n_{name}")).otherwise(old)

    priority = either("priority").try_cast("int")
    columns = {name: either(name) for name in ("hostname", "app", "process", "message_id", "structured_data")}
    columns |= {
        "message": F.when(new, F.col("_n_message")).otherwise(F.col("_o_message")),
        "facility": F.floor(priority / 8).cast("int"),
        "severity": (priority % 8).cast("int"),
        # RFC 5424 allows `-` for an unknown time.
        "time": F.when(new & (F.col("_n_time") == "-"), F.col("received"))
        .when(new, iso_time(F.col("_n_time"), r"^\d{4}-\d\d-\d\dT"))
        .otherwise(time_of_this_year(F.col("_o_time"))),
    }
    reason = F.when(~(new | F.col("_o_")), F.lit("not a syslog line")).when(
        priority > 191, F.lit("invalid priority")
    )
    return made.withColumns(columns), reason


#: By the value of `parse.format`.
FORMATS: Final[dict[str, _Format]] = {
    "raw": _raw,
    "json": _json,
    "logfmt": _logfmt,
    "regex": _regex,
    "combined": _combined,
    "syslog": _syslog,
}


# --- helpers


def _matched(frame: DataFrame, column: str, pattern: patterns.Pattern, prefix: str) -> DataFrame:
    """The frame with the groups of a match as columns `<prefix><name>`, and whether it matched as `<prefix>`.

    The line is matched once, not once for each group: one replacement joins the groups, and a split separates
    them again.
    """
    order = list(pattern.groups.items())
    template = "".join(f"{_MARK}${number}" for _, number in order) + _MARK
    marked = F.when(~F.col(column).contains(_MARK), F.regexp_replace(column, pattern.text, template))
    parts = f"{prefix}parts"
    frame = frame.withColumn(parts, F.split(marked, _MARK, -1))
    matched = F.coalesce(F.size(parts) == len(order) + 2, F.lit(False)) & (F.get(parts, 0) == "")
    columns = {prefix: F.coalesce(matched, F.lit(False))}
    columns |= {f"{prefix}{name}": F.get(parts, index) for index, (name, _) in enumerate(order, 1)}
    return frame.withColumns(columns)


def _dashed(name: str) -> Column:
    """A text column, null if it is `-` or empty."""
    return F.when(~F.col(name).isin("-", ""), F.col(name))


def _or_null(name: str) -> Column:
    return F.when(F.col(name) != "", F.col(name))


def _typed(frame: DataFrame, config: Config, bad: Column) -> tuple[DataFrame, Column]:
    """The texts `_text_<name>` as columns of their types; a line with another type does not parse."""
    columns: dict[str, Column] = {}
    reasons = [bad]
    for name in config.fields:
        kind = config.parse.fields.get(name, "string")
        text = columns[name] = _or_null(f"_text_{name}")
        if kind != "string":
            columns[name] = iso_time(text) if kind == "timestamp" else text.try_cast(kind)
            wrong = text.isNotNull() & columns[name].isNull()
            reasons.append(F.when(wrong, F.lit(f"{name} is not of type {kind}")))
    return frame.withColumns(columns), reduce(F.coalesce, reasons)
