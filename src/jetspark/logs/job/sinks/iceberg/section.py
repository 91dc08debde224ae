"""The keys of a sink `iceberg`."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from jetspark.logs.job.config import Compacted, Config, SinkWriter
from jetspark.logs.job.sinks.versioned import VersionedSink
from jetspark.logs.job.storage import is_local
from jetspark.logs.job.target import TargetFinder
from jetspark.logs.toml_lines import Where

__all__ = ["IcebergSink"]


class IcebergSink(VersionedSink, frozen=True):
    """An Iceberg table."""

    #: The identifier in the catalog; by default `logs.` and the name of the job.
    table: str | None = None
    #: pyiceberg's properties of the catalog; `name` is the one of its configuration file.
    catalog: dict[str, str] = msgspec.field(default_factory=dict)

    def check(self, config: Config, where: Where) -> None:
        super().check(config, where)
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
        self.require("pyiceberg", where)
        from jetspark.logs.job.sinks.iceberg.writer import IcebergWriter  # noqa: PLC0415 - an extra

        return IcebergWriter(self, config, where)

    def compact(self, config: Config, where: Where, keep: timedelta) -> Compacted:
        self.require("pyiceberg", where)
        from jetspark.logs.job.sinks.iceberg.compaction import compact  # noqa: PLC0415 - an extra

        return compact(self, config, where, keep)
