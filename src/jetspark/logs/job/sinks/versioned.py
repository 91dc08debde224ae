"""A table whose batches are commits: the keys and errors that the sinks `delta` and `iceberg` share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Literal, Self

import msgspec

from jetspark.logs.job.config import Config, Section, SinkSection
from jetspark.logs.job.layout import check_layout
from jetspark.logs.toml_lines import Where

__all__ = ["RUN_AGAIN", "VersionedSink"]

#: The hint of a compaction that failed.
RUN_AGAIN: Final = "No row is lost: run it again"


class VersionedSink(Section, SinkSection, frozen=True):
    """The keys of any such table."""

    format: str
    #: The location of the table.
    path: str
    partition_by: tuple[str, ...] = ("date",)
    writer: Literal["jetspark", "spark"] = "jetspark"

    @property
    def destination(self) -> str:
        return self.path

    def partitions(self, config: Config) -> tuple[str, ...]:
        return self.partition_by

    def resolved(self, resolve: Callable[[str], str]) -> Self:
        return msgspec.structs.replace(self, path=resolve(self.path).removeprefix("file://"))

    def check(self, config: Config, where: Where) -> None:
        if set(self.path) & set("%?\\"):
            what = f"{self.path!r} contains %, ? or \\, which have a meaning in URLs"
            raise where.error("sink.path", what)
        check_layout(self.path, self.partition_by, config, where)

    def require(self, package: str, where: Where) -> None:
        """Raise `UsageError` if the package of the format is not installed."""
        try:
            import_module(package)
        except ImportError:
            hint = f"Install it with `pip install 'jetspark[{self.format}]'`"
            raise where.error("sink.format", f"{self.format} requires {package}", hint) from None

    def path_error(self, where: Where, what: str, hint: str | None = None) -> Exception:
        """The error for a location, as in "/lake/access is not an Iceberg table yet"."""
        return where.error("sink.path", f"{self.path} {what}", hint)
