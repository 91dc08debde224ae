"""The driver's part of a query that is a worker of a durable consumer. Independent of Spark.

A batch goes through these states; its number is that of its end offset:

1. `take` pulls messages and holds them: every third of `ack_wait`, the worker reports to the server that
   they are in progress, so that no other worker gets them.
2. Spark writes the offset to its checkpoint, and runs the batch. A restarted driver begins here, with `hold`.
3. `acknowledge`, when Spark has committed the batch. Spark shows this when it asks for the next batch, which
   begins at the end of this one, and again when it has stored the offset of the next batch.

With the option `allowNak`, messages of a running batch can be returned to the consumer (`give_back`); they
are then not acknowledged. Only this process knows which: after a restart, a committed batch is therefore
not acknowledged by its offset, and messages that were not acknowledged are redelivered.

If the driver stalled for longer than `ack_wait`, or an acknowledgement was lost, the server may redeliver
messages that are held or were just acknowledged. They are acknowledged and not taken a second time.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from jetspark.core.message import Msg
from jetspark.core.subscription import Subscription
from jetspark.errors import DataLoss, Error
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import StreamInfo
from jetspark.jetstream.read.listing import concurrently
from jetspark.jetstream.read.loss import DELETED, RECREATED
from jetspark.jetstream.retry import retry
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions
from jetspark.spark.queue.consumers import QueueConsumer, open_consumer
from jetspark.spark.queue.offsets import Delivered, QueueOffset
from jetspark.spark.queue.returns import Answer, read_return, return_subject
from jetspark.spark.read.data_loss import report_loss
from jetspark.spark.read.streams import find_streams

__all__ = ["QueueWorker"]

#: Messages of a batch, unless `maxMessagesPerTrigger` says otherwise.
_LIMIT: Final = 100_000
#: Acknowledged messages that are recognized when they are delivered again.
_REMEMBERED: Final = 1_000_000


class QueueWorker:
    """Takes the share of one query. Everything runs on one event loop."""

    def __init__(self, js: JetStream, options: SourceOptions, *, remembered: int = _REMEMBERED) -> None:
        assert options.consumer is not None
        self._js = js
        self._options = options
        self._name = options.consumer
        self._limit = options.max_messages_per_trigger or _LIMIT
        self._remembered = remembered
        #: The consumer of each stream.
        self.consumers: dict[str, QueueConsumer] = {}
        # Batches whose messages are kept from other workers.
        self._held: dict[int, QueueOffset] = {}
        # The batch that was taken and not committed yet.
        self._offered: QueueOffset | None = None
        # The last committed batches.
        self._done: deque[QueueOffset] = deque()
        # Whether the query ends by itself, and how many more messages it may then take of each stream.
        self._ends = False
        self._left: dict[str, int] | None = None
        self._lost: set[str] = set()
        self._began = False
        self._keeper: asyncio.Task[None] | None = None
        # Where requests to return messages arrive.
        self._subscription: Subscription | None = None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The filters of the consumers, if all have the same."""
        filters = {consumer.subjects for consumer in self.consumers.values()}
        return filters.pop() if len(filters) == 1 else ()

    async def begin(self) -> QueueOffset:
        """The start of a new query: no messages. Raises `StreamNotFound`, and what `open_consumer` raises."""
        offset = QueueOffset(consumer=self._name)
        await self._look(offset)
        streams = {name: Delivered(created=each.created) for name, each in self.consumers.items()}
        return QueueOffset(consumer=self._name, streams=streams)

    def stop_after_backlog(self) -> None:
        """From the next `take` on, take no more messages than the consumers then have."""
        self._ends = True

    async def take(self, committed: QueueOffset) -> QueueOffset:
        """The batch after `committed`, which is acknowledged; `committed` itself if there are no messages.

        Raises `ConsumerDeleted`, `DataLoss`, and what `open_consumer` raises.
        """
        if self._offered is not None and self._offered.batch == committed.batch + 1:
            return self._offered  # Spark has not stored it: it has not run yet.
        await self._look(committed)
        # A new process does not know whether an earlier one has acknowledged it.
        if not self._began and not self._options.allow_nak:
            self._held.setdefault(committed.batch, committed)
        self._began = True
        if self._ends and self._left is None:
            self._left = await self._backlog()
        _, taken = await asyncio.gather(self.acknowledge(committed), self._pull(committed))
        if not any(taken.values()):
            return committed
        streams = {
            name: Delivered(created=each.created, messages=taken.get(name, {}), ack=each.ack)
            for name, each in sorted(self.consumers.items())
        }
        batch = QueueOffset(consumer=self._name, batch=committed.batch + 1, streams=streams)
        self._offered = batch
        await self.hold(batch)
        return batch

    async def hold(self, batch: QueueOffset) -> None:
        """Keep the messages of a batch from other workers while it runs."""
        if not self.consumers:
            await self._look(batch)
        await self._listen()
        self._held.setdefault(batch.batch, batch)
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def acknowledge(self, committed: QueueOffset) -> None:
        """Acknowledge the messages of a batch that is held; other batches are acknowledged already."""
        batch = self._held.get(committed.batch)
        if batch is None:
            return

        async def acknowledge(name: str) -> None:
            delivered, consumer = batch.streams[name], self.consumers.get(name)
            if consumer is not None and consumer.created == delivered.created:
                await consumer.acknowledge(list(delivered.messages), delivered.ack)

        await concurrently(acknowledge, [name for name, each in batch.streams.items() if each.messages])
        self._done.append(batch)
        while len(self._done) > 1 and sum(map(len, self._done)) > self._remembered:
            self._done.popleft()
        self._held = {number: each for number, each in self._held.items() if number > committed.batch}
        if self._offered is not None and self._offered.batch <= committed.batch:
            self._offered = None

    async def give_back(self, name: str, sequences: Sequence[int], kind: bytes) -> int:
        """Return messages with a nak of this kind, if a held batch has them. Returns how many it has."""
        returned = 0
        for number, batch in list(self._held.items()):
            delivered, consumer = batch.streams.get(name), self.consumers.get(name)
            if delivered is None or consumer is None or consumer.created != delivered.created:
                continue
            ours = [sequence for sequence in sequences if sequence in delivered.messages]
            kept = dict(delivered.messages)
            for sequence in ours:
                del kept[sequence]
            streams = {**batch.streams, name: dataclasses.replace(delivered, messages=kept)}
            self._held[number] = dataclasses.replace(batch, streams=streams)
            await consumer.give_back(ours, delivered.ack, kind)
            returned += len(ours)
        return returned

    async def close(self) -> None:
        """Stop holding messages."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    # --- pulling

    async def _backlog(self) -> dict[str, int]:
        async def waiting(name: str) -> tuple[str, int]:
            return name, await self.consumers[name].waiting()

        return dict(await concurrently(waiting, list(self.consumers)))

    async def _pull(self, committed: QueueOffset) -> dict[str, dict[int, int]]:
        """New messages by stream. Streams take turns at being the first."""
        names = sorted(self.consumers)
        turn = committed.batch % max(len(names), 1)
        taken: dict[str, dict[int, int]] = {}
        left = self._limit
        try:
            for name in [*names[turn:], *names[:turn]]:
                taken[name] = {}
                while not taken[name]:  # Pull again if all were known: new ones may follow them.
                    most = left if self._left is None else min(left, self._left.get(name, 0))
                    if most <= 0 or not (pulled := await self.consumers[name].pull(most)):
                        break
                    taken[name] = pulled
                    if self._left is not None:
                        self._left[name] -= len(pulled)
                    taken[name] = await self._new(name, pulled)
                left -= len(taken[name])
        except Error:
            await self._give_back(taken)
            raise
        return taken

    async def _new(self, name: str, messages: dict[int, int]) -> dict[int, int]:
        """The messages that are not in a batch already; the others are acknowledged again."""
        created = self.consumers[name].created
        batches = (*self._held.values(), *self._done)
        known = [batch.streams[name] for batch in batches if name in batch.streams]
        again = [
            sequence
            for sequence, count in messages.items()
            if count > 1 and any(sequence in each.messages for each in known if each.created == created)
        ]
        if again:
            logger.info("%d messages of %s were redelivered and are acknowledged again", len(again), name)
            await self.consumers[name].acknowledge(again)
            for sequence in again:
                del messages[sequence]
        return dict(sorted(messages.items()))

    async def _give_back(self, taken: Mapping[str, Mapping[int, int]]) -> None:
        for name, messages in taken.items():
            try:
                await self.consumers[name].give_back(list(messages))
            except Error as error:
                logger.info("%d messages of %s will be redelivered: %s", len(messages), name, error)

    # --- keeping

    async def _keep(self) -> None:
        """Report to the server, in time, that the held messages are in progress."""
        while True:
            waits = [consumer.ack_wait for consumer in self.consumers.values()]
            await asyncio.sleep(min(waits, default=3.0) / 3)
            for batch in list(self._held.values()):
                for name, each in batch.streams.items():
                    consumer = self.consumers.get(name)
                    if consumer is None or consumer.created != each.created or batch.batch not in self._held:
                        continue
                    try:
                        await consumer.keep(list(each.messages), each.ack)
                    except Error as error:
                        logger.warning("messages of %s may be redelivered: %s", name, error)

    # --- returning

    async def _listen(self) -> None:
        if self._options.allow_nak and self._subscription is None:
            connection = self._js.connection
            self._subscription = await connection.subscribe(
                return_subject(self._name), callback=self._on_return
            )
            await retry(connection.flush)

    async def _on_return(self, message: Msg) -> None:
        try:
            if returned := await self.give_back(*read_return(message.data)):
                await message.respond(msgspec.json.encode(Answer(returned)))
        except Error as error:
            logger.warning("messages were not returned: %s", error)

    # --- streams

    async def _look(self, committed: QueueOffset) -> None:
        """Find the streams, and open the consumer of each that is new."""
        known = {name: max(each.messages, default=0) + 1 for name, each in committed.streams.items()}
        streams = await find_streams(self._js, self._options.stream, known)
        for name in sorted(known):
            self._report(name, known[name], committed.streams[name], streams.get(name))

        async def open_one(name: str) -> None:
            self.consumers[name] = await open_consumer(
                self._js,
                streams[name],
                self._name,
                self._options.subjects,
                self._limit,
                known=name in committed.streams,
            )

        for name in list(self.consumers):
            if name not in streams or streams[name].created != self.consumers[name].created:
                del self.consumers[name]
        await concurrently(open_one, [name for name in streams if name not in self.consumers])

    def _report(self, name: str, next_seq: int, before: Delivered, now: StreamInfo | None) -> None:
        """Report a missing stream once."""
        if now is not None and now.created == before.created:
            self._lost.discard(name)
        elif name not in self._lost:
            cause = DELETED if now is None else RECREATED
            report_loss(DataLoss(stream=name, first_seq=next_seq, next_seq=None, cause=cause), self._options)
            self._lost.add(name)
