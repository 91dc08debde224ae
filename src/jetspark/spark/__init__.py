"""The Spark data source, `format("jetstream")`. Requires pyspark, which is loaded with `JetStreamDataSource`.

In reading order:

| file          |                                                                                 |
|---------------|---------------------------------------------------------------------------------|
| `source`      | the entry point: Spark's `DataSource`, which makes the readers and the writers    |
| `options/`    | every option: one table, parsed and validated in one place; pure                 |
| `schema`      | the columns of a read                                                            |
| `table`       | the options of a table in Spark's catalog, for SQL                               |
| `connections` | one connection per Python process and set of options                             |
| `reports`     | reports of a job or query in the control stream                                  |
| `log`         | the logger, which writes to the stderr of Spark's processes                      |
| `read/`       | `spark.read` and `spark.readStream`                                              |
| `queue/`      | `spark.readStream` with the option `consumer`: Spark as a worker                 |
| `dead_letters` | the option `deadLetters`: the messages that a consumer gave up, as a table       |
| `write/`      | `df.write` and `df.writeStream`                                                  |
| `query_lag`   | `lag`: how far a query is behind, by its progress; pure                           |
| `listener`    | `ProgressListener`: reports queries to the control stream and to metrics          |
| `poison`      | `split_poison`: rows that do not parse, as dead letters                           |

Spark runs the parts in different Python processes, and passes objects between them by pickle only:

| process                                | what it runs                                                  |
|----------------------------------------|---------------------------------------------------------------|
| planner worker, on the driver          | `source`, `options`, `schema`; `read.batch` up to `partitions` |
| runner, on the driver, one per query   | `read.stream` or `queue`, all but `read`; it keeps its state   |
| executor workers, one task at a time   | `read` of both readers; `write` of both writers                |
| driver, a new instance for each call   | `commit` and `abort` of the writers                            |

`source` imports the others; `queue/` is above `read/`, and `write/` imports neither. All of them import
`options`, `connections` and `log`. Nothing here uses a private name of `jetspark.jetstream`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jetspark.spark.listener import ProgressListener
    from jetspark.spark.poison import split_poison
    from jetspark.spark.query_lag import Lag, lag
    from jetspark.spark.queue.settle import nak_rows, term_rows
    from jetspark.spark.source import JetStreamDataSource

__all__ = [
    "JetStreamDataSource",
    "Lag",
    "ProgressListener",
    "lag",
    "nak_rows",
    "split_poison",
    "term_rows",
]

#: Imported when they are used: every Python process of Spark imports this package.
_LATER: Final = {
    "JetStreamDataSource": "jetspark.spark.source",
    "Lag": "jetspark.spark.query_lag",
    "ProgressListener": "jetspark.spark.listener",
    "lag": "jetspark.spark.query_lag",
    "nak_rows": "jetspark.spark.queue.settle",
    "split_poison": "jetspark.spark.poison",
    "term_rows": "jetspark.spark.queue.settle",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(_LATER[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        from jetspark.errors import MissingExtra  # noqa: PLC0415

        hint = "Install it with `pip install 'jetspark[spark]'`"
        raise MissingExtra("jetspark.spark needs pyspark", hint=hint) from error
    globals()[name] = found
    return found
