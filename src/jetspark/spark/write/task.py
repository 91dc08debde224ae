"""What a task does with its rows: every one is published, acknowledged, and counted.

Rows go out in pieces, so that the next ones are made while the server works on the last. A row that has to be
published again, because the connection or the leader is gone, goes under the same id.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from itertools import islice
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from jetspark.errors import BatchPublishError, PublishError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.requests import PubAck
from jetspark.jetstream.publish.atomic import MAX_MESSAGES
from jetspark.jetstream.publish.bulk import BulkPublisher, Outgoing
from jetspark.jetstream.retry import OUTAGE, retry
from jetspark.spark.connections import ProcessConnection
from jetspark.spark.options import SourceOptions
from jetspark.spark.write.rows import Columns, RowEncoder
from jetspark.spark.write.targets import TargetStreams
from jetspark.wire.headers import Headers

__all__ = ["TaskResult", "write_rows"]

#: Bytes that may be under way, whatever `maxPending` says.
_MAX_BYTES: Final = 32 * 1024 * 1024
#: A batch is refused with this number when the stream has one of its ids.
_DUPLICATE_IN_BATCH: Final = 10201


@dataclasses.dataclass(frozen=True)
class TaskResult(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    #: How many of them the stream had already, from an earlier attempt.
    duplicates: int
    seconds: float


def write_rows(
    connection: ProcessConnection, options: SourceOptions, encoder: RowEncoder, rows: Iterable[Columns]
) -> TaskResult:
    """Write the rows of a task. Raises `UsageError` for rows that cannot be written, else `PublishError`."""
    began = time.monotonic()
    writer = _TaskWriter(connection, options, encoder)
    try:
        for columns in rows:
            writer.write(columns)
        writer.finish()
    finally:
        writer.close()
    return TaskResult(encoder.rows, writer.duplicates, time.monotonic() - began)


class _TaskWriter:
    """Rows in, acknowledgements out."""

    def __init__(self, connection: ProcessConnection, options: SourceOptions, encoder: RowEncoder) -> None:
        self._connection = connection
        self._encoder = encoder
        self._targets = TargetStreams(connection.js, options)
        self._bulk = connection.run(_bulk(connection.js, options.max_pending))
        self._atomic = options.publish_mode == "atomic"

    @property
    def duplicates(self) -> int:
        """How many rows the stream had already."""
        return self._bulk.duplicates

    def write(self, columns: Columns) -> None:
        messages = self._encoder.messages(columns)
        while piece := list(islice(messages, MAX_MESSAGES)):
            for subject in dict.fromkeys(message.subject for message in piece):
                if self._targets.stream_of(subject) is None:
                    place = self._source(subject, piece) if "subject" in columns else "option subject"
                    self._connection.run(self._targets.find(subject, place))
            try:
                self._connection.run(self._commit_all(piece) if self._atomic else self._bulk.send(piece))
            except PublishError as error:
                raise self._told(error) from error.__cause__

    def finish(self) -> None:
        """Wait for what is under way."""
        try:
            self._connection.run(self._bulk.finish())
        except PublishError as error:
            raise self._told(error) from error.__cause__

    def close(self) -> None:
        """Let go of what is under way."""
        self._connection.run(_abandon(self._bulk))

    def _source(self, subject: str, piece: list[Outgoing]) -> str:
        """Where a subject comes from, which is new in the last rows."""
        row = self._encoder.rows - len(piece) + 1
        row += next(index for index, message in enumerate(piece) if message.subject == subject)
        return f"column subject, {self._encoder.place(row)}"

    def _told(self, error: PublishError) -> PublishError:
        """The error with the row that failed first, which only a window of single messages knows."""
        place = f"{self._encoder.place(error.first)}: " if error.first and not self._atomic else ""
        return PublishError(
            f"{place}{error.args[0]}", failed=error.failed, first=error.first, hint=error.hint
        )

    # --- in the loop

    async def _commit_all(self, piece: list[Outgoing]) -> None:
        """Publish rows as a batch for each of their streams."""
        batches: dict[str | None, list[Outgoing]] = {}
        for message in piece:
            batches.setdefault(self._targets.stream_of(message.subject), []).append(message)
        for batch in batches.values():
            await self._commit(batch)

    async def _commit(self, piece: list[Outgoing]) -> None:
        """Publish rows as one batch. It is all there or not at all, so that it may be tried again."""
        try:
            await retry(lambda: self._try(piece))
        except BatchPublishError as error:
            if error.err_code != _DUPLICATE_IN_BATCH:
                raise
            # An earlier attempt has stored it. One by one, each row says so, and none is stored again.
            await self._bulk.send(piece)

    async def _try(self, piece: list[Outgoing]) -> PubAck:
        batch = self._connection.js.atomic_batch(retry_for=OUTAGE)
        for message in piece:
            batch.add(message.subject, message.data, headers=Headers.parse(message.block))
        return await batch.commit()


async def _bulk(js: JetStream, max_pending: int) -> BulkPublisher:
    return BulkPublisher(js.api, max_pending, max_bytes=_MAX_BYTES, timeout=OUTAGE)


async def _abandon(bulk: BulkPublisher) -> None:
    bulk.abandon()
