"""Writes the batches of an Iceberg table with Iceberg's own classes, into a table of a catalog of Spark.

The number of the batch is in the summary of its snapshot, which must not expire before the next batch.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from jetspark.logs.job.config import Config, SinkWriter
from jetspark.logs.job.jars import require_class
from jetspark.logs.job.layout import divided
from jetspark.logs.job.sinks.iceberg.section import IcebergSink
from jetspark.logs.toml_lines import Where

__all__ = ["IcebergSparkWriter"]


class IcebergSparkWriter(SinkWriter):
    """Writes with Iceberg's own classes."""

    _spark: SparkSession

    def __init__(self, sink: IcebergSink, config: Config, where: Where) -> None:
        self._sink = sink
        self._where = where
        self._columns = config.written_columns
        self._name = ".".join(f"`{part}`" for part in sink.identifier(config).split("."))

    def prepare(self, spark: SparkSession, owner: str | None) -> None:
        package = "org.apache.iceberg:iceberg-spark-runtime"
        require_class(spark, "org.apache.iceberg.spark.SparkCatalog", package, self._where)
        self._spark = spark

    def write(self, rows: DataFrame, batch: int, *, owner: str, since: datetime | None) -> None:
        by = self._sink.partition_by
        made = divided(rows, self._columns, by)
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in made.schema)
        parts = f"PARTITIONED BY ({', '.join(f'`{name}`' for name in by)})" if by else ""
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._name} ({columns}) USING iceberg {parts} "
            f"LOCATION {_literal(self._sink.path)} TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')"
        )
        if since is not None and self._last(owner) >= batch:
            rows.write.format("noop").mode(
                "overwrite"
            ).save()  # The job counts lines while they are computed.
            return
        writer = made.writeTo(self._name).option("merge-schema", "true")
        writer = writer.option("snapshot-property.jetspark.checkpoint", owner)
        writer.option("snapshot-property.jetspark.batch", str(batch)).append()

    def _last(self, owner: str) -> int:
        """The last batch of a checkpoint."""
        row = self._spark.sql(
            f"SELECT max(cast(summary['jetspark.batch'] AS bigint)) FROM {self._name}.snapshots "
            f"WHERE summary['jetspark.checkpoint'] = {_literal(owner)}"
        ).first()
        return -1 if row is None or row[0] is None else int(row[0])


def _literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
