"""Where Spark looks for `format("jetstream")`: a package of this name with a `DefaultSource`.

Spark imports every package named like this one when a session looks for data sources, and gives up on all of
them when one fails. So nothing is imported here before somebody asks.
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
