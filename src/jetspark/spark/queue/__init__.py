"""`spark.readStream` with the option `consumer`: Spark as one worker among others of a durable consumer.

The server decides who gets a message. The driver pulls, without payloads where it can; the sequences that
it got are the end offset of the batch, in the checkpoint before a task runs. Tasks read exactly these
messages from the stream, and the driver acknowledges them when Spark has committed the batch.

In reading order:

| file        | runs on  |                                                                                |
|-------------|----------|--------------------------------------------------------------------------------|
| `sequences` | both     | sets of sequences: as text, and as spans that are worth one read; pure          |
| `offsets`   | driver   | the JSON offsets of the checkpoint: the messages of one batch; pure             |
| `consumers` | driver   | the durable consumer on each stream: checked, or created                        |
| `returns`   | driver   | requests of `foreachBatch` to return messages; no I/O                          |
| `worker`    | driver   | pulls, keeps, recognizes and acknowledges messages; knows no Spark              |
| `partition` | both     | a task: planned on the driver, read on an executor                              |
| `stream`    | both     | the reader that Spark calls, thin around the worker                             |
| `settle`    | driver   | `nak_rows` and `term_rows`, for `foreachBatch`                                  |

Each file imports only files above it.
"""
