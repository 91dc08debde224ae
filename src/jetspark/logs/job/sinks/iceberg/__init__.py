"""The sink `iceberg`: an Iceberg table. Spark's tasks write the files, pyiceberg commits them.

section        the keys of `[sink]`, and their checks
table          the table in its catalog, and its properties about batches
writer         writes the batches: files, and a commit
compaction     merges small files, and deletes old ones
spark_writer   `writer = "spark"`: Iceberg's own classes write

The tasks of a batch write Parquet files (`attempts`). No reader of the table sees them before the driver
commits a snapshot with all of them. The same commit sets the table property `jetspark.batch.<checkpoint>` to
the number of the batch, so that a repeated batch is skipped, even after its snapshot has expired. So several
jobs may write one table. The property `jetspark.checkpoint.<job>` names the checkpoint of a job: with a new
one, the job would write the same lines again.

Without `catalog`, a table in a local directory has its own catalog there, in SQLite. The file
`metadata/version-hint.text` then names the newest version, for readers that get only the directory.

pyiceberg is an extra: `section` imports the files that need it when it needs them.
"""

from jetspark.logs.job.sinks.iceberg.section import IcebergSink

__all__ = ["IcebergSink"]
