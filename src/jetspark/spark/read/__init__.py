"""`spark.read` and `spark.readStream`: streams as DataFrames.

In reading order:

| file                | runs on  |                                                                       |
|---------------------|----------|-----------------------------------------------------------------------|
| `streams`           | driver   | the streams that the options select, and the sequences of their bounds |
| `offsets`           | driver   | the JSON offsets of the checkpoint, and the ranges between two; pure    |
| `planning`          | driver   | how much a batch takes, and how ranges are split into tasks; pure       |
| `data_loss`         | both     | `failOnDataLoss`: raise or log                                        |
| `tracker`           | driver   | where a query starts, where its next batch ends, what was lost          |
| `progress_consumer` | driver   | the option `progressConsumer`: shows the committed position in NATS    |
| `buckets`           | executor | keys of a bucket and objects of a store as rows                        |
| `partition`         | both     | a task: planned on the driver, read on an executor                     |
| `batch`             | both     | `spark.read`                                                          |
| `stream`            | both     | `spark.readStream`                                                    |

Each file imports only files above it, and never `jetspark.spark.write`. `batch` and `stream` do not import
each other.
"""
