"""The chain of consumers behind an ordered reader: one at a time, each starting where the last one failed.

The chain knows which consumer is current, checks that its deliveries follow without a gap, and remembers the
last stream sequence. When something is wrong, it creates the next consumer behind that sequence and drops
messages that older consumers still send. It drives its reader, a pull buffer (`pull.py`) or a push
subscription (`push.py`), through `ChainReader`.

    IDLE --advance()--> CREATING --created--> READING --+
     ^                    ^  |                          |
     |                    |  | creating failed          | a gap, a missed heartbeat, a reconnect,
   drop()        back-off |  v                          | the consumer or its leader is gone
     |                    BROKEN <------restart()-------+
   any state

A push consumer may deliver before its creation is answered: CREATING accepts messages as READING does, and
`restart()` in CREATING leads to BROKEN once more. BROKEN and IDLE accept nothing.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final, Protocol

from jetspark.core.signal import Signal
from jetspark.errors import (
    APIError,
    BadRequest,
    ConnectionClosed,
    ConsumerNotFound,
    Error,
    StreamNotFound,
    UsageError,
)
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.message.metadata import parse_metadata
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.pull.request import PullTarget
from jetspark.jetstream.push.gaps import Gaps
from jetspark.jetstream.retry import Backoff
from jetspark.wire import MsgFrame, replies_start_with

__all__ = ["Chain", "ChainReader", "ChainState", "is_final"]


class ChainState(enum.Enum):
    """The state of a chain. The module docstring shows the transitions."""

    IDLE = enum.auto()
    CREATING = enum.auto()
    READING = enum.auto()
    BROKEN = enum.auto()


#: States in which no message is accepted.
_DEAF: Final = (ChainState.IDLE, ChainState.BROKEN)


class ChainReader(Protocol):
    """The reader that a chain drives."""

    @property
    def wants_more(self) -> bool:
        """Whether another consumer is of use."""

    async def read_next_consumer(self) -> None:
        """Create the next consumer with `advance` or `next_target`, and read from it. Raises their errors."""

    def resumed(self) -> None:
        """The next consumer is there, after a restart."""

    def notify(self, error: Exception) -> None:
        """Report an error after which the chain continues."""

    def finish(self, error: Error) -> None:
        """End: no consumer can be created any more."""


class Chain:
    """The consumers behind one ordered reader. Belongs to one event loop."""

    def __init__(self, api: API, stream: str, start: ConsumerConfig, prefix: str) -> None:
        self._api = api
        self.connection = api.connection
        #: The waits of its readers too.
        self.timing = timing = api.timing
        self._stream = stream
        self._start = start
        self._prefix = prefix
        self._serial = 0
        self._current = ""
        #: The sequence check of the current consumer.
        self.gaps = Gaps(1)
        self._begun = False
        self._backoff = Backoff(first=timing.chain_back_off, longest=timing.chain_back_off_limit)
        # Seconds before the next consumer is created; 0 after one that delivered.
        self._wait = 0.0
        #: To be woken when the reader has ended or has room again.
        self.woken = Signal()
        #: Whether the next consumer is being created, or waited for.
        self.advancing = False
        self._task: asyncio.Task[None] | None = None
        self._deletions: set[asyncio.Task[None]] = set()
        self.state = ChainState.IDLE
        #: The reader that reads from it until it ends; None while only single fetches do.
        self.reader: ChainReader | None = None
        #: The current consumer, as it was created; None without one.
        self.info: ConsumerInfo | None = None
        #: The last sequence of the stream that was accepted; 0 before the first message.
        self.last_sequence = 0

    # --- driving the reader

    def check_free(self) -> None:
        """Raise `UsageError` when messages() or consume() reads from it."""
        if self.reader is not None:
            raise UsageError("messages() or consume() runs on this ordered consumer: make another one")

    async def begin(self, reader: ChainReader) -> None:
        """Let `reader` read from its first consumer. Raises what creating that raises."""
        self.check_free()
        self.reader = reader
        self.advancing = True
        try:
            await reader.read_next_consumer()
        except BaseException:
            self.reader = None
            raise
        finally:
            self.advancing = False
        if self.state is ChainState.BROKEN:
            self.restart()

    def restart(self) -> None:
        """Give up the current consumer: let the reader continue with the next one."""
        self.state = ChainState.BROKEN
        if not self.advancing and self.reader is not None and self.reader.wants_more:
            self.advancing = True
            self._task = asyncio.create_task(self._replace(self.reader))

    def works(self) -> None:
        """The current consumer answered, or the connection is new: the next one need not wait."""
        if self._wait:
            self._wait = 0.0
            self._backoff.renew()
            self.woken.wake()

    async def stop(self) -> None:
        """Stop creating consumers."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _replace(self, reader: ChainReader) -> None:
        try:
            while reader.wants_more and self.state is ChainState.BROKEN:
                if self._wait and await self.woken.wait(self._wait):
                    continue
                self._wait = self._backoff.next_wait() or 0.0
                try:
                    await reader.read_next_consumer()
                except Error as error:
                    if is_final(error):
                        reader.finish(error)
                        return
                    reader.notify(error)
            if self.reader is reader and self.state is ChainState.READING:
                reader.resumed()
        finally:
            if self.reader is reader or self.reader is None:
                self.advancing = False

    # --- the consumers

    async def advance(self, deliver_subject: str | None = None) -> ConsumerInfo:
        """Create the next consumer, behind the last sequence: a push consumer with `deliver_subject`."""
        self.drop()
        reader = self.reader
        self._serial += 1
        name = f"{self._prefix}_{self._serial}"
        config = self._start.replace(name=name, deliver_subject=deliver_subject)
        if self._begun:
            config = config.replace(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.last_sequence + 1,
                opt_start_time=None,
            )
        self._current, self.gaps.expected = name, 1
        self.state = ChainState.CREATING
        creating = asyncio.create_task(consumers.create_or_update(self._api, self._stream, config, "create"))
        try:
            info = await asyncio.shield(creating)
        except BaseException:
            self.state = ChainState.BROKEN
            self._later(self._undo(creating, name))
            raise
        if self.reader is not reader or self._current != name:
            # The reader has ended, and another one may have begun.
            self._later(self._delete(name))
            return info
        self.info = info
        if self.state is not ChainState.BROKEN:
            self.state = ChainState.READING
        return info

    async def next_target(self) -> PullTarget:
        """Create the next consumer, to pull from."""
        info = await self.advance()
        return PullTarget.of(self._api, self._stream, info.name, AckPolicy.NONE)

    def drop(self) -> None:
        """Delete the current consumer, without waiting for it."""
        self.state = ChainState.IDLE
        if self.info is not None:
            self._later(self._delete(self.info.name))
            self.info = None

    async def delete(self) -> None:
        """Delete the current consumer, and wait for that, at most as long as for a call of the API.

        A reader continues with the next consumer.
        """
        self.drop()
        if self.reader is not None:
            self.restart()
        if self._deletions:
            await asyncio.wait(self._deletions, timeout=self._api.timeout)

    def end(self, reader: ChainReader) -> None:
        """`reader` has ended: the chain is free for another one."""
        self.woken.wake()
        if self.reader is reader:
            self.reader = None
            if not self.connection.closed:
                self.drop()

    def _later(self, deletion: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(deletion)
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def _undo(self, creating: asyncio.Task[ConsumerInfo], name: str) -> None:
        """Delete a consumer whose creation failed or was cancelled, when that is answered and not before."""
        try:
            await creating
        except Error as error:
            if isinstance(error, APIError) and not error.transient:
                return
            # It may exist nevertheless, or be created when there is a leader again.
        await self._delete(name)

    async def _delete(self, name: str) -> None:
        """Delete a consumer, for as long as an election may take."""
        timing = self.timing
        backoff = Backoff(
            timing.chain_delete,
            first=timing.chain_delete_back_off,
            longest=timing.chain_delete_back_off_limit,
        )
        while (wait := backoff.next_wait()) is not None:
            try:
                await consumers.delete(self._api, self._stream, name, timeout=timing.chain_delete_try)
            except (ConsumerNotFound, StreamNotFound, ConnectionClosed):
                return
            except Error:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.connection.wait_closed(), wait)
            else:
                return

    # --- the messages

    def accept(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], bool]:
        """The messages that follow without a gap, and whether these are all of the current consumer."""
        if not frames or self.state in _DEAF:
            return [], True
        accepted, whole = frames, True
        if len(frames) <= 2 or not self._follow(frames):
            accepted, whole = self._following(frames)
        if self._wait and accepted:
            self.works()
        return accepted, whole

    def _follow(self, frames: list[MsgFrame]) -> bool:
        """Whether all of them follow, checked without parsing each: deliveries are numbered in order."""
        first, last = parse_metadata(frames[0].reply), parse_metadata(frames[-1].reply)
        if first.consumer != self._current:
            return False
        name = f".{self._current}.".encode()
        prefix = frames[0].reply.partition(name)[0] + name
        if not replies_start_with(frames, prefix):
            return False
        if not self.gaps.follows(first.sequence, last.sequence, len(frames)):
            return False
        self._begun = True
        self.last_sequence = last.sequence.stream
        return True

    def _following(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], bool]:
        accepted: list[MsgFrame] = []
        # Parse every reply first, so a malformed one cannot leave the count half-updated.
        for frame, metadata in [(frame, parse_metadata(frame.reply)) for frame in frames]:
            if metadata.consumer != self._current:
                continue
            if not self.gaps.follows(metadata.sequence, metadata.sequence, 1):
                self.state = ChainState.BROKEN
                return accepted, False
            self._begun = True
            self.last_sequence = metadata.sequence.stream
            accepted.append(frame)
        return accepted, True

    def rewind(self, frame: MsgFrame) -> None:
        """Continue with this message: it was accepted and not read."""
        self.last_sequence = parse_metadata(frame.reply).sequence.stream - 1


def is_final(error: Error) -> bool:
    """Whether no consumer can ever be created."""
    return isinstance(error, StreamNotFound | ConnectionClosed | UsageError | BadRequest)
