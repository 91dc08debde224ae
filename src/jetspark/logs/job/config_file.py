"""`pipeline.toml`, read and checked. Every mistake is a `UsageError` with the file, the line and the key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from jetspark.errors import UsageError
from jetspark.logs.job.config import META, Config
from jetspark.logs.job.parse.patterns import far_year, read_pattern
from jetspark.logs.job.toml_lines import line_of
from jetspark.spark.options import Use, parse_options
from jetspark.wire.subjects import check_subject, subjects_overlap

__all__ = ["Where", "read_config"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DURATION: Final = re.compile(r"\s*\d+\s+(?:second|minute|hour|day|week)s?\s*")
_TYPES: Final = ("string", "int", "bigint", "double", "boolean", "timestamp")


class Where:
    """A file, and where in it something is wrong."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text

    def error(self, key: str | tuple[str, ...], what: str, hint: str | None = None) -> UsageError:
        """An error about a key: with dots, or in parts that may have dots themselves."""
        parts = tuple(key.split(".")) if isinstance(key, str) else key
        line = line_of(self._text, parts)
        place = f"{self.path.name}, line {line}" if line is not None else self.path.name
        return UsageError(f"{place}, {'.'.join(parts)}: {what}", hint=hint)


def read_config(
    path: Path, *, servers: str | None = None, elsewhere: str | None = None
) -> tuple[Config, Where]:
    """Read and check a file. `servers` are used instead of those that it names, `elsewhere` if it names none.

    Raises `UsageError`, with line and key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    where = Where(path, text)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name}: {error}", hint="It is no TOML") from None
    _read_tables(where, found)
    try:
        config = msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        _refuse(where, str(error))
    servers = servers or (elsewhere if config.source.servers is None else None)
    if servers is not None:
        config = msgspec.structs.replace(
            config, source=msgspec.structs.replace(config.source, servers=servers)
        )
    config = _resolved(config, path.parent)
    _check(config, where)
    return config, where


def _read_tables(where: Where, found: Mapping[str, object]) -> None:
    """The tables whose keys are the user's: msgspec does not tell which of them is wrong."""
    for path in (("columns",), ("parse", "fields"), ("spark", "conf")):
        table: Any = found
        for part in path:
            table = table.get(part) if isinstance(table, dict) else None
        for name, value in table.items() if isinstance(table, dict) else ():
            if path == ("spark", "conf") and isinstance(value, bool | int | float):
                table[name] = str(value).lower()  # As Spark spells it.
            elif not isinstance(value, str):
                raise where.error((*path, name), f"expected str, got {type(value).__name__}")


def _refuse(where: Where, told: str) -> NoReturn:
    what, _, path = told.partition(" - at `$")
    key = re.sub(r"\[[^\]]*\]", "", path.rstrip("`").lstrip("."))
    if found := re.match(r"Object (?:contains unknown|missing required) field `(.*)`", what):
        missing = "missing" in what
        key = f"{key}.{found[1]}".lstrip(".")
        raise where.error(key, "is missing" if missing else "there is no such key")
    raise where.error(key or "the file", what[0].lower() + what[1:].replace("`", ""))


_FILES: Final = (
    "credentials_file",
    "password_file",
    "token_file",
    "nkey_file",
    "tls_ca_file",
    "tls_cert_file",
    "tls_key_file",
)


def _resolved(config: Config, base: Path) -> Config:
    """The paths as they are, seen from anywhere. What has a scheme, as `s3a://`, stays."""

    def resolve(path: str | None) -> str | None:
        return path if path is None or "://" in path else str((base / Path(path).expanduser()).absolute())

    replace = msgspec.structs.replace
    source = replace(config.source, **{name: resolve(getattr(config.source, name)) for name in _FILES})
    return replace(
        config,
        checkpoint=resolve(config.checkpoint) or "",
        source=source,
        sink=replace(config.sink, path=resolve(config.sink.path)),
        spark=replace(config.spark, log=resolve(config.spark.log)),
    )


def _check(config: Config, where: Where) -> None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", config.name) is None:
        raise where.error("name", f"{config.name!r} must be letters, digits, - and _, 64 at most")
    if config.trigger not in ("once", "available-now") and not _DURATION.fullmatch(config.trigger):
        raise where.error("trigger", f"{config.trigger!r} must be once, available-now, or like '10 seconds'")
    _check_source(config, where)
    _check_parse(config, where)
    _check_columns(config, where)
    _check_counts(config, where)
    _check_sink(config, where)
    _check_dead_letters(config, where)


def _check_source(config: Config, where: Where) -> None:
    for name in _FILES:
        path = getattr(config.source, name)
        if path is not None and not Path(path).is_file():
            raise where.error(f"source.{name}", f"there is no file {path}")
    if config.source.user is not None and config.source.password_file is None:
        raise where.error("source.password_file", "is missing: a user has a password")
    try:
        parse_options(config.source_options()).check_use(Use.STREAM)
    except UsageError as error:
        message = str(error.args[0])
        for option, key in _OPTION_KEYS.items():
            if re.search(rf"\b{option}\b", message):
                raise where.error(
                    f"source.{key}", re.sub(rf"^option {option}:? ", "", message), error.hint
                ) from None
        raise where.error("source", message, error.hint) from None


#: The keys of options whose errors are told, the more telling first.
_OPTION_KEYS: Final = {
    "startingPosition": "start",
    "startingTimestamp": "start",
    "maxMessagesPerTrigger": "max_messages_per_trigger",
    "minPartitions": "min_partitions",
    "progressConsumer": "progress_consumer",
    "subjects": "subjects",
    "servers": "servers",
    "credentialsFile": "credentials_file",
    "nkeySecretFile": "nkey_file",
    "password": "password_file",
    "token": "token_file",
    "user": "user",
    "tlsCertFile": "tls_cert_file",
    "tlsKeyFile": "tls_key_file",
    "domain": "domain",
    "apiPrefix": "api_prefix",
    "stream": "stream",
}


def _check_parse(config: Config, where: Where) -> None:
    parse = config.parse
    if parse.format == "regex":
        if parse.pattern is None:
            raise where.error("parse.pattern", "is missing", "Format regex needs one with named groups")
        try:
            names = read_pattern(parse.pattern).names
        except ValueError as error:
            raise where.error("parse.pattern", str(error)) from None
        if unknown := sorted(set(parse.fields) - set(names)):
            raise where.error(f"parse.fields.{unknown[0]}", "the pattern has no group of this name")
    elif parse.pattern is not None:
        raise where.error("parse.pattern", f"is for format regex, not for {parse.format}")
    if parse.format in ("json", "logfmt") and not parse.fields:
        raise where.error("parse.fields", f"is missing: format {parse.format} must know its columns")
    if parse.format in ("syslog", "combined", "raw"):
        for key in ("fields", "time", "time_format"):
            if getattr(parse, key):
                raise where.error(f"parse.{key}", f"format {parse.format} knows by itself")
    for name, kind in parse.fields.items():
        if kind not in _TYPES:
            raise where.error(f"parse.fields.{name}", f"{kind!r} is none of {', '.join(_TYPES)}")
    if parse.keep_line and parse.format != "raw" and "line" in (name.lower() for name in config.fields):
        raise where.error("parse.keep_line", "there is a field of this name already: line")
    _check_time(config, where)


def _check_time(config: Config, where: Where) -> None:
    parse = config.parse
    if "time" in config.fields and parse.time != "time":
        raise where.error("parse.time", "there is a field time, and it would be lost", 'Say `time = "time"`')
    if parse.time is not None:
        if parse.time not in config.fields:
            raise where.error("parse.time", f"there is no field {parse.time!r}")
        kind = parse.fields.get(parse.time, "string")
        if kind == "boolean":
            raise where.error("parse.time", f"field {parse.time} is a boolean")
    if parse.time_format is not None:
        if parse.time is None:
            raise where.error("parse.time_format", "says nothing without parse.time")
        if kind not in ("string", "int", "bigint"):
            raise where.error("parse.time_format", f"is for texts, and field {parse.time} is a {kind}")
        try:
            far_year(parse.time_format)
        except ValueError as error:
            raise where.error("parse.time_format", str(error)) from None


def _check_columns(config: Config, where: Where) -> None:
    taken = {"time", "date", "batch", *META}
    groups: Sequence[tuple[str, Mapping[str, object]]] = (
        ("parse.fields", dict.fromkeys(config.line_columns)),
        ("columns", config.columns),
    )
    for section, names in groups:
        for name in names:
            key: tuple[str, ...] = (*section.split("."), name)
            if section == "parse.fields" and config.parse.pattern:
                key = ("parse", "pattern")
            if _NAME.fullmatch(name) is None:
                raise where.error(key, f"{name!r} must be letters, digits and _, and begin with a letter")
            if name.lower() in taken:
                raise where.error(key, f"column {name} is there already", "Choose another name")
            taken.add(name.lower())


def _check_counts(config: Config, where: Where) -> None:
    if config.counts is None:
        return
    for key in ("window", "watermark"):
        if _DURATION.fullmatch(getattr(config.counts, key)) is None:
            raise where.error(f"counts.{key}", f"{getattr(config.counts, key)!r} must be like '1 minute'")
    if int(config.counts.window.split()[0]) == 0:
        raise where.error("counts.window", "must be longer than nothing")
    for name in config.counts.by:
        if name not in config.row_columns:
            raise where.error("counts.by", f"there is no column {name!r}", _there_are(config.row_columns))
        if name.lower() in ("window", "window_start", "window_end", "count"):
            raise where.error("counts.by", f"the counts have a column {name} of their own")
    _check_each_once(config.counts.by, where, "counts.by")


def _check_sink(config: Config, where: Where) -> None:
    sink = config.sink
    files = sink.format in ("parquet", "json")
    if files and sink.path is None:
        raise where.error("sink.path", f"is missing: format {sink.format} writes files")
    if not files:
        for key in ("path", "partition_by"):
            if getattr(sink, key) is not None:
                raise where.error(f"sink.{key}", f"format {sink.format} writes no files")
    if (sink.format == "jetstream") != (sink.subject is not None):
        told = "is missing: format jetstream publishes" if sink.subject is None else "is for format jetstream"
        raise where.error("sink.subject", told)
    if sink.subject is not None:
        _check_target(config, where, "sink.subject", sink.subject)
    if sink.rows < 1:
        raise where.error("sink.rows", "must be at least 1")
    if sink.path is not None and _inside(sink.path, config.checkpoint):
        raise where.error("sink.path", "table and checkpoint must be apart: one is inside of the other")
    _check_each_once(sink.partition_by or (), where, "sink.partition_by")
    known = (*config.written_columns, "date")
    for name in config.partition_by if files else ():
        if name not in known:
            raise where.error("sink.partition_by", f"there is no column {name!r}", _there_are(known))
    if files and set(config.partition_by) >= set(config.written_columns):
        raise where.error("sink.partition_by", "leaves no column to write")


def _check_each_once(names: Sequence[str], where: Where, key: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise where.error(key, f"has {name} twice")


def _inside(path: str, other: str) -> bool:
    """Whether one of them is the other or in it."""
    one, two = (os.path.normpath(each.removeprefix("file://")).split("/") for each in (path, other))
    length = min(len(one), len(two))
    return one[:length] == two[:length]


def _check_dead_letters(config: Config, where: Where) -> None:
    letters = config.dead_letters
    if letters.drop == (letters.subject is not None):
        raise where.error(
            "dead_letters", "lines that do not parse need a place: subject, or drop = true, one of them"
        )
    if letters.subject is not None:
        _check_target(config, where, "dead_letters.subject", letters.subject)


def _check_target(config: Config, where: Where, key: str, subject: str) -> None:
    try:
        check_subject(subject)
    except UsageError as error:
        raise where.error(key, str(error.args[0]), error.hint) from None
    for read in config.source.subjects:
        if subjects_overlap(read, subject):
            raise where.error(key, f"{subject!r} is read by source.subjects {read!r}: it would never end")


def _there_are(names: Sequence[str]) -> str:
    return f"There are: {', '.join(names)}"
