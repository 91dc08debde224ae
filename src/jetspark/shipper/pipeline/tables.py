"""Files of a table: Parquet or JSON lines, divided by columns and, below them, by batch.

A batch has directories of its own, `date=.../host=.../batch=7`. They appear whole, and a batch that is
written again replaces them: so a batch that was killed half-way adds nothing, and any tool that reads
directories reads every row once. Only one job at a time may write a table.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jetspark.shipper.pipeline.config import Config

__all__ = ["clean_up", "write_batch"]

#: What a name of a directory may be; anything else becomes a hash. Names come from anybody.
_SAFE: Final = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
#: Where Spark prepares directories before it moves them.
_STAGING: Final = ".spark-staging-*"


def write_batch(rows: DataFrame, config: Config, batch: int) -> None:
    """Write the rows of a batch, in place of what an earlier attempt left."""
    assert config.sink.path is not None
    made = rows.select(*config.written_columns)
    if "date" in config.partition_by:
        made = made.withColumn("date", F.to_date(config.written_columns[0]))
    for field in made.schema:
        if field.name in config.partition_by and field.dataType.simpleString() == "string":
            made = made.withColumn(field.name, _safe(field.name))
    if config.partition_by:  # One file for each directory, not one of each task.
        made = made.repartition(*config.partition_by)
    made = made.withColumn("batch", F.lit(batch).cast("bigint"))
    (
        made.write.format(config.sink.format)
        .mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(*config.partition_by, "batch")
        .save(config.sink.path)
    )


def _safe(name: str) -> Column:
    hashed = F.concat(F.lit("sha-"), F.substring(F.sha2(name, 256), 1, 32))
    return F.when(F.col(name).rlike(_SAFE), F.col(name)).when(F.col(name).isNotNull(), hashed)


def clean_up(spark: SparkSession, path: str) -> None:
    """Remove what a job that was killed had prepared. Nobody reads it, but it takes space."""
    jvm = spark._jvm
    assert jvm is not None
    directory = jvm.org.apache.hadoop.fs.Path(path)
    files = directory.getFileSystem(spark._jsc.hadoopConfiguration())
    for found in files.globStatus(jvm.org.apache.hadoop.fs.Path(directory, _STAGING)) or ():
        files.delete(found.getPath(), True)
