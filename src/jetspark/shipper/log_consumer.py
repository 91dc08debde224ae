"""Writes each host's lines to its own file, and acknowledges what is on the disk.

| what happens | what the server is told |
|---|---|
| lines are written and synced | ack, of each or, with `ack_all`, of the last one now and then |
| the disk is full | nak with a delay; nothing new is pulled until then, so that order holds |
| it can never be written: no host in the subject, damaged compression | term, with the reason |
| writing takes long | in progress, again and again |

Lines are written before they are acknowledged: when the process dies in between they come again and are
written twice, but none is lost.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from jetspark.errors import ConnectionError, Error, Timeout, UsageError
from jetspark.jetstream.consumer import Consumer
from jetspark.jetstream.consumer_config import AckPolicy
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message import JetStreamMsg, ack_all
from jetspark.jetstream.patience import is_passing
from jetspark.shipper.compression import decompress
from jetspark.shipper.log_files import LogFiles
from jetspark.shipper.messages import ENCODING

__all__ = ["ConsumeOptions", "LogConsumer", "LogStatus"]

#: Bytes that a payload may have when it is decompressed.
_LARGEST: Final = 64 * 1024 * 1024
#: Seconds of one pull; the next one follows.
_PULL: Final = 5.0
_AGAIN: Final = 1.0
#: Seconds by which the server may be late with what comes again.
_LATE: Final = 0.25


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


class _Outcome(NamedTuple):
    written: list[JetStreamMsg]
    full: list[JetStreamMsg]
    reason: str


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
        self._files = files
        self._options = options
        self._tell = tell
        self._stopping = asyncio.Event()
        self._ack_all = consumer.config.ack_policy == AckPolicy.ALL
        self._ack_wait = consumer.config.ack_wait or 30.0
        self._hosts: set[str] = set()
        # With ack-all: the last message that is written, how many are not acknowledged, and since when.
        self._last: JetStreamMsg | None = None
        self._unacked = 0
        self._acked_at = time.monotonic()
        self.status = LogStatus()
        if consumer.config.ack_policy == AckPolicy.NONE:
            raise UsageError(
                f"consumer {consumer.name} takes no acknowledgements: lines could be lost",
                hint="Use one with ack policy explicit or all",
            )

    def stop(self) -> None:
        """Pull no more; `run` returns when what was pulled is written and acknowledged."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until `stop`, with `once` until there is nothing more. Raises what does not pass."""
        while not self._stopping.is_set():
            try:
                messages = await self._pull()
            except Error as error:
                if self._options.once or not is_passing(error):
                    raise
                self._tell(f"waiting for the server: {error}")
                await self._pause(_AGAIN)
                continue
            if messages:
                await self._handle(messages)
            elif self._options.once:
                break
            if self._last is not None and time.monotonic() - self._acked_at >= self._options.ack_interval:
                self._ack_last()
        self._ack_last()
        with suppress(Timeout, ConnectionError):
            await self._js.connection.flush()  # Without a server, they come again.

    # --- pulling

    async def _pull(self) -> Sequence[JetStreamMsg]:
        batch = await self._consumer.fetch_no_wait(self._options.batch)
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

    # --- writing

    async def _handle(self, messages: Sequence[JetStreamMsg]) -> None:
        self.status.redelivered += sum(1 for each in messages if each.metadata.num_delivered > 1)
        hosts, poison = self._sort(messages)
        writing = asyncio.create_task(asyncio.to_thread(self._write, hosts))
        while not writing.done():
            done, _ = await asyncio.wait((writing,), timeout=self._ack_wait / 3)
            if not done:
                for message in messages:
                    message.in_progress()
        outcome = writing.result()
        self._answer(messages, outcome, poison)
        if outcome.full:
            self.status.state = "full"
            delay = self._options.nak_delay
            self._tell(f"{outcome.reason}: {len(outcome.full):,} messages come again in {delay:g} s")
            await self._pause(delay + _LATE)
        elif self.status.state == "full" and outcome.written:
            self.status.state = "writing"
            self._tell("there is room again")

    def _sort(
        self, messages: Sequence[JetStreamMsg]
    ) -> tuple[dict[str, list[tuple[JetStreamMsg, bytes]]], dict[int, str]]:
        """The lines of each host, and by index why a message can never be written."""
        hosts: dict[str, list[tuple[JetStreamMsg, bytes]]] = {}
        poison: dict[int, str] = {}
        for index, message in enumerate(messages):
            try:
                tokens = message.subject.split(".")
                if len(tokens) < 3:
                    raise ValueError(f"no host in the subject {message.subject!r}")
                self._files.path_of(tokens[-1])
                encoding = message.headers.get(ENCODING, "")
                line = decompress(encoding, message.data, _LARGEST) if encoding else message.data
            except ValueError as error:
                poison[index] = " ".join(str(error).split())[:256]
            else:
                hosts.setdefault(tokens[-1], []).append((message, line))
        return hosts, poison

    def _write(self, hosts: dict[str, list[tuple[JetStreamMsg, bytes]]]) -> _Outcome:
        """For a thread: writes, and says what became of it."""
        written: list[JetStreamMsg] = []
        full: list[JetStreamMsg] = []
        reason = ""
        for host, pairs in hosts.items():
            messages = [message for message, _ in pairs]
            appended = self._files.append(host, [line for _, line in pairs])
            written += messages[: appended.lines]
            self.status.lines += appended.lines
            self.status.bytes += appended.bytes
            self._hosts.add(host)
            if appended.full is not None:
                full += messages[appended.lines :]
                reason = f"{self._files.path_of(host)}: {os.strerror(appended.full.errno or 0)}"
        self.status.hosts = len(self._hosts)
        return _Outcome(written, full, reason)

    # --- acknowledging

    def _answer(self, messages: Sequence[JetStreamMsg], outcome: _Outcome, poison: Mapping[int, str]) -> None:
        """Say what became of each message. Nothing is given up before what came before it is on the disk."""
        refused = {id(message) for message in outcome.full}
        good = len(messages)
        if self._ack_all and refused:
            # An acknowledgement covers everything before it: it must not pass what is not written.
            good = next(index for index, message in enumerate(messages) if id(message) in refused)
        for index, reason in poison.items():
            if index < good:
                self._terminate(messages[index], reason)
        if not self._ack_all:
            ack_all(outcome.written)
            self._send_back(outcome.full)
            return
        handled = [message for message in messages[:good] if not message.settled]
        if handled:
            if self._last is None:
                self._acked_at = time.monotonic()
            self._last = handled[-1]
            self._unacked += len(handled)
        if refused or self._unacked >= self._options.ack_every:
            self._ack_last()
        self._send_back(messages[good:])

    def _ack_last(self) -> None:
        if self._last is not None:
            self._last.ack()
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
