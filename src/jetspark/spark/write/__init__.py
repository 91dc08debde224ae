"""`df.write` and `df.writeStream`: rows as messages.

In reading order:

| file           | runs on  |                                                                              |
|----------------|----------|------------------------------------------------------------------------------|
| `writer`       | both     | Spark's two writers, the ids of the rows, and the summary in the log           |
| `targets`      | both     | finds the stream of each subject and validates it                            |
| `task`         | executor | publishes the rows of one task and waits for every acknowledgement           |
| `rows`         | executor | which columns are accepted, and how a row becomes a message; pure            |
| `keys`         | executor | the rows of a write into a bucket as rows of its stream; pure                |
| `ids`          | executor | the ids of rows, from what they hold; pure                                   |
| `dead_letters` | executor | the message about a row that cannot be sent; pure                            |

`writer` imports the others, `task` imports `targets` and `rows`, `rows` imports `ids` and `dead_letters`,
`keys` imports `rows`. Nothing here imports `jetspark.spark.read`.
"""
