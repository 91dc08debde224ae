"""Writes the lines of each host to its own file, and acknowledges messages that are on disk.

| event | acknowledgement |
|---|---|
| lines are written and synced | ack of each message; with ack policy `all`, of the last one at intervals |
| the disk is full | nak with a delay; nothing new is pulled until then, which keeps the order |
| the message is invalid: no host in the subject, damaged headers or compression | term, with the reason |
| writing takes long | in progress, repeatedly |

Lines are written before they are acknowledged. If the process dies in between, the server redelivers them and
they are written twice, but none is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.core.numbers import check_count, check_seconds
from jetspark.errors import ConnectionError, Error, Timeout, UsageError
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import JetStreamMsg, ack_all
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.logs.files.cumulative import CumulativeAck
from jetspark.logs.files.files import LogFiles
from jetspark.logs.files.writer import LogWriter, Outcome

if TYPE_CHECKING:
    from jetspark.metrics import MetricSample
    from jetspark.otel.spans import Tracing

__all__ = ["ConsumeOptions", "LogConsumer", "LogStatus", "log_writer_samples"]

#: Bytes of messages to pull at a time, unless the largest message is larger.
_PULL_BYTES: Final = 16 * 1024 * 1024
#: The largest size of subject and reply subject, which a pull counts.
_SUBJECTS: Final = 16 * 1024
#: Seconds after which a pull expires. `stop` waits for it: messages of an abandoned pull are
#: redelivered only after the ack wait, and then out of order.
_PULL: Final = 1.0
#: Seconds between attempts while the server is unavailable.
_RETRY_WAIT: Final = 1.0
#: Seconds that the server may be late with a redelivery.
_LATE: Final = 1.0


class ConsumeOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The options of a log consumer. Durations are seconds."""

    #: Messages to pull, write and sync at a time.
    batch: int = 1000
    #: The redelivery delay of messages that did not fit on the disk.
    nak_delay: float = 5.0
    #: With ack policy `all`: acknowledge after this many messages, or this long.
    ack_every: int = 1000
    ack_interval: float = 5.0
    #: End when no messages are left.
    once: bool = False

    def __post_init__(self) -> None:
        for option in ("batch", "ack_every"):
            check_count(option, getattr(self, option))
        for option in ("nak_delay", "ack_interval"):
            check_seconds(option, getattr(self, option))


class LogStatus(msgspec.Struct, kw_only=True):
    """The state and counts of a log consumer."""

    #: `writing`, or `full` while the disk is full.
    state: str = "writing"
    lines: int = 0
    bytes: int = 0
    hosts: int = 0
    #: Redelivered messages; some of their lines may be written twice.
    redelivered: int = 0
    #: Messages with a nak, and messages with a term.
    naked: int = 0
    terminated: int = 0


def log_writer_samples(stream: str, consumer: str, status: LogStatus) -> Iterator[MetricSample]:
    """The metrics of a log consumer."""
    from jetspark.metrics import MetricSample  # noqa: PLC0415 - few have them

    labels = (stream, consumer)
    yield MetricSample("jetspark_log_writer_up", labels, status.state == "writing")
    yield MetricSample("jetspark_log_writer_lines_total", labels, status.lines)
    yield MetricSample("jetspark_log_writer_bytes_total", labels, status.bytes)
    yield MetricSample("jetspark_log_writer_hosts", labels, status.hosts)
    yield MetricSample("jetspark_log_writer_redeliveries_total", labels, status.redelivered)
    yield MetricSample("jetspark_log_writer_naks_total", labels, status.naked)
    yield MetricSample("jetspark_log_writer_terms_total", labels, status.terminated)


class LogConsumer:
    """Writes the messages of a pull consumer. Call `run` once; `report` gets messages for the operator.

    With `tracing`, messages that are written together have one span, with links to those that published them.
    """

    def __init__(
        self,
        js: JetStream,
        consumer: Consumer,
        files: LogFiles,
        options: ConsumeOptions,
        report: Callable[[str], None],
        *,
        tracing: Tracing | None = None,
    ) -> None:
        self._js = js
        self._tracing = tracing
        self._consumer = consumer
        self._writer = LogWriter(files, js.connection.max_payload)
        self._options = options
        self._report = report
        self._stopping = asyncio.Event()
        config = consumer.config
        self._ack_wait = config.ack_wait or 30.0
        ack_every, self._batch = options.ack_every, options.batch
        if config.max_ack_pending is not None and config.max_ack_pending > 0:
            # The server stops delivering at this many. Leave room for the next batch while the
            # acknowledgement of the last one is in flight.
            ack_every = max(min(options.ack_every, config.max_ack_pending // 2), 1)
            self._batch = max(min(options.batch, config.max_ack_pending // 4), 1)
        # With ack policy `all`.
        self._cumulative: CumulativeAck | None = None
        if config.ack_policy == AckPolicy.ALL:
            self._cumulative = CumulativeAck(consumer, every=ack_every, interval=options.ack_interval)
        self._incomplete = False
        self._waiting = False
        self.status = LogStatus()
        if config.ack_policy == AckPolicy.NONE:
            raise UsageError(
                f"consumer {consumer.name} has ack policy none: lines could be lost",
                hint="Use a consumer with ack policy explicit or all",
            )
        if self._cumulative is not None and options.ack_interval >= self._ack_wait:
            raise UsageError(
                f"ack_interval must be less than the ack_wait of consumer {consumer.name}, "
                f"{self._ack_wait:g} s: every message would be redelivered",
                hint="Lower ack_interval, or use a consumer with a longer ack_wait",
            )

    def stop(self) -> None:
        """Stop pulling; `run` returns when the pulled messages are written and acknowledged."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until `stop`; with `once`, until no messages are left. Raises non-transient errors."""
        try:
            while not self._stopping.is_set():
                messages = await self._pull_with_retry()
                if messages:
                    await self._handle(messages)
                elif self._options.once and self._nothing_left():
                    break
                self._ack_if_due()
        finally:
            if self._cumulative is not None:
                self._cumulative.ack()
            with suppress(Timeout, ConnectionError):
                await self._js.connection.flush()  # If this fails, the server redelivers them later.

    # --- pulling

    async def _pull_with_retry(self) -> Sequence[JetStreamMsg]:
        """Pull messages. Returns none while the server is unavailable, and reports that once."""
        try:
            messages = await self._pull()
        except Error as error:
            if self._options.once or not error.transient:
                raise
            if not self._waiting:
                self._report(f"waiting for the server: {error}")
            self._waiting = True
            await self._pause(_RETRY_WAIT)
            return []
        if self._waiting:
            self._waiting = False
            self._report("the server is back")
        return messages

    async def _pull(self) -> Sequence[JetStreamMsg]:
        batch = await self._fetch_available()
        if batch or self._options.once:
            return batch
        expires = _PULL
        if (due := self._ack_due) is not None:
            expires = min(max(due - time.monotonic(), 0.05), _PULL)
        return await self._consumer.fetch(1, expires=expires)

    async def _fetch_available(self) -> Sequence[JetStreamMsg]:
        """The messages that are available now, limited by number and bytes."""
        largest = self._js.connection.max_payload + _SUBJECTS
        batch = await self._consumer.fetch_no_wait(self._batch, max_bytes=max(_PULL_BYTES, largest))
        if not batch and self._options.once:
            # A message stored under a larger max_payload exceeds the byte limit and ends the pull.
            batch = await self._consumer.fetch_no_wait(1)
        return batch

    def _nothing_left(self) -> bool:
        """Whether everything that the server would deliver now is written."""
        cumulative = self._cumulative
        if cumulative is None or not cumulative.waiting:
            return True
        return not cumulative.ack()  # After an acknowledgement, the server may deliver more.

    # --- writing

    async def _handle(self, messages: Sequence[JetStreamMsg]) -> None:
        with nullcontext() if self._tracing is None else self._tracing.processing(messages):
            await self._write(messages)

    async def _write(self, messages: Sequence[JetStreamMsg]) -> None:
        self.status.redelivered += sum(1 for each in messages if each.metadata.num_delivered > 1)
        if self._cumulative is not None:
            await self._cumulative.receive(messages)
            self._report_missing(self._cumulative.missing)
        knows = None if self._cumulative is None else self._cumulative.knows
        writing = asyncio.create_task(asyncio.to_thread(self._writer.write, messages, knows))
        next_progress = time.monotonic() + self._ack_wait / 3
        while not writing.done():
            due = next_progress if self._ack_due is None else min(next_progress, self._ack_due)
            await asyncio.wait((writing,), timeout=max(due - time.monotonic(), 0.01))
            self._ack_if_due()
            if not writing.done() and time.monotonic() >= next_progress:
                next_progress = time.monotonic() + self._ack_wait / 3
                for message in messages:
                    message.in_progress()
        outcome = writing.result()
        self.status.lines += outcome.lines
        self.status.bytes += outcome.bytes
        self.status.hosts = self._writer.hosts
        self._settle(messages, outcome)
        if outcome.error is not None:
            raise outcome.error
        if outcome.full:
            self.status.state = "full"
            delay = self._options.nak_delay
            self._report(
                f"{outcome.reason}: {len(outcome.full):,} messages will be redelivered in {delay:g} s"
            )
            await self._pause(delay + _LATE)
        elif self.status.state == "full" and outcome.lines:
            self.status.state = "writing"
            self._report("the disk has room again")

    # --- acknowledging

    def _settle(self, messages: Sequence[JetStreamMsg], outcome: Outcome) -> None:
        """Acknowledge each message. None is terminated before the ones ahead of it are on disk."""
        if self._cumulative is None:
            for index, reason in outcome.poison.items():
                self._terminate(messages[index], reason)
            ack_all([messages[index] for index in outcome.written])
            self._nak([messages[index] for index in sorted(outcome.full)])
            return
        # An acknowledgement covers all earlier messages, so it must not pass one that is not written.
        handled = outcome.written | outcome.poison.keys()
        good = next((index for index in range(len(messages)) if index not in handled), len(messages))
        start = 0
        for index, reason in sorted(outcome.poison.items()):
            if index < good:
                self._cumulative.add(messages[start:index])
                # A term covers all earlier messages, too. Otherwise the message is acknowledged with others.
                self._terminate(messages[index], reason, settle=self._cumulative.covers(messages[index]))
                start = index
        self._cumulative.add(messages[start:good])
        if good < len(messages):
            self._cumulative.ack()
            self._cumulative.hold([messages[index] for index in outcome.written if index >= good])
        if outcome.error is None:
            self._nak(messages[good:])

    @property
    def _ack_due(self) -> float | None:
        return None if self._cumulative is None else self._cumulative.due

    def _ack_if_due(self) -> None:
        if self._cumulative is not None:
            self._cumulative.ack_if_due()

    def _report_missing(self, missing: int) -> None:
        """Report once that messages are missing, and once that they have arrived."""
        if missing and not self._incomplete:
            self._report(
                f"{missing:,} earlier messages were delivered elsewhere: nothing is acknowledged until the "
                f"server redelivers them, in at most {self._ack_wait:g} s"
            )
        elif not missing and self._incomplete:
            self._report("the missing messages have arrived")
        self._incomplete = missing > 0

    def _nak(self, messages: Sequence[JetStreamMsg]) -> None:
        for message in messages:
            message.nak(self._options.nak_delay)
        self.status.naked += len(messages)

    def _terminate(self, message: JetStreamMsg, reason: str, *, settle: bool = True) -> None:
        if settle:
            message.term(reason)
        self.status.terminated += 1
        self._report(f"message {message.metadata.sequence.stream} was terminated: {reason}")

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
