"""What a job reads, parses, derives and writes: `pipeline.toml` as typed values. `config_file` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from jetspark.logs.job.parse.patterns import Pattern, read_pattern

__all__ = [
    "META",
    "Config",
    "Counts",
    "DeadLetters",
    "Parse",
    "Sink",
    "Source",
    "Spark",
]

#: Columns that every row has, whatever its line says.
META: Final = ("host", "file", "line_offset", "cut", "subject", "stream", "sequence", "received")
#: Columns that the formats make, `time` always.
_OF_FORMAT: Final[dict[str, tuple[str, ...]]] = {
    "combined": (
        *("remote_addr", "user", "request", "method", "path", "protocol"),
        *("status", "bytes", "referer", "user_agent"),
    ),
    "syslog": (
        *("facility", "severity", "hostname", "app", "process", "message_id"),
        *("structured_data", "message"),
    ),
    "raw": ("line",),
}


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Source(_Section, frozen=True):
    """What is read, and how to connect. Secrets are in files."""

    stream: str | list[str]
    servers: str | list[str] | None = None
    subjects: list[str] = []
    start: str | dict[str, int] = "earliest"
    max_messages_per_trigger: int = 500_000
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    progress_consumer: str | None = None
    #: Whether lines may be compressed: it takes a round through Python to look.
    compressed: bool = False
    credentials_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    nkey_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    domain: str | None = None
    api_prefix: str | None = None


class Parse(_Section, frozen=True):
    """How a line becomes columns."""

    format: Literal["json", "logfmt", "syslog", "combined", "regex", "raw"]
    #: Of `json` and `logfmt`: the columns and their types. Of `regex`: types other than string.
    fields: dict[str, str] = {}
    pattern: str | None = None
    #: Which column is the time of the event; the others have one of their own.
    time: str | None = None
    #: How Spark reads it, unless it is ISO 8601.
    time_format: str | None = None
    keep_line: bool = False


class Counts(_Section, frozen=True):
    """Rows are counted in windows of their time, and the counts are written instead of the rows."""

    window: str
    watermark: str
    by: list[str] = []


class Sink(_Section, frozen=True):
    """Where rows go."""

    format: Literal["parquet", "json", "console", "jetstream"]
    path: str | None = None
    partition_by: list[str] | None = None
    subject: str | None = None
    #: How many rows `console` shows of a batch.
    rows: int = 20


class DeadLetters(_Section, frozen=True):
    """Where lines go that do not parse."""

    subject: str | None = None
    drop: bool = False


class Spark(_Section, frozen=True):
    """The Spark that runs it."""

    master: str = "local[2]"
    conf: dict[str, str] = {}
    #: Where Spark's own log goes.
    log: str | None = None


class Config(_Section, frozen=True):
    """The whole file."""

    name: str
    checkpoint: str
    source: Source
    parse: Parse
    sink: Sink
    dead_letters: DeadLetters
    trigger: str = "available-now"
    columns: dict[str, str] = {}
    counts: Counts | None = None
    spark: Spark = Spark()

    @property
    def pattern(self) -> Pattern:
        """The pattern of format `regex`."""
        assert self.parse.pattern is not None
        return read_pattern(self.parse.pattern)

    @property
    def fields(self) -> tuple[str, ...]:
        """What a line is read as."""
        if self.parse.format == "regex":
            return self.pattern.names
        return _OF_FORMAT.get(self.parse.format) or tuple(self.parse.fields)

    @property
    def line_columns(self) -> tuple[str, ...]:
        """The columns that are made of a line, without `time`."""
        kept = ("line",) if self.parse.keep_line and "line" not in self.fields else ()
        return tuple(name for name in (*self.fields, *kept) if name != "time")

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of a row, in order."""
        return ("time", *self.line_columns, *self.columns, *META)

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The columns of what is written."""
        if self.counts is None:
            return self.row_columns
        return ("window_start", "window_end", *self.counts.by, "count")

    @property
    def partition_by(self) -> tuple[str, ...]:
        """How files are divided, before the batch."""
        if self.sink.partition_by is not None:
            return tuple(self.sink.partition_by)
        return ("date", "host") if "host" in self.written_columns else ("date",)

    def source_options(self) -> dict[str, str]:
        """The options of `format("jetstream")` to read with, secrets among them."""
        source = self.source
        position = source.start
        options: dict[str, Any] = {
            **self.connection_options(),
            "stream": _joined(source.stream),
            "subjects": ",".join(source.subjects) or None,
            "maxMessagesPerTrigger": source.max_messages_per_trigger,
            "minPartitions": source.min_partitions,
            "failOnDataLoss": str(source.fail_on_data_loss).lower(),
            "progressConsumer": source.progress_consumer,
        }
        if isinstance(position, dict):
            options["startingPosition"] = msgspec.json.encode(position).decode()
        elif position in ("earliest", "latest"):
            options["startingPosition"] = position
        else:
            options["startingTimestamp"] = position
        return {key: str(value) for key, value in options.items() if value is not None}

    def connection_options(self) -> dict[str, str]:
        """Those that say how to connect."""
        source = self.source
        options = {
            "servers": None if source.servers is None else _joined(source.servers),
            "credentialsFile": source.credentials_file,
            "user": source.user,
            "password": _secret(source.password_file),
            "token": _secret(source.token_file),
            "nkeySecretFile": source.nkey_file,
            "tlsCaFile": source.tls_ca_file,
            "tlsCertFile": source.tls_cert_file,
            "tlsKeyFile": source.tls_key_file,
            "domain": source.domain,
            "apiPrefix": source.api_prefix,
        }
        return {key: value for key, value in options.items() if value is not None}


def _joined(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _secret(path: str | None) -> str | None:
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None  # Told by the check.
