"""The package in which Spark discovers `format("jetstream")`, by its name and its `DefaultSource`.

Spark imports every package named `pyspark_*` when a session looks for data sources, and discovers none of
them if one import fails. So this package imports nothing until `DefaultSource` is accessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jetspark.spark.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> type[DefaultSource]:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from jetspark.spark.source import JetStreamDataSource  # noqa: PLC0415
    except ImportError as error:
        raise AttributeError(f"format jetstream is not available: {error}") from error
    return JetStreamDataSource
