"""Unwraps the lines of container runtimes: `parse.container`.

A runtime splits long lines into parts. The job joins the parts that are in one message; it cannot join
messages, because a batch may end between two of them. A message that ends inside a line does not parse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jetspark.logs.job.parse.match import is_list, matched
from jetspark.logs.job.parse.times import iso_time
from jetspark.logs.job.patterns import numbered

__all__ = ["unwrap"]

_Unwrap: TypeAlias = Callable[[DataFrame], DataFrame]

_PARTIAL: Final = "a partial line: its end is not in the message"
_INVALID_TIME: Final = "invalid time of the container"

# `F` ends a line, `P` does not; further tags may follow after a colon.
_TAG: Final = r"(?::\S++)?+"
#: `2026-01-31T12:00:00.123456789Z stdout F text`: once, or several times with line feeds between.
_CRI: Final = numbered(
    rf"^(\S++) (stdout|stderr) (?:[FP]{_TAG}(?: [^\n]*+)?+\n\S++ \2 )*+([FP]){_TAG}(?: ([^\n]*+))?+\n?+\z",
    *("time", "output", "tag", "text"),
)
_CRI_HEAD: Final = rf"^\S++ \S++ [FP]{_TAG} ?+"
_CRI_ENDS: Final = r"^\S++ \S++ F"

_DOCKER: Final = "array<struct<log string, stream string, time string>>"


def unwrap(frame: DataFrame, container: str | None) -> tuple[DataFrame, Column]:
    """The frame with the inner line as `_line`, `output` and `_logged`, and the reason for other lines."""
    if container is None:
        return frame.withColumn("_logged", F.col("received")), F.lit(None).cast("string")
    frame = _CONTAINERS[container](frame)
    time = iso_time(F.col("_wrapped_time"), r"^\d{4}-\d\d-\d\dT")
    frame = frame.withColumns({"_line": F.col("_inner"), "output": F.col("_output"), "_logged": time})
    late = F.when(F.col("_logged").isNull(), F.lit(_INVALID_TIME))
    return frame, F.coalesce(F.col("_unwrapped"), late)


def _cri(frame: DataFrame) -> DataFrame:
    made = matched(frame, "_line", _CRI, "_cri_")

    def text(line: Column) -> Column:
        inner = F.regexp_replace(line, _CRI_HEAD, "")
        return F.when(line.rlike(_CRI_ENDS), F.concat(inner, F.lit("\n"))).otherwise(inner)

    joined = F.array_join(F.transform(F.split(_without_line_feed(F.col("_line")), "\n"), text), "")
    inner = F.when(F.col("_line").contains("\n"), _without_line_feed(joined)).otherwise(F.col("_cri_text"))
    reason = F.when(~F.col("_cri_"), F.lit("not a line of a CRI container"))
    reason = reason.when(F.col("_cri_tag") == "P", F.lit(_PARTIAL))
    return made.withColumns(
        {
            "_unwrapped": reason,
            "_inner": F.when(F.col("_cri_"), inner),
            "_output": F.col("_cri_output"),
            "_wrapped_time": F.col("_cri_time"),
        }
    )


def _docker(frame: DataFrame) -> DataFrame:
    # Docker escapes line feeds inside of a document.
    documents = F.replace(_without_line_feed(F.col("_line")), F.lit("\n"), F.lit(","))
    made = frame.withColumn("_documents", documents)
    listed = F.concat(F.lit("["), F.col("_documents"), F.lit("]"))
    made = made.withColumn("_parts", F.from_json(listed, _DOCKER))

    def odd(part: Column) -> Column:
        return part["log"].isNull() | part["time"].isNull()

    outputs = F.array_distinct("_parts.stream")
    is_docker = is_list(F.col("_documents"), F.size("_parts")) & ~F.exists("_parts", odd)
    is_docker = F.coalesce(is_docker & (F.size(outputs) == 1), F.lit(False))
    made = made.withColumn("_joined", F.array_join("_parts.log", ""))
    reason = F.when(~is_docker, F.lit("not a line of a Docker container"))
    reason = reason.when(~F.col("_joined").endswith("\n"), F.lit(_PARTIAL))
    return made.withColumns(
        {
            "_unwrapped": reason,
            "_inner": _without_line_feed(F.col("_joined")),
            "_output": F.get(outputs, 0),
            "_wrapped_time": F.get("_parts.time", 0),
        }
    )


def _without_line_feed(text: Column) -> Column:
    return F.regexp_replace(text, r"\n\z", "")


#: By the value of `parse.container`.
_CONTAINERS: Final[dict[str, _Unwrap]] = {"cri": _cri, "docker": _docker}
