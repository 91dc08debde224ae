"""Writes each host's lines to its own file, and acknowledges what is on the disk.

| what happens | what the server is told |
|---|---|
| lines are written and synced | ack, of each or, with `ack_all`, of the last one now and then |
| the disk is full | nak with a delay; nothing new is pulled until then, so that order holds |
| it can never be written: no host in the subject, damaged headers or compression | term, with the reason |
| writing takes long | in progress, again and again |

Lines are written before they are acknowledged: when the process dies in between they come again and are
written twice, but none is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from jetspark.errors import (
    ConnectionError,
    Error,
    NoResponders,
    Timeout,
    UsageError,
)
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg, ack_all
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.pull.fetch import Fetch
from jetspark.jetstream.pull.request import Leftover, PullTarget, no_wait_request
from jetspark.logs.files.files import LogFiles
from jetspark.logs.files.writer import LogWriter, Outcome

__all__ = ["ConsumeOptions", "LogConsumer", "LogStatus"]

#: Bytes of messages that are pulled at a time, if the largest one is smaller.
_PULL_BYTES: Final = 16 * 1024 * 1024
#: Bytes of subject and reply, at most: a pull counts them.
_SUBJECTS: Final = 16 * 1024
#: Seconds of one pull; the next one follows.
_PULL: Final = 5.0
_AGAIN: Final = 1.0
#: Seconds by which the server may be late with what comes again.
_LATE: Final = 0.25
#: Messages that were written and sent back which are remembered; what is forgotten is written twice.
_REMEMBERED: Final = 200_000


class ConsumeOptions(msgspec.Struct, kw_only=True, frozen=True):
    """What a log consumer can be told. Durations are seconds."""

    #: Messages that are pulled, written and synced at a time.
    batch: int = 1000
    #: How long what did not fit on the disk stays away.
    nak_delay: float = 5.0
    #: With an ack-all consumer: acknowledge after so many messages, or after so long.
    ack_every: int = 1000
    ack_interval: float = 5.0
    #: End when there is nothing more.
    once: bool = False

    def __post_init__(self) -> None:
        for option in ("batch", "nak_delay", "ack_every", "ack_interval"):
            if getattr(self, option) <= 0:
                raise UsageError(f"{option} must be more than 0, not {getattr(self, option)!r}")


class LogStatus(msgspec.Struct, kw_only=True):
    """What a log consumer has done."""

    #: `writing`, or `full` while there is no room on the disk.
    state: str = "writing"
    lines: int = 0
    bytes: int = 0
    hosts: int = 0
    #: Messages that came again; some of their lines may be there twice.
    redelivered: int = 0
    #: Messages that were sent back, and those that were given up.
    naked: int = 0
    terminated: int = 0


class LogConsumer:
    """Writes what a pull consumer delivers. `run` it once; `tell` is called with remarks."""

    def __init__(
        self,
        js: JetStream,
        consumer: Consumer,
        files: LogFiles,
        options: ConsumeOptions,
        tell: Callable[[str], None],
    ) -> None:
        self._js = js
        self._consumer = consumer
        self._writer = LogWriter(files, js.connection.max_payload)
        self._options = options
        self._tell = tell
        self._stopping = asyncio.Event()
        self._leftover = Leftover()
        config = consumer.config
        self._ack_all = config.ack_policy == AckPolicy.ALL
        self._ack_wait = config.ack_wait or 30.0
        self._ack_every, self._batch = options.ack_every, options.batch
        if config.max_ack_pending is not None and config.max_ack_pending > 0:
            # The server says nothing when so many are not acknowledged. There is room for the next batch
            # though the acknowledgement of the last one is still on its way.
            self._ack_every = max(min(options.ack_every, config.max_ack_pending // 2), 1)
            self._batch = max(min(options.batch, config.max_ack_pending // 4), 1)
        # With ack-all: the last message that is written, how many are not acknowledged, and since when.
        self._last: JetStreamMsg | None = None
        self._unacked = 0
        self._acked_at = time.monotonic()
        # With ack-all: sequences of what is written, and was sent back because of what is before it.
        self._written: set[int] = set()
        self._waiting = False
        self.status = LogStatus()
        if config.ack_policy == AckPolicy.NONE:
            raise UsageError(
                f"consumer {consumer.name} takes no acknowledgements: lines could be lost",
                hint="Use one with ack policy explicit or all",
            )
        if self._ack_all and options.ack_interval >= self._ack_wait:
            raise UsageError(
                f"ack_interval must be less than the ack_wait of consumer {consumer.name}, "
                f"{self._ack_wait:g} s: everything would come again",
                hint="Acknowledge more often, or take another consumer",
            )

    def stop(self) -> None:
        """Pull no more; `run` returns when what was pulled is written and acknowledged."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until `stop`, with `once` until there is nothing more. Raises what does not pass."""
        try:
            while not self._stopping.is_set():
                messages = await self._pull_patiently()
                if messages:
                    await self._handle(messages)
                elif self._options.once:
                    if self._last is None:
                        break
                    self._ack_last()  # More may come then.
                self._ack_if_due()
        finally:
            self._ack_last()
            with suppress(Timeout, ConnectionError):
                await self._js.connection.flush()  # Without a server, they come again.

    # --- pulling

    async def _pull_patiently(self) -> Sequence[JetStreamMsg]:
        """Messages; none, and a word about it, while the server is away."""
        try:
            messages = await self._pull()
        except Error as error:
            if self._options.once or not error.transient:
                raise
            if isinstance(error, NoResponders):
                await self._look_for_the_consumer()
            if not self._waiting:
                self._tell(f"waiting for the server: {error}")
            self._waiting = True
            await self._pause(_AGAIN)
            return []
        if self._waiting:
            self._waiting = False
            self._tell("the server is back")
        return messages

    async def _look_for_the_consumer(self) -> None:
        """Raise `ConsumerNotFound` and kin when nobody will ever answer."""
        try:
            await self._consumer.info()
        except Error as error:
            if not error.transient:
                raise

    async def _pull(self) -> Sequence[JetStreamMsg]:
        batch = await self._fetch_there()
        if batch or self._options.once:
            return batch
        expires = _PULL
        if self._last is not None:
            due = self._acked_at + self._options.ack_interval - time.monotonic()
            expires = min(max(due, 0.05), _PULL)
        pulling = asyncio.create_task(self._consumer.fetch(1, expires=expires))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((pulling, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not pulling.done():
                pulling.cancel()  # A message that is on its way then comes again.
                return []
            return pulling.result()
        finally:
            stopping.cancel()
            pulling.cancel()

    async def _fetch_there(self) -> Sequence[JetStreamMsg]:
        """What is there now, bounded in messages and in bytes."""
        js, consumer = self._js, self._consumer
        if consumer.config.priority_groups:
            return await consumer.fetch_no_wait(self._batch)  # It knows of groups and pins.
        target = PullTarget.of(js.api, consumer.stream_name, consumer.name, consumer.config.ack_policy)
        largest = js.connection.max_payload + _SUBJECTS
        request = no_wait_request(self._batch, max_bytes=max(_PULL_BYTES, largest))
        batch = await Fetch(target, request, leftover=self._leftover).run(js.timeout)
        if not batch and self._options.once:
            # One that was stored when the server took larger ones ends a pull that is bounded in bytes.
            batch = await consumer.fetch_no_wait(1)
        return batch

    # --- writing

    async def _handle(self, messages: Sequence[JetStreamMsg]) -> None:
        self.status.redelivered += sum(1 for each in messages if each.metadata.num_delivered > 1)
        writing = asyncio.create_task(asyncio.to_thread(self._writer.write, messages, self._written))
        next_word = time.monotonic() + self._ack_wait / 3
        while not writing.done():
            due = next_word
            if self._last is not None:
                due = min(due, self._acked_at + self._options.ack_interval)
            await asyncio.wait((writing,), timeout=max(due - time.monotonic(), 0.01))
            self._ack_if_due()
            if not writing.done() and time.monotonic() >= next_word:
                next_word = time.monotonic() + self._ack_wait / 3
                for message in messages:
                    message.in_progress()
        outcome = writing.result()
        self.status.lines += outcome.lines
        self.status.bytes += outcome.bytes
        self.status.hosts = self._writer.hosts
        self._answer(messages, outcome)
        if outcome.error is not None:
            raise outcome.error
        if outcome.full:
            self.status.state = "full"
            delay = self._options.nak_delay
            self._tell(f"{outcome.reason}: {len(outcome.full):,} messages come again in {delay:g} s")
            await self._pause(delay + _LATE)
        elif self.status.state == "full" and outcome.lines:
            self.status.state = "writing"
            self._tell("there is room again")

    # --- acknowledging

    def _answer(self, messages: Sequence[JetStreamMsg], outcome: Outcome) -> None:
        """Say what became of each message. Nothing is given up before what came before it is on the disk."""
        if not self._ack_all:
            for index, reason in outcome.poison.items():
                self._terminate(messages[index], reason)
            ack_all([messages[index] for index in outcome.written])
            self._send_back([messages[index] for index in sorted(outcome.full)])
            return
        # An acknowledgement covers everything before it: it must not pass what is not written.
        handled = outcome.written | outcome.poison.keys()
        good = next((index for index in range(len(messages)) if index not in handled), len(messages))
        for index, reason in outcome.poison.items():
            if index < good:
                self._terminate(messages[index], reason)
        to_ack = [message for message in messages[:good] if not message.settled]
        if to_ack:
            if self._last is None:
                self._acked_at = time.monotonic()
            self._last = to_ack[-1]
            self._unacked += len(to_ack)
        if good < len(messages) or self._unacked >= self._ack_every:
            self._ack_last()
        for index in outcome.written:
            if index >= good and len(self._written) < _REMEMBERED:
                self._written.add(messages[index].metadata.sequence.stream)
        if outcome.error is None:
            self._send_back(messages[good:])

    def _ack_if_due(self) -> None:
        if self._last is not None and time.monotonic() - self._acked_at >= self._options.ack_interval:
            self._ack_last()

    def _ack_last(self) -> None:
        if self._last is not None:
            self._last.ack()
            if self._written:
                acked = self._last.metadata.sequence.stream
                self._written = {sequence for sequence in self._written if sequence > acked}
            self._last, self._unacked = None, 0
            self._acked_at = time.monotonic()

    def _send_back(self, messages: Sequence[JetStreamMsg]) -> None:
        for message in messages:
            message.nak(self._options.nak_delay)
        self.status.naked += len(messages)

    def _terminate(self, message: JetStreamMsg, reason: str) -> None:
        message.term(reason)
        self.status.terminated += 1
        self._tell(f"message {message.metadata.sequence.stream} is given up: {reason}")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
