"""The durable consumer on one stream of a query: checks or creates it, pulls from it, and acknowledges
messages.

An acknowledgement subject needs the stream, the consumer and the sequence; the server ignores the other
numbers in it. So a process can acknowledge messages that an earlier one pulled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from jetspark.errors import ConsumerDeleted, ConsumerNotFound, NoResponders, UsageError
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.message.delivered import ACK, IN_PROGRESS, NAK, ack_frames
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo, StreamInfo
from jetspark.jetstream.retry import retry
from jetspark.wire import MsgFrame

__all__ = ["QueueConsumer", "ack_subject", "open_consumer", "settle"]

#: The shortest `ack_wait`: a busy driver must be able to extend it in time.
_SHORTEST_WAIT: Final = 2.0
#: Messages of one pull request, and bytes of payloads if the consumer delivers them.
_PIECE: Final = 10_000
_PIECE_BYTES: Final = 8 * 1024 * 1024
#: Acknowledgements of one write.
_WRITE: Final = 10_000
#: Seconds for which a missing consumer is looked for.
_LOOK: Final = 10.0
#: What to do about a deleted consumer.
_GONE: Final = "Create it again, or start the query with a new checkpointLocation"
#: Tokens of an acknowledgement subject without a domain.
_TOKENS: Final = 9


async def open_consumer(
    js: JetStream, stream: StreamInfo, name: str, subjects: Sequence[str], limit: int, *, known: bool
) -> QueueConsumer:
    """The consumer `name`, created if it does not exist and was not `known` before.

    Raises `UsageError` if its configuration does not suit batches of `limit` messages, `ConsumerDeleted`, and
    the error of the server if it refuses to create the consumer.
    """
    stream_name = stream.config.name
    try:
        consumer = await retry(partial(js.get_consumer, stream_name, name))
    except ConsumerNotFound:
        if known and (gone := await Presence(js.api, stream_name, name).deletion(_LOOK)) is not None:
            gone.hint = _GONE
            raise gone from None
        consumer = await retry(partial(js.create_consumer, stream_name, _config(name, subjects, limit)))
    _check(consumer, subjects, limit)
    return QueueConsumer(js, stream, consumer)


def _config(name: str, subjects: Sequence[str], limit: int) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name,
        filter_subject=subjects[0] if len(subjects) == 1 else None,
        filter_subjects=list(subjects) if len(subjects) > 1 else [],
        # Room for a running batch, a planned one, and those of other workers.
        max_ack_pending=4 * limit,
        headers_only=True,
    )


def _check(consumer: Consumer, subjects: Sequence[str], limit: int) -> None:
    config, what = consumer.config, f"consumer {consumer.name} of stream {consumer.stream_name}"
    if config.is_push:
        raise UsageError(
            f"{what} pushes to {config.deliver_subject}; Spark pulls", hint="Name a pull consumer"
        )
    if config.ack_policy != AckPolicy.EXPLICIT:
        raise UsageError(
            f"{what} has ack_policy {config.ack_policy!s}; Spark acknowledges each message",
            hint="Name a consumer with ack_policy explicit",
        )
    if config.priority_groups:
        raise UsageError(f"{what} has priority groups, which Spark does not join")
    if (wait := _shortest_wait(config)) < _SHORTEST_WAIT:
        raise UsageError(
            f"{what} redelivers after {wait:g} s, too soon for a busy driver",
            hint=f"Update it with an ack_wait, and backoff if it has any, of at least {_SHORTEST_WAIT:g} s; "
            "30 s is usual",
        )
    if 0 < (config.max_ack_pending or 0) < limit:
        raise UsageError(
            f"{what} has max_ack_pending {config.max_ack_pending}, less than the {limit} messages of a batch",
            hint=f"Update it with max_ack_pending={2 * limit} or more, "
            f"or set maxMessagesPerTrigger to {config.max_ack_pending} or less",
        )
    if subjects and sorted(subjects) != _filters(config):
        raise UsageError(
            f"{what} delivers {', '.join(_filters(config)) or 'every subject'}, not option subjects",
            hint="Remove the option: the consumer decides",
        )


def _filters(config: ConsumerConfig) -> list[str]:
    return sorted([*config.filter_subjects, *([config.filter_subject] if config.filter_subject else [])])


def _shortest_wait(config: ConsumerConfig) -> float:
    return min(config.backoff, default=config.ack_wait or 30.0)


class QueueConsumer:
    """A durable pull consumer that other workers may use as well."""

    def __init__(self, js: JetStream, stream: StreamInfo, consumer: Consumer) -> None:
        self._js = js
        self._consumer = consumer
        self._presence = Presence(js.api, consumer.stream_name, consumer.name)
        self._usual_ack = self._ack = ack_subject(consumer.stream_name, consumer.name)
        #: When the stream was created.
        self.created = stream.created
        #: Seconds until an unacknowledged message is delivered again.
        self.ack_wait = _shortest_wait(consumer.config)
        #: The filters of the consumer.
        self.subjects = tuple(_filters(consumer.config))
        self._piece = min(_PIECE, consumer.config.max_batch or _PIECE)
        if not consumer.config.headers_only:
            weight = max(stream.state.bytes // max(stream.state.messages, 1), 1)
            self._piece = max(min(self._piece, _PIECE_BYTES // weight), 1)

    @property
    def ack(self) -> str | None:
        """The beginning of the acknowledgement subjects; None for the usual one."""
        return None if self._ack == self._usual_ack else self._ack

    async def waiting(self) -> int:
        """The messages that it may deliver before any message that is stored from now on."""
        info = await self._info()
        return info.num_pending + info.num_ack_pending

    async def _info(self) -> ConsumerInfo:
        try:
            return await retry(self._consumer.info)
        except ConsumerNotFound:
            await self._raise_if_deleted()
            raise

    async def _raise_if_deleted(self) -> None:
        if (gone := await self._presence.deletion(_LOOK)) is not None:
            gone.hint = _GONE
            raise gone from None

    async def pull(self, most: int) -> dict[int, int]:
        """Pull up to `most` waiting messages. Returns how often each was delivered, by sequence.

        Empty while the consumer is paused. Raises `ConsumerDeleted`.
        """
        taken: dict[int, int] = {}
        if (await self._info()).paused:
            return taken
        while len(taken) < most:
            wanted = min(most - len(taken), self._piece)
            try:
                messages = await retry(partial(self._consumer.fetch_no_wait, wanted))
            except (ConsumerDeleted, NoResponders):
                await self._raise_if_deleted()
                raise
            for message in messages:
                tokens = message.reply.split(".")
                if len(tokens) == _TOKENS:
                    taken[int(tokens[5])] = int(tokens[4])
                else:
                    metadata = message.metadata
                    taken[metadata.sequence.stream] = metadata.num_delivered
                    self._ack = ".".join(tokens[:6])
            if len(messages) < wanted:
                break
        return taken

    async def acknowledge(self, sequences: Sequence[int], ack: str | None = None) -> None:
        """Acknowledge messages, and wait until the server has confirmed it.

        `ack` is the beginning of their subjects, if it is known. Raises `ConsumerDeleted`.
        """
        if sequences:
            await self._settle(sequences, ack, ACK)

    async def give_back(self, sequences: Sequence[int], ack: str | None = None, kind: bytes = NAK) -> None:
        """Return messages with a nak, and wait until the server has confirmed it."""
        if sequences:
            # The server accepts a nak only with the number of an unacknowledged delivery; the last one works.
            await self._settle(sequences, ack, kind, (await self._info()).delivered.consumer_seq)

    async def keep(self, sequences: Sequence[int], ack: str | None = None) -> None:
        """Report that messages are in progress. The server does not confirm it."""
        await _send(self._js, ack or self._ack, sequences, IN_PROGRESS)

    async def _settle(
        self, sequences: Sequence[int], ack: str | None, kind: bytes, delivery: int = 1
    ) -> None:
        async def attempt() -> None:
            try:
                await settle(self._js, ack or self._ack, sequences, kind, delivery)
            except NoResponders:
                await self._raise_if_deleted()
                raise

        await retry(attempt)


def ack_subject(stream: str, consumer: str) -> str:
    """The usual beginning of the acknowledgement subjects of a consumer."""
    return f"$JS.ACK.{stream}.{consumer}"


async def settle(js: JetStream, ack: str, sequences: Sequence[int], kind: bytes, delivery: int = 1) -> None:
    """Settle messages with one write. The server takes them in order: wait until it confirms the last."""
    await _send(js, ack, sequences[:-1], kind, delivery)
    last = f"{ack}.1.{sequences[-1]}.{delivery}.0.0"
    await js.connection.request(last, kind, timeout=js.timeout)


async def _send(js: JetStream, ack: str, sequences: Sequence[int], kind: bytes, delivery: int = 1) -> None:
    start = ack.encode()
    for place in range(0, len(sequences), _WRITE):
        some = sequences[place : place + _WRITE]
        replies = [b"%b.1.%d.%d.0.0" % (start, each, delivery) for each in some]
        frames = [MsgFrame(b"", b"", reply, b"", b"") for reply in replies]
        await js.connection.write(ack_frames(frames, kind))
