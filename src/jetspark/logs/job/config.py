"""`pipeline.toml` as typed values, and the base classes of formats, sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "META",
    "Compacted",
    "Config",
    "ParseSection",
    "Place",
    "Section",
    "SinkSection",
    "SinkWriter",
    "SourceSection",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Columns of every row, of any format.
META: Final = ("host", "file", "line_offset", "cut", "subject", "stream", "sequence", "received")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; unknown keys are errors."""


class Place(NamedTuple):
    """Where a message is, and when it was stored: a stream that is created again restarts at 1."""

    stream: str
    sequence: int
    #: In microseconds since 1970.
    received: int

    @property
    def time(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.received)


class SourceSection:
    """The section `[source]`: the base class of every file in `sources/`."""

    __slots__ = ()
    #: The subjects that are read; empty: all of them.
    subjects: Sequence[str]
    #: Whether lines may be compressed.
    compressed: bool

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        """The section with absolute paths."""
        return self

    def with_servers(self, given: str | None, default: str | None) -> Self:
        """The section with `given` as its servers, or with `default` if it names no servers."""
        return self

    def check(self, where: Where) -> None:
        """Check what the types cannot express. Raises `UsageError`."""

    def read(self, spark: SparkSession, headers: Mapping[str, str]) -> DataFrame:
        """The messages as a streaming frame: the columns of `format("jetstream")`, and of these headers."""
        raise NotImplementedError

    def read_first(self, spark: SparkSession, headers: Mapping[str, str], count: int) -> DataFrame:
        """The first `count` messages, with the columns of `read`."""
        raise NotImplementedError

    def read_again(
        self, spark: SparkSession, headers: Mapping[str, str], places: Iterable[Place]
    ) -> DataFrame:
        """A few messages with the columns of `read`. Raises `DataLoss` for deleted ones."""
        raise NotImplementedError

    def options(self) -> dict[str, str]:
        """The options to read with. Secrets are named by their files, so that no plan shows them."""
        raise NotImplementedError

    def connection_options(self) -> dict[str, str]:
        """The options of `format("jetstream")` to connect with; dead letters use them too."""
        raise NotImplementedError


class Compacted(NamedTuple):
    """The result of `pipeline compact`."""

    #: Small files that were merged, and the large ones that replace them.
    merged: int
    written: int
    #: Files of old versions that were deleted.
    deleted: int


class SinkSection:
    """The section `[sink]`: the base class of every file in `sinks/`."""

    __slots__ = ()
    format: str

    @property
    def destination(self) -> str:
        """The path or subject, as `explain` shows it."""
        return ""

    def partitions(self, config: Config) -> tuple[str, ...] | None:
        """The columns that divide the files, as `explain` shows them; None for a sink without files."""
        return None

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        """The section with absolute paths."""
        return self

    def check(self, config: Config, where: Where) -> None:
        """Check what the types cannot express. Raises `UsageError`."""

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        """The writer, before Spark starts. `finder` finds the streams of subjects. Raises `UsageError`."""
        raise NotImplementedError

    def compact(self, config: Config, where: Where, keep: timedelta) -> Compacted:
        """Merge small files, and delete versions of the table older than `keep`. Raises `UsageError`."""
        raise where.error("sink.format", f"{self.format} cannot be compacted", "Formats: delta, iceberg")


class SinkWriter:
    """Writes the batches of one run. Writing a batch again must not add rows."""

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        """Called before the queries start, with the id of a used checkpoint. Raises `UsageError`."""

    def limit(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Set `_reason` on rows that the sink cannot take because of the values in `columns`."""
        return rows

    def forget(self, batch: int) -> None:
        """Remove the rows that an earlier attempt at a batch may have written."""

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        """Write a batch: compute every row, once. `since`: parts of it may have been stored since then."""
        raise NotImplementedError


class ParseSection:
    """The section `[parse]`: the base class of every file in `parse/formats/`."""

    __slots__ = ()
    format: str
    #: The runtime that wraps each line: `cri`, `docker` or None.
    container: str | None
    keep_line: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the format reads from a line."""
        raise NotImplementedError

    @property
    def deep(self) -> bool:
        """Whether a pattern of the user is matched, for which Java may need a deep stack."""
        return False

    def key_of(self, column: str) -> tuple[str, ...]:
        """The key that names a column, for error messages."""
        return ("parse", "format")

    def check(self, where: Where) -> None:
        """Check what the types cannot express. Raises `UsageError`."""

    def check_with(self, spark: SparkSession, where: Where) -> None:
        """Check what only Spark can check. Raises `UsageError`."""

    def parse(self, frame: DataFrame) -> tuple[DataFrame, Column]:
        """The frame with the columns of the format and `time`, and the reason why a line does not parse.

        The line is in `_line`; `_logged` is when it was written, as far as it is known without parsing it.
        """
        raise NotImplementedError


class Counts(Section, frozen=True):
    """Count rows in windows of their time, and write the counts in place of the rows."""

    window: str
    watermark: str
    by: list[str] = []


class DeadLetters(Section, frozen=True):
    """Where the job sends lines that do not parse."""

    subject: str | None = None
    drop: bool = False


class Spark(Section, frozen=True):
    """The Spark session."""

    master: str = "local[2]"
    conf: dict[str, str] = {}
    #: The file for Spark's own log.
    log: str | None = None
    #: The permissions that new files and directories do not get, octal: the log, the checkpoint, the table.
    umask: str = "027"


class Config(Section, frozen=True):
    """The whole file."""

    name: str
    checkpoint: str
    source: SourceSection
    parse: ParseSection
    sink: SinkSection
    dead_letters: DeadLetters
    trigger: str = "available-now"
    columns: dict[str, str] = {}
    counts: Counts | None = None
    spark: Spark = Spark()

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the format reads from a line."""
        return self.parse.columns

    @property
    def line_columns(self) -> tuple[str, ...]:
        """The columns that come from a line, without `time`."""
        unwrapped = ("output",) if self.parse.container is not None else ()
        kept = ("line",) if self.parse.keep_line and "line" not in self.fields else ()
        return tuple(name for name in (*unwrapped, *self.fields, *kept) if name.lower() != "time")

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of a row, in order."""
        return ("time", *self.line_columns, *self.columns, *META)

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The columns that the sink writes."""
        if self.counts is None:
            return self.row_columns
        return ("window_start", "window_end", *self.counts.by, "count")
