"""The keys of a sink `iceberg`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Literal, Self

import msgspec

from jetspark.logs.job.attempts import check_path
from jetspark.logs.job.config import Compacted, Config, Section, SinkSection, SinkWriter
from jetspark.logs.job.layout import check_layout
from jetspark.logs.job.storage import is_local
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

__all__ = ["IcebergSink"]

_INSTALL: Final = "Install it with `pip install 'jetspark[iceberg]'`"


class IcebergSink(Section, SinkSection, frozen=True):
    """An Iceberg table."""

    format: str
    #: The location of the table.
    path: str
    #: The identifier in the catalog; by default `logs.` and the name of the job.
    table: str | None = None
    partition_by: tuple[str, ...] = ("date",)
    #: pyiceberg's properties of the catalog; `name` is the one of its configuration file.
    catalog: dict[str, str] = msgspec.field(default_factory=dict)
    writer: Literal["jetspark", "spark"] = "jetspark"

    @property
    def destination(self) -> str:
        return self.path

    def partitions(self, config: Config) -> tuple[str, ...]:
        return self.partition_by

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        return msgspec.structs.replace(self, path=resolve(self.path).removeprefix("file://"))

    def check(self, config: Config, where: Where) -> None:
        check_path(self.path, where)
        check_layout(self.path, self.partition_by, config, where)
        if self.writer == "spark" and self.table is None:
            raise where.error(
                "sink.table", "is missing: Spark needs a name with its catalog, as lake.logs.access"
            )
        if not is_local(self.path) and not self.catalog and self.writer == "jetspark":
            raise where.error("sink.catalog", "is missing: only a local table can have its own catalog")
        if not all(self.identifier(config).split(".")) or "." not in self.identifier(config):
            raise where.error("sink.table", f"{self.table!r} must be like logs.access")

    def identifier(self, config: Config) -> str:
        """The name of the table in the catalog."""
        return self.table or f"logs.{config.name}"

    def open(self, config: Config, where: Where, finder: TargetFinder) -> SinkWriter:
        if self.writer == "spark":
            from jetspark.logs.job.sinks.iceberg.spark_writer import IcebergSparkWriter  # noqa: PLC0415 - rare

            return IcebergSparkWriter(self, config, where)
        _check_installed(where)
        from jetspark.logs.job.sinks.iceberg.writer import IcebergWriter  # noqa: PLC0415 - an extra

        return IcebergWriter(self, config, where)

    def compact(self, config: Config, where: Where, keep: timedelta) -> Compacted:
        _check_installed(where)
        from jetspark.logs.job.sinks.iceberg.compaction import compact  # noqa: PLC0415 - an extra

        return compact(self, config, where, keep)


def _check_installed(where: Where) -> None:
    try:
        import pyiceberg  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise where.error("sink.format", "iceberg requires pyiceberg", _INSTALL) from None
