"""`spark.readStream` with the option `consumer`: Spark as one worker among others of a durable consumer.

The server decides which worker gets a message. The driver pulls messages, without payloads if it can. Their
sequences are the end offset of the batch, which is in the checkpoint before a task runs. Tasks read exactly
these messages from the stream, and the driver acknowledges them when Spark has committed the batch.

In reading order:

| file        | runs on  |                                                                                |
|-------------|----------|--------------------------------------------------------------------------------|
| `sequences` | both     | sets of sequences: as text, and as spans that are worth one read; pure          |
| `offsets`   | driver   | the JSON offsets of the checkpoint: the messages of one batch; pure             |
| `consumers` | driver   | the durable consumer on each stream: checked, or created                        |
| `returns`   | driver   | requests of `foreachBatch` to return messages; no I/O                          |
| `worker`    | driver   | pulls, keeps, recognizes and acknowledges messages; independent of Spark        |
| `partition` | both     | a task: planned on the driver, read on an executor                              |
| `stream`    | both     | the reader that Spark calls, a thin wrapper of the worker                       |
| `settle`    | driver   | `nak_rows` and `term_rows`, for `foreachBatch`                                  |

Each file imports only files above it.
"""
