"""The Spark data source: `spark.read.format("jetstream")`. Needs pyspark."""

from __future__ import annotations

from jetspark.spark.source import JetStreamDataSource

__all__ = ["JetStreamDataSource"]
