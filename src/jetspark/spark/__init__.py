"""The Spark data source, `format("jetstream")`. Requires pyspark.

In reading order:

| file          |                                                                                 |
|---------------|---------------------------------------------------------------------------------|
| `source`      | the entry point: Spark's `DataSource`, which makes the readers and the writers    |
| `options`     | every option: one table, parsed and validated in one place; pure                 |
| `schema`      | the columns of a read                                                            |
| `connections` | one connection per Python process and set of options                             |
| `log`         | the logger, which writes to the stderr of Spark's processes                      |
| `read/`       | `spark.read` and `spark.readStream`                                              |
| `queue/`      | `spark.readStream` with the option `consumer`: Spark as a worker                 |
| `write/`      | `df.write` and `df.writeStream`                                                  |

Spark runs each part in another Python process, and objects reach the next one only by pickle:

| process                                | what it runs                                                  |
|----------------------------------------|---------------------------------------------------------------|
| planner worker, on the driver          | `source`, `options`, `schema`; `read.batch` up to `partitions` |
| runner, on the driver, one per query   | `read.stream` or `queue`, all but `read`; it keeps its state   |
| executor workers, one task at a time   | `read` of both readers; `write` of both writers                |
| driver, a new instance for each call   | `commit` and `abort` of the writers                            |

`source` imports the others; `queue/` is above `read/`, and `write/` knows neither. All of them import
`options`, `connections` and `log`. Nothing here uses a private name of `jetspark.jetstream`.
"""

from __future__ import annotations

from jetspark.spark.source import JetStreamDataSource

__all__ = ["JetStreamDataSource"]
