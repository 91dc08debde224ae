"""Lines become columns, with Spark's own functions: no line passes through Python, unless it is compressed.

A row that comes out has the columns of `Config.row_columns`, and `_reason`: null, or why its line does not
parse. `_data` and `_headers` keep what the stream has, for the dead letter. Nothing here raises because of
what a line says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from jetspark.shipper.messages import CUT, ENCODING, FILE, HOST, OFFSET
from jetspark.shipper.pipeline.config import Config
from jetspark.shipper.pipeline.config_file import Where
from jetspark.shipper.pipeline.patterns import (
    COMBINED,
    LOGFMT,
    LOGFMT_PAIR,
    REQUEST,
    RFC3164,
    RFC5424,
    Pattern,
)

__all__ = ["INTERNAL", "parse_lines"]

#: Columns for the job itself.
INTERNAL: Final = ("_reason", "_data", "_headers")
#: Between the groups of a match; a line that has it does not parse.
_MARK: Final = "\x01"
#: What a compressed line may become. Lines are cut far below that when they are shipped.
_MOST_BYTES: Final = 16 * 1024 * 1024


def parse_lines(messages: DataFrame, config: Config, where: Where) -> DataFrame:
    """The rows of what `format("jetstream")` reads. Raises `UsageError` for SQL that is wrong."""
    frame = _with_meta(_decompressed(messages) if config.source.compressed else _as_it_is(messages))
    undone = (
        "the line cannot be decompressed"
        if config.source.compressed
        else "the line is compressed, and source.compressed is not set"
    )
    reasons = [F.when(F.col("_undone"), F.lit(undone))]
    parsers = {
        "raw": _raw,
        "json": _json,
        "logfmt": _logfmt,
        "regex": _regex,
        "combined": _combined,
        "syslog": _syslog,
    }
    frame, reason = parsers[config.parse.format](frame, config)
    reasons.append(reason)
    if config.parse.format in ("json", "logfmt", "regex"):
        frame, reason = _with_time(frame, config)
        reasons.append(reason)
    frame = frame.withColumn("_reason", F.coalesce(*reasons))
    for name, expression in config.columns.items():
        key = f"columns.{name}"
        try:
            frame = frame.withColumn(name, F.expr(expression))
            deterministic = frame._jdf.queryExecution().analyzed().deterministic()
        except (AnalysisException, ParseException) as error:
            raise where.error(key, _first_line(error)) from None
        if not deterministic:
            raise where.error(
                key, "gives another value each time", "A batch that is written again must be the same"
            )
    return frame.select(*config.row_columns, *INTERNAL)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE")[0] if lines else type(error).__name__


# --- before the line is looked at


def _as_it_is(messages: DataFrame) -> DataFrame:
    encoded = F.lower(_header(ENCODING)).isin("gzip", "zstd")
    return messages.withColumn("_plain", F.col("data")).withColumn(
        "_undone", F.coalesce(encoded, F.lit(False))
    )


def _decompressed(messages: DataFrame) -> DataFrame:
    """With `_plain`, the data as it was before it was compressed; null where that fails."""
    encoding = F.when(F.lower(_header(ENCODING)).isin("gzip", "zstd"), F.lower(_header(ENCODING)))
    named = messages.withColumn("_encoding", encoding)
    schema = StructType([*named.schema.fields, StructField("_plain", BinaryType())])
    unpacked = named.mapInArrow(_unpack, schema)
    return unpacked.withColumn("_undone", F.col("_plain").isNull()).drop("_encoding")


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        data = batch.column(batch.schema.get_field_index("data"))
        encodings = batch.column(batch.schema.get_field_index("_encoding"))
        plain = data
        if encodings.null_count < len(encodings):
            plain = pa.array(map(_plain, data.to_pylist(), encodings.to_pylist()), pa.binary())
        names = [*batch.schema.names, "_plain"]
        yield pa.RecordBatch.from_arrays([*batch.columns, plain], names=names)


def _plain(data: bytes, encoding: str | None) -> bytes | None:
    if encoding is None:
        return data
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), encoding) as stream:
            plain: bytes = stream.read(_MOST_BYTES + 1)
    except (OSError, pa.ArrowException, zlib.error):
        return None
    return plain if len(plain) <= _MOST_BYTES else None


def _header(name: str) -> Column:
    """The first value of a header, whatever the case of its name, or null."""
    values = F.map_values(F.map_filter("headers", lambda key, _: F.lower(key) == name.lower()))
    return F.get(F.get(values, 0), 0)


def _with_meta(frame: DataFrame) -> DataFrame:
    last_token = F.element_at(F.split("subject", r"\."), -1)
    return frame.select(
        "subject",
        "stream",
        "sequence",
        F.col("timestamp").alias("received"),
        F.coalesce(_header(HOST), last_token).alias("host"),
        _header(FILE).alias("file"),
        _header(OFFSET).try_cast("bigint").alias("line_offset"),
        F.coalesce(F.lower(_header(CUT)) == "true", F.lit(False)).alias("cut"),
        F.make_valid_utf8(F.col("_plain").cast("string")).alias("line"),
        F.col("data").alias("_data"),
        F.col("headers").alias("_headers"),
        "_undone",
    )


# --- formats: each gives the frame with its columns, and a reason that is null where a line parses


def _raw(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    return frame.withColumn("time", F.col("received")), F.lit(None).cast("string")


def _json(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    fields = ", ".join(f"`{name}` {kind}" for name, kind in config.parse.fields.items())
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt",
        "allowSingleQuotes": "false",
    }
    made = frame.withColumn("_json", F.from_json("line", f"{fields}, _corrupt string", options))
    # from_json stops behind the first value; as the only one of a list, nothing can follow it.
    alone = F.coalesce(
        F.json_array_length(F.concat(F.lit("["), F.col("line"), F.lit("]"))) == 1, F.lit(False)
    )
    is_object = F.ltrim("line").startswith("{")
    reason = F.when(~(alone & is_object) | F.col("_json").isNull(), F.lit("not a JSON object")).when(
        F.col("_json._corrupt").isNotNull(), F.lit("not the fields and types of parse.fields")
    )
    columns = {name: F.col(f"_json.`{name}`") for name in config.parse.fields}
    return made.withColumns(columns), reason


def _logfmt(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    pair = F.lit(LOGFMT_PAIR)
    made = frame.withColumns(
        {
            "_keys": F.regexp_extract_all("line", pair, F.lit(1)),
            "_values": F.regexp_extract_all("line", pair, F.lit(2)),
        }
    )
    found: dict[str, Column] = {}
    for name in config.parse.fields:
        text = F.get("_values", F.array_position("_keys", name).cast("int") - 1)
        quoted = text.startswith('"')
        inner = F.regexp_replace(text.substr(F.lit(2), F.length(text) - 2), r'\\(["\\])', "$1")
        found[name] = F.when(quoted, inner).otherwise(text)
    made = made.withColumns({f"_text_{name}": text for name, text in found.items()})
    bad = F.when(~F.coalesce(F.col("line").rlike(LOGFMT), F.lit(False)), F.lit("not logfmt"))
    return _typed(made, config, bad)


def _regex(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    pattern = config.pattern
    made = _matched(frame, "line", pattern, "_text_")
    bad = F.when(~F.col("_text_"), F.lit("parse.pattern does not match"))
    return _typed(made, config, bad)


def _combined(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    made = _matched(frame, "line", COMBINED, "_c_")
    made = _matched(made, "_c_request", REQUEST, "_r_")
    names = ("remote_addr", "user", "request", "referer", "user_agent")
    columns = {name: _dashed(f"_c_{name}") for name in names}
    columns |= {name: _or_null(f"_r_{name}") for name in ("method", "path", "protocol")}
    columns["status"] = F.col("_c_status").try_cast("int")
    columns["bytes"] = F.coalesce(_dashed("_c_bytes"), F.lit("0")).try_cast("bigint")
    columns["time"] = F.try_to_timestamp("_c_time", F.lit("dd/MMM/yyyy:HH:mm:ss Z"))
    reason = (
        F.when(~F.col("_c_"), F.lit("not a line of format combined"))
        .when(F.col("time").isNull(), F.lit("the time is none"))
        .when(F.col("bytes").isNull(), F.lit("the number of bytes is none"))
    )
    return made.withColumns(columns), reason


def _syslog(frame: DataFrame, _: Config) -> tuple[DataFrame, Column]:
    made = _matched(_matched(frame, "line", RFC5424, "_n_"), "line", RFC3164, "_o_")
    new = F.col("_n_")

    def either(name: str) -> Column:
        old = _dashed(f"_o_{name}") if name in RFC3164.groups else F.lit(None)
        return F.when(new, _dashed(f"_n_{name}")).otherwise(old)

    priority = either("priority").try_cast("int")
    columns = {name: either(name) for name in ("hostname", "app", "process", "message_id", "structured_data")}
    columns |= {
        "message": F.when(new, F.col("_n_message")).otherwise(F.col("_o_message")),
        "facility": F.floor(priority / 8).cast("int"),
        "severity": (priority % 8).cast("int"),
        # A new line may say that it does not know the time.
        "time": F.when(new & (F.col("_n_time") == "-"), F.col("received"))
        .when(new, F.when(F.col("_n_time").contains("T"), F.col("_n_time").try_cast("timestamp")))
        .otherwise(_old_time("_o_time")),
    }
    reason = (
        F.when(~(new | F.col("_o_")), F.lit("not a line of syslog"))
        .when(priority > 191, F.lit("the priority is none"))
        .when(F.col("time").isNull(), F.lit("the time is none"))
    )
    return made.withColumns(columns), reason


def _old_time(name: str) -> Column:
    """A time without year: the last such day that had begun when the line was received."""
    day = F.regexp_replace(F.col(name), "  ", " ")
    latest = F.col("received") + F.expr("INTERVAL 1 DAY")

    def in_year(back: int) -> Column:
        year = (F.year("received") + 1 - back).cast("string")
        time = F.try_to_timestamp(F.concat_ws(" ", year, day), F.lit("yyyy MMM d HH:mm:ss"))
        return F.when(time <= latest, time)

    # February 29 may be some years ago.
    return F.coalesce(*map(in_year, range(10)))


# --- what the formats share


def _matched(frame: DataFrame, column: str, pattern: Pattern, prefix: str) -> DataFrame:
    """With the groups of a match as columns `<prefix><name>`, and whether it matched as `<prefix>`.

    One look at the line, whatever the number of groups: they are written behind each other and cut again.
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
    """A text for which `-` stands where there is none."""
    return F.when(~F.col(name).isin("-", ""), F.col(name))


def _or_null(name: str) -> Column:
    return F.when(F.col(name) != "", F.col(name))


def _typed(frame: DataFrame, config: Config, bad: Column) -> tuple[DataFrame, Column]:
    """Texts `_text_<name>` as columns of their types. What cannot be cast is a line that does not parse."""
    names = config.pattern.names if config.parse.format == "regex" else tuple(config.parse.fields)
    columns: dict[str, Column] = {}
    reasons = [bad]
    for name in names:
        kind = config.parse.fields.get(name, "string")
        text = _or_null(f"_text_{name}")
        columns[name] = text if kind == "string" else text.try_cast(kind)
        if kind != "string":
            wrong = text.isNotNull() & text.try_cast(kind).isNull()
            reasons.append(F.when(wrong, F.lit(f"{name} is no {kind}")))
    return frame.withColumns(columns), reduce(F.coalesce, reasons)


def _with_time(frame: DataFrame, config: Config) -> tuple[DataFrame, Column]:
    """With `time`: that of a field, or else when the stream received the line."""
    parse = config.parse
    if parse.time is None:
        return frame.withColumn("time", F.col("received")), F.lit(None).cast("string")
    given = F.col(parse.time)
    if parse.time_format is not None:
        time = F.try_to_timestamp(given.cast("string"), F.lit(parse.time_format))
    else:
        time = given.try_cast("timestamp")
    made = frame.withColumn("_time", time)
    reason = F.when(F.col("_time").isNull(), F.lit(f"{parse.time} is no time"))
    return made.withColumn("time", F.col("_time")), reason
