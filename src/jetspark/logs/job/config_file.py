"""Reads and checks `pipeline.toml`. Every mistake is a `UsageError` with the file, the line and the key.

The checks of `[source]`, `[parse]` and `[sink]` are with their formats, in `sources`, `parse` and `sinks`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from jetspark.errors import UsageError
from jetspark.logs.job.config import META, Config
from jetspark.logs.job.parse.formats import FORMATS
from jetspark.logs.job.sinks import SINKS
from jetspark.logs.job.sources import SOURCES
from jetspark.logs.job.target import check_target
from jetspark.logs.toml_file import convert, read_toml
from jetspark.logs.toml_lines import Where, check_each_once, there_are

__all__ = ["read_config"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DURATION: Final = re.compile(r"\s*\d{1,9}\s+(?:second|minute|hour|day|week)s?\s*")


def read_config(
    path: Path, *, servers: str | None = None, default_servers: str | None = None
) -> tuple[Config, Where]:
    """Read and check a file. `servers` replace its own; `default_servers` are used if it names none."""
    found, where = read_toml(path)
    _read_tables(where, found)
    _read_section(where, found, "source", SOURCES, default="jetstream")
    _read_section(where, found, "parse", FORMATS)
    _read_section(where, found, "sink", SINKS)
    config = convert(where, found, Config)
    source = config.source.with_servers(servers, default_servers)
    config = _resolved(msgspec.structs.replace(config, source=source), where)
    _check(config, where)
    return config, where


def _read_tables(where: Where, found: Mapping[str, object]) -> None:
    """Check the tables whose keys are chosen by the user: msgspec does not name the wrong key."""
    for path in (("columns",), ("parse", "fields"), ("parse", "patterns"), ("spark", "conf")):
        table: Any = found
        for part in path:
            table = table.get(part) if isinstance(table, dict) else None
        for name, value in table.items() if isinstance(table, dict) else ():
            if path == ("spark", "conf") and isinstance(value, bool | int | float):
                table[name] = str(value).lower()  # Spark's spelling of booleans.
            elif not isinstance(value, str):
                raise where.error((*path, name), f"expected str, got {type(value).__name__}")


def _read_section(
    where: Where, found: dict[str, Any], section: str, kinds: Mapping[str, type], default: str | None = None
) -> None:
    """Replace the table of a section with a value of the type that its `format` names."""
    table = found.get(section)
    if not isinstance(table, dict):
        return
    kind = table.get("format", default)
    if kind is None:
        raise where.error(f"{section}.format", "is missing", there_are(tuple(kinds)))
    if not isinstance(kind, str) or kind not in kinds:
        raise where.error(f"{section}.format", f"unknown format {kind!r}", there_are(tuple(kinds)))
    found[section] = convert(where, table, kinds[kind], section)


def _resolved(config: Config, where: Where) -> Config:
    """The configuration with absolute paths. URLs, such as `s3a://bucket`, stay as they are."""

    def resolve(path: str) -> str:
        if "\0" in path:
            raise UsageError(f"{where.path.name}: the path {path!r} contains NUL")
        return path if "://" in path else str((base / os.path.expanduser(path)).absolute())

    base = where.path.parent
    replace, log = msgspec.structs.replace, config.spark.log
    return replace(
        config,
        checkpoint=resolve(config.checkpoint),
        source=config.source.resolved(resolve),
        sink=config.sink.resolved(resolve),
        spark=config.spark if log is None else replace(config.spark, log=resolve(log)),
    )


def _check(config: Config, where: Where) -> None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", config.name) is None:
        raise where.error("name", f"{config.name!r} must be letters, digits, - and _, 64 at most")
    if config.trigger not in ("once", "available-now") and not _DURATION.fullmatch(config.trigger):
        raise where.error("trigger", f"{config.trigger!r} must be once, available-now, or like '10 seconds'")
    if re.fullmatch(r"0?[0-7]{3}", config.spark.umask) is None:
        raise where.error("spark.umask", f"{config.spark.umask!r} must be three octal digits, such as 027")
    config.source.check(where)
    _check_parse(config, where)
    _check_columns(config, where)
    _check_counts(config, where)
    config.sink.check(config, where)
    _check_dead_letters(config, where)


def _check_parse(config: Config, where: Where) -> None:
    parse = config.parse
    parse.check(where)
    if parse.keep_line and parse.format != "raw" and "line" in (name.lower() for name in config.fields):
        raise where.error("parse.keep_line", "there is already a field named line")


def _check_columns(config: Config, where: Where) -> None:
    taken = {"time", "date", "batch", *META}
    keys = [config.parse.key_of(name) for name in config.line_columns]
    keys += [("columns", name) for name in config.columns]
    for name, key in zip((*config.line_columns, *config.columns), keys, strict=True):
        if _NAME.fullmatch(name) is None:
            raise where.error(key, f"{name!r} must be letters, digits and _, and begin with a letter")
        if name.lower() in taken:
            raise where.error(key, f"there is already a column {name}", "Choose another name")
        taken.add(name.lower())


def _check_counts(config: Config, where: Where) -> None:
    if config.counts is None:
        return
    for key in ("window", "watermark"):
        if _DURATION.fullmatch(getattr(config.counts, key)) is None:
            raise where.error(f"counts.{key}", f"{getattr(config.counts, key)!r} must be like '1 minute'")
    if int(config.counts.window.split()[0]) == 0:
        raise where.error("counts.window", "must be more than 0")
    for name in config.counts.by:
        if name not in config.row_columns:
            raise where.error("counts.by", f"column {name!r} not found", there_are(config.row_columns))
        if name.lower() in ("window", "window_start", "window_end", "count"):
            raise where.error("counts.by", f"{name} is a column of the counts already")
    check_each_once(config.counts.by, where, "counts.by")


def _check_dead_letters(config: Config, where: Where) -> None:
    letters = config.dead_letters
    if letters.drop == (letters.subject is not None):
        raise where.error("dead_letters", "set either subject or drop = true, for lines that do not parse")
    if letters.subject is not None:
        check_target(where, "dead_letters.subject", letters.subject, config.source.subjects)
