"""The option `progressConsumer`: a consumer that is never read, kept at the committed sequence of a query.

Its `num_pending` is the lag of the query, visible to every tool that monitors NATS.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from jetspark.core.server_info import Feature
from jetspark.errors import ConsumerNotFound, Error, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.consumer import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.read.ranges import reads_direct
from jetspark.jetstream.retry import retry
from jetspark.spark.log import logger
from jetspark.spark.read.offsets import Offset
from jetspark.spark.read.streams import find_streams

__all__ = ["ProgressConsumer"]

#: Distinguishes a progress consumer from one that an application reads.
_MARK: Final = {"jetspark": "progress of a Spark query"}


class ProgressConsumer:
    """The progress consumers of one query, one on each stream."""

    def __init__(self, name: str, subjects: tuple[str, ...]) -> None:
        self._name = name
        self._subjects = list(subjects)

    async def check(self, js: JetStream, patterns: Sequence[str]) -> None:
        """Raise `UsageError` if the server or a stream does not allow it, or if the name is taken."""
        needed = Feature.CONSUMER_RESET
        if not await js.api.supports(needed):
            raise UsageError(f"progressConsumer requires nats-server {needed.since} or later")
        streams = await find_streams(js, patterns, missing_ok=True)
        for name, info in streams.items():
            if reads_direct(info.config):
                raise UsageError(
                    f"progressConsumer is not possible on stream {name}: with retention "
                    f"{info.config.retention!s} another consumer would change what the stream keeps"
                )
        await concurrently(partial(self._check, js), streams)

    async def _check(self, js: JetStream, stream: str) -> None:
        try:
            existing = await retry(partial(js.consumer_info, stream, self._name))
        except ConsumerNotFound:
            return
        if not _MARK.items() <= existing.config.metadata.items():
            raise UsageError(
                f"consumer {self._name} of stream {stream} is not a progressConsumer, and would be reset",
                hint="Choose another name",
            )

    async def move(self, js: JetStream, offset: Offset) -> None:
        """Move the consumers to the offset. It is only a display: a failure is logged, not raised."""

        async def move(name: str) -> None:
            next_seq = offset.streams[name].next_seq
            try:
                await retry(partial(self._move, js, name, next_seq))
            except Error as error:
                logger.warning("progressConsumer %s of stream %s was not moved: %s", self._name, name, error)

        await concurrently(move, offset.streams)

    async def _move(self, js: JetStream, stream: str, next_seq: int) -> None:
        # The server does not answer a reset of a missing consumer, so it is looked up first.
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
