"""`progressConsumer`: a consumer that nobody reads, kept at the sequence up to which a query is committed.

Its `num_pending` is the query's lag, for everybody who looks at NATS and does not know Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from jetspark.core.server_info import Feature
from jetspark.errors import ConsumerNotFound, Error, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.read.ranges import reads_direct
from jetspark.jetstream.retry import retry
from jetspark.spark.log import logger
from jetspark.spark.read.offsets import Offset
from jetspark.spark.read.streams import find_streams

__all__ = ["ProgressConsumer"]

#: How such a consumer is told from one that somebody works with.
_MARK: Final = {"jetspark": "progress of a Spark query"}


class ProgressConsumer:
    """The consumers of one query, one on each stream."""

    def __init__(self, name: str, subjects: tuple[str, ...]) -> None:
        self._name = name
        self._subjects = list(subjects)

    async def check(self, js: JetStream, patterns: Sequence[str]) -> None:
        """Raise `UsageError` where it cannot be had."""
        server, needed = js.connection.server_info, Feature.CONSUMER_RESET
        if not server.supports(needed):
            raise UsageError(
                f"progressConsumer needs nats-server {needed.since} or later, and this is {server.version}"
            )
        for name, info in (await find_streams(js, patterns, missing_ok=True)).items():
            if reads_direct(info.config):
                raise UsageError(
                    f"progressConsumer cannot be had on stream {name}: with retention "
                    f"{info.config.retention!s} another consumer would change what the stream keeps"
                )
            try:
                existing = await retry(partial(js.consumer_info, name, self._name))
            except ConsumerNotFound:
                continue
            if not _MARK.items() <= existing.config.metadata.items():
                raise UsageError(
                    f"consumer {self._name} of stream {name} is not a progressConsumer, it would be reset",
                    hint="Choose another name",
                )

    async def move(self, js: JetStream, offset: Offset) -> None:
        """Show that everything before the offset is done. It is a display: when it fails, that is said."""
        for name, stream in offset.streams.items():
            try:
                await retry(partial(self._move, js, name, stream.next_seq))
            except Error as error:
                logger.warning("progressConsumer %s of stream %s was not moved: %s", self._name, name, error)

    async def _move(self, js: JetStream, stream: str, next_seq: int) -> None:
        # Looked for before, because the server gives no answer at all to the reset of one that is not there.
        try:
            await js.consumer_info(stream, self._name)
        except ConsumerNotFound:
            await js.create_consumer(
                stream,
                ConsumerConfig(
                    durable_name=self._name,
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                    opt_start_seq=next_seq,
                    filter_subjects=self._subjects,
                    metadata=_MARK,
                ),
            )
        else:
            await js.reset_consumer(stream, self._name, next_seq)
