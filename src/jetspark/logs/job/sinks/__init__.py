"""The sinks of a job, by the `format` of the section `[sink]`.

files      `parquet` and `json`: a table of files, one set of directories for each batch
versioned  a table whose batches are commits: what `delta` and `iceberg` share
delta      `delta`: a Delta table, each batch one version of it
iceberg/   `iceberg`: an Iceberg table, each batch one snapshot of it
messages   `jetstream`: rows as JSON messages, each stored once
console    `console`: the first rows of each batch, on standard output

A new sink is one file, or a package, with a subclass of `config.SinkSection` (keys and checks) and one of
`config.SinkWriter` (batches), and one row here. Sinks import `attempts`, `config`, `jars`, `layout`,
`storage`, `target`, `toml_lines` and `versioned`, never each other.
"""

from typing import Final

from jetspark.logs.job.config import SinkSection
from jetspark.logs.job.sinks.console import ConsoleSink
from jetspark.logs.job.sinks.delta import DeltaSink
from jetspark.logs.job.sinks.files import FileSink
from jetspark.logs.job.sinks.iceberg import IcebergSink
from jetspark.logs.job.sinks.messages import MessageSink

__all__ = ["SINKS"]

SINKS: Final[dict[str, type[SinkSection]]] = {
    "parquet": FileSink,
    "json": FileSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "jetstream": MessageSink,
    "console": ConsoleSink,
}
