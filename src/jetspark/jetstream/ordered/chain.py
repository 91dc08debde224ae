"""The row of consumers behind an ordered reader: which one is current, and how far the messages are.

Each message tells its place in the deliveries of its consumer; when one is missing, the next consumer of
the row starts behind the last message that was seen, and what the old ones still send is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

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
from jetspark.wire import MsgFrame

__all__ = ["FIRST_BACK_OFF", "LAST_BACK_OFF", "Row", "is_final"]

#: Seconds between tries to delete a consumer earlier than the server does it by itself.
_DELETE_WAITS: Final = (0.5, 1.0, 2.0, 4.0, 4.0)
#: Seconds before the next consumer is created when the last one did not work: each time twice as long.
FIRST_BACK_OFF: Final = 1.0
LAST_BACK_OFF: Final = 10.0


class Row:
    """The consumers behind an ordered consumer: which one is current, and how far the messages are."""

    def __init__(self, api: API, stream: str, start: ConsumerConfig, prefix: str) -> None:
        self._api = api
        self._stream = stream
        self._start = start
        self._prefix = prefix
        self._serial = 0
        self._deletions: set[asyncio.Task[None]] = set()
        #: The number of the next delivery.
        self.expected = 1
        #: The name of the current consumer, from the moment on at which it may deliver.
        self.current = ""
        #: Whether messages() or consume() reads from it.
        self.pulling = False
        self.info: ConsumerInfo | None = None
        self._begun = False
        #: The last sequence of the stream that was seen; 0 before the first message.
        self.last_sequence = 0

    async def advance(self, deliver_subject: str | None = None) -> ConsumerInfo:
        """Create the next consumer, behind what was seen; the old one is deleted in the background.

        With `deliver_subject` it pushes to there.
        """
        self.drop()
        self._serial += 1
        name = f"{self._prefix}_{self._serial}"
        config = self._start.replace(name=name, deliver_subject=deliver_subject)
        if self._begun:
            config = config.replace(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.last_sequence + 1,
                opt_start_time=None,
            )
        # One that pushes may deliver before its creation is answered.
        self.current, self.expected = name, 1
        creating = asyncio.create_task(consumers.create_or_update(self._api, self._stream, config, "create"))
        try:
            self.info = await asyncio.shield(creating)
        except BaseException:
            self._later(self._undo(creating, name))
            raise
        return self.info

    async def next_target(self) -> PullTarget:
        """Create the next consumer, to pull from."""
        info = await self.advance()
        return PullTarget.of(self._api, self._stream, info.name, AckPolicy.NONE)

    def check_free(self) -> None:
        """Raise `UsageError` when messages() or consume() reads from it."""
        if self.pulling:
            raise UsageError("messages() or consume() runs on this ordered consumer: make another one")

    def drop(self) -> None:
        """Delete the current consumer, without waiting for it."""
        self.current = ""
        if self.info is not None:
            self._later(self._delete(self.info.name))
            self.info = None

    def _later(self, deletion: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(deletion)
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def _undo(self, creating: asyncio.Task[ConsumerInfo], name: str) -> None:
        """Delete what nobody waits for any more; not before it is there, or it would outlive that."""
        try:
            await creating
        except APIError:
            return
        except Error:
            pass  # It may be there all the same.
        await self._delete(name)

    async def _delete(self, name: str) -> None:
        """Delete a consumer, for as long as an election may take; after that the server does it by itself."""
        for wait in _DELETE_WAITS:
            try:
                await consumers.delete(self._api, self._stream, name)
            except (ConsumerNotFound, StreamNotFound, ConnectionClosed):
                return
            except Error:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._api.connection.wait_closed(), wait)
            else:
                return

    def accept(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], bool]:
        """The messages that follow without a gap, and whether that were all of the current consumer."""
        accepted: list[MsgFrame] = []
        current = self.current
        if len(frames) > 2 and self._follow(frames, current):
            return frames, True
        # All before the first is counted: one that is none must not leave the count half done.
        for frame, metadata in [(frame, parse_metadata(frame.reply)) for frame in frames]:
            if metadata.consumer != current:
                continue
            if metadata.sequence.consumer != self.expected:
                return accepted, False
            self.expected += 1
            self._begun = True
            self.last_sequence = metadata.sequence.stream
            accepted.append(frame)
        return accepted, True

    def _follow(self, frames: list[MsgFrame], current: str) -> bool:
        """Whether all of them follow, seen without a look at each: deliveries are counted through."""
        first, last = parse_metadata(frames[0].reply), parse_metadata(frames[-1].reply)
        if (
            first.consumer != current
            or first.sequence.consumer != self.expected
            or last.sequence.consumer != self.expected + len(frames) - 1
        ):
            return False
        name = f".{current}.".encode()
        prefix = frames[0].reply.partition(name)[0] + name
        if not all(frame.reply.startswith(prefix) for frame in frames):
            return False
        self.expected += len(frames)
        self._begun = True
        self.last_sequence = last.sequence.stream
        return True

    def rewind(self, frame: MsgFrame) -> None:
        """Go on with this message: nobody read it."""
        self.last_sequence = parse_metadata(frame.reply).sequence.stream - 1


def is_final(error: Error) -> bool:
    """Whether no consumer can ever be had."""
    return isinstance(error, StreamNotFound | ConnectionClosed | UsageError | BadRequest)
