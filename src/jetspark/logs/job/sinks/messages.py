"""The sink `jetstream`: rows as JSON messages to a subject, each stored once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from jetspark.logs.job.config import Config, Section, SinkSection, SinkWriter
from jetspark.logs.job.sql import F
from jetspark.logs.job.target import MessageTarget, TargetFinder, check_target, line_id, trace_headers
from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MessageSink"]

#: The bytes of a message that are reserved for headers.
_HEADER_BYTES: Final = 2 * 1024


class MessageSink(Section, SinkSection, frozen=True):
    """Messages to a subject."""

    format: str
    subject: str
    #: Unused: earlier versions accepted this key of `console` for every format.
    rows: int = 20

    @property
    def destination(self) -> str:
        return self.subject

    def check(self, config: Config, where: Where) -> None:
        check_target(where, "sink.subject", self.subject, config.source.subjects)

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        return _MessageWriter(config, finder.find("sink.subject", self.subject, _HEADER_BYTES))


class _MessageWriter(SinkWriter):
    def __init__(self, config: Config, target: MessageTarget) -> None:
        self._config = config
        self._target = target

    def limit(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        size = F.octet_length(F.to_json(F.struct(*columns))) if columns else F.lit(0)
        reason = F.when(size > self._target.max_bytes, F.lit("the row is too large"))
        return rows.withColumn("_reason", F.coalesce("_reason", reason))

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        name, columns = self._config.name, self._config.written_columns
        made = [F.to_json(F.struct(*columns)).alias("data")]
        if self._config.counts is None:
            made += [line_id(name, "row").alias("msg_id"), trace_headers().alias("headers")]
        else:  # A count belongs to no line: everything but the number names it.
            key = F.sha2(F.to_json(F.struct(*columns[:-1])), 256)
            made.append(F.concat_ws("/", F.lit(name), F.lit("count"), key).alias("msg_id"))
        self._target.publish(rows.select(*made), since=since)
