"""The option `deadLetters`: the messages that a consumer gave up, as a table or as a stream.

The rows come from the stream that captures the advisories, which is read like any other. Each advisory is
joined with its message, or marked `gone`.

| column       | type                         |                                                            |
|--------------|------------------------------|------------------------------------------------------------|
| `stream`     | `string`                     |                                                            |
| `consumer`   | `string`                     |                                                            |
| `sequence`   | `bigint`                     | the sequence of the message in its stream                  |
| `kind`       | `string`                     | `max_deliveries` or `terminated`                           |
| `reason`     | `string`                     | the reason of the client that terminated it                |
| `deliveries` | `int`                        | how often it was delivered                                 |
| `given_up`   | `timestamp`                  | when the consumer gave it up                               |
| `gone`       | `boolean`                    | whether the stream no longer has the message               |
| `subject`    | `string`                     | of the message, as are the following; null if it is gone   |
| `data`       | `binary`                     |                                                            |
| `headers`    | `map<string, array<string>>` |                                                            |
| `timestamp`  | `timestamp`                  | when the stream stored it                                  |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from jetspark.errors import UsageError
from jetspark.jetstream.dead_letters import DeadLetter, captures, joined_letters
from jetspark.jetstream.message.stored import StoredMessage
from jetspark.jetstream.retry import OUTAGE, retry
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.options import SourceOptions
from jetspark.spark.read.batch import JetStreamReader
from jetspark.spark.read.partition import read_partition
from jetspark.spark.read.stream import JetStreamStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeadLetterReader", "DeadLetterStreamReader"]


class DeadLetterReader(JetStreamReader):
    """Plans and reads a table of dead letters."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(_of_advisories(options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read_letters(self._options, partition)


class DeadLetterStreamReader(JetStreamStreamReader):
    """Plans and reads the batches of a query over dead letters."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(_of_advisories(options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read_letters(self._options, partition)


def _of_advisories(options: SourceOptions) -> SourceOptions:
    """The options of a read of the captured advisories. Raises `UsageError` if no stream captures them."""
    assert options.dead_letters is not None
    stream, consumer = options.dead_letters
    with process_connection(options.connection, retry_for=PLANNING_TIMEOUT) as connection:
        api = connection.js.api
        found = connection.run(retry(lambda: captures(api, stream, consumer), PLANNING_TIMEOUT))
    subjects = {tuple(sorted(each)) for each in found.values()}
    if len(subjects) > 1:
        raise UsageError(
            f"the streams {', '.join(sorted(found))} capture different advisories of {stream}/{consumer}",
            hint="Capture all advisories with one stream, as js.create_advisory_stream() does",
        )
    return dataclasses.replace(options, stream=tuple(sorted(found)), subjects=subjects.pop())


def _read_letters(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert options.dead_letters is not None
    stream, consumer = options.dead_letters
    for batch in read_partition(options, partition):
        advisories = batch.column("data").to_pylist()
        with process_connection(options.connection, retry_for=OUTAGE) as connection:
            letters = connection.run(joined_letters(connection.js.api, stream, consumer, advisories))
        yield _record_batch(letters)


def _record_batch(letters: list[DeadLetter]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    from jetspark.arrow import SCHEMA  # noqa: PLC0415

    text, time, headers = pa.string(), SCHEMA.field("timestamp").type, SCHEMA.field("headers").type
    messages = [letter.message for letter in letters]
    columns = {
        "stream": pa.array([letter.stream for letter in letters], text),
        "consumer": pa.array([letter.consumer for letter in letters], text),
        "sequence": pa.array([letter.sequence for letter in letters], pa.int64()),
        "kind": pa.array([letter.kind for letter in letters], text),
        "reason": pa.array([letter.reason for letter in letters], text),
        "deliveries": pa.array([letter.deliveries for letter in letters], pa.int32()),
        "given_up": pa.array([letter.timestamp for letter in letters], time),
        "gone": pa.array([message is None for message in messages], pa.bool_()),
        "subject": pa.array([message and _clean(message.subject) for message in messages], text),
        "data": pa.array([message and message.data for message in messages], pa.binary()),
        "headers": pa.array([message and _headers(message) for message in messages], headers),
        "timestamp": pa.array([message and message.timestamp for message in messages], time),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _headers(message: StoredMessage) -> list[tuple[str, list[str]]]:
    return [(_clean(name), list(map(_clean, values))) for name, values in message.headers.multi_items()]


def _clean(text: str) -> str:
    """Text with invalid UTF-8 replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
