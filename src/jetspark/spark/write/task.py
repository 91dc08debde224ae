"""One task of a write: every row is published, acknowledged and counted.

Rows are sent in pieces: the next piece is encoded while the server stores the last one. A row that is
published again, after the connection or the leader was lost, has the same id.
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
from jetspark.jetstream.retry import attempt_within, retry
from jetspark.spark.connections import ProcessConnection
from jetspark.spark.options import SourceOptions
from jetspark.spark.write.rows import Columns, RowEncoder
from jetspark.spark.write.targets import TargetStreams

__all__ = ["TaskResult", "write_rows"]

#: Bytes that may be in flight, whatever `maxPending` is.
_MAX_BYTES: Final = 32 * 1024 * 1024
#: The error code of an atomic batch that holds an id which the stream already stores.
_DUPLICATE_IN_BATCH: Final = 10201


@dataclasses.dataclass(frozen=True)
class TaskResult(WriterCommitMessage):
    """What a task reports to the driver."""

    rows: int
    #: Rows that the stream already held, from an earlier attempt.
    duplicates: int
    seconds: float
    #: Rows that could not be sent and are dead letters.
    dead: int = 0


def write_rows(
    connection: ProcessConnection, options: SourceOptions, encoder: RowEncoder, rows: Iterable[Columns]
) -> TaskResult:
    """Write the rows of a task. Raises `UsageError` for invalid rows, `PublishError` for failed ones."""
    began = time.monotonic()
    writer = _TaskWriter(connection, options, encoder)
    try:
        for columns in rows:
            writer.write(columns)
        writer.finish()
    finally:
        writer.close()
    return TaskResult(encoder.rows, writer.duplicates, time.monotonic() - began, encoder.dead)


class _TaskWriter:
    """Publishes rows and waits for their acknowledgements."""

    def __init__(self, connection: ProcessConnection, options: SourceOptions, encoder: RowEncoder) -> None:
        self._connection = connection
        self._encoder = encoder
        self._targets = TargetStreams(connection.js, options)
        self._retry_seconds = options.retry_seconds
        self._bulk = connection.run(_bulk(connection.js, options))
        self._atomic = options.publish_mode == "atomic"
        self._dead_letters = options.dead_letter_subject

    @property
    def duplicates(self) -> int:
        return self._bulk.duplicates

    def write(self, columns: Columns) -> None:
        messages = self._encoder.messages(columns)
        while piece := list(islice(messages, MAX_MESSAGES)):
            for subject in dict.fromkeys(message.subject for message in piece):
                if self._targets.stream_of(subject) is None:
                    place = self._origin(subject, piece) if "subject" in columns else "option subject"
                    self._connection.run(self._targets.find(subject, place))
            try:
                self._connection.run(self._commit_all(piece) if self._atomic else self._bulk.send(piece))
            except PublishError as error:
                raise self._with_row(error) from error.__cause__

    def finish(self) -> None:
        try:
            self._connection.run(self._bulk.finish())
        except PublishError as error:
            raise self._with_row(error) from error.__cause__

    def close(self) -> None:
        self._connection.run(_abandon(self._bulk))

    def _origin(self, subject: str, piece: list[Outgoing]) -> str:
        """The first row of a piece that has a subject, for messages."""
        row = self._encoder.rows - len(piece) + 1
        row += next(index for index, message in enumerate(piece) if message.subject == subject)
        return f"column subject, {self._encoder.place(row)}"

    def _with_row(self, error: PublishError) -> PublishError:
        """The error with the first row that failed; an atomic batch does not show which one failed."""
        place = f"{self._encoder.place(error.first)}: " if error.first and not self._atomic else ""
        return PublishError(
            f"{place}{error.args[0]}", failed=error.failed, first=error.first, hint=error.hint
        )

    # --- on the event loop

    async def _commit_all(self, piece: list[Outgoing]) -> None:
        """Publish rows as one atomic batch per stream, dead letters one by one."""
        batches: dict[str | None, list[Outgoing]] = {}
        if self._dead_letters is not None:
            await self._bulk.send([message for message in piece if message.subject == self._dead_letters])
            piece = [message for message in piece if message.subject != self._dead_letters]
        for message in piece:
            batches.setdefault(self._targets.stream_of(message.subject), []).append(message)
        for batch in batches.values():
            await self._commit(batch)

    async def _commit(self, piece: list[Outgoing]) -> None:
        """Publish rows as one atomic batch. It is stored as a whole or not at all, so a retry is safe."""
        try:
            await retry(lambda: self._try(piece), self._retry_seconds)
        except BatchPublishError as error:
            if error.err_code != _DUPLICATE_IN_BATCH:
                raise
            # An earlier attempt was stored. Published one by one, each row is acknowledged as a duplicate.
            await self._bulk.send(piece)

    async def _try(self, piece: list[Outgoing]) -> PubAck:
        js, seconds = self._connection.js, self._retry_seconds
        batch = js.atomic_batch(timeout=attempt_within(seconds, js.timeout), retry_for=seconds)
        for message in piece:
            batch.add_block(message.subject, message.data, message.block)
        return await batch.commit()


async def _bulk(js: JetStream, options: SourceOptions) -> BulkPublisher:
    return BulkPublisher(js.api, options.max_pending, max_bytes=_MAX_BYTES, timeout=options.retry_seconds)


async def _abandon(bulk: BulkPublisher) -> None:
    bulk.abandon()
