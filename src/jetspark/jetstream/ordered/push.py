"""An ordered push subscription: every message of a stream, once, in order, whatever happens on the way.

Behind it stands a row of push consumers (`chain.py`), one at a time, each with a deliver subject of
its own. When a delivery is missing, the server is silent, or the connection was lost, the next one of the
row goes on behind the last message that is in the queue; nothing of it is reported unless it fails.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.core.signal import Signal
from jetspark.errors import ConsumerNotFound, Error, MissedHeartbeat
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.ordered.chain import FIRST_BACK_OFF, LAST_BACK_OFF, Row, is_final
from jetspark.jetstream.push.options import PushOptions
from jetspark.jetstream.push.subscription import PushSubscription
from jetspark.wire import MsgFrame

if TYPE_CHECKING:
    from jetspark.jetstream.pull.iterate import Handler

__all__ = ["OrderedSubscription"]


class OrderedSubscription(PushSubscription):
    """What `js.subscribe(..., ordered=True)` returns."""

    def __init__(
        self,
        api: API,
        stream: str,
        config: ConsumerConfig,
        *,
        callback: Handler | None,
        options: PushOptions,
    ) -> None:
        super().__init__(api, stream, config, callback=callback, options=options)
        self._row = Row(api, stream, config, f"ordered_{secrets.token_hex(6)}")
        self._advancing: asyncio.Task[None] | None = None
        # Seconds before the next consumer is created; none when the last one was seen to work.
        self._wait = 0.0
        # Wakes who waits to advance: the connection is back, there is room again, or it is over.
        self._go_on = Signal()
        # More came than the queue may hold: it goes on when half of it is read.
        self._full = False
        # The consumer that is being created is of no use already: its messages may come before the answer.
        self._stale = False

    async def start(self) -> None:
        """Create the first consumer. Raises what that raises."""
        await self._advance_once()
        self._connection.at_drain.add(self._delete_quietly)
        self._watch()
        self._start()

    async def _advance_once(self) -> None:
        inbox = self._connection.new_inbox()
        self._flow.forget()
        self.begin(inbox, "")
        info = await self._row.advance(inbox)
        self._name = info.name
        if self._heartbeat is not None:
            self._heartbeat.heard()

    # --- for the session

    def _accept(self, frames: list[MsgFrame]) -> None:
        fitting = self._fitting(frames)
        accepted, whole = self._row.accept(fitting)
        if accepted:
            self._wait = 0.0
            super()._accept(accepted)
        if len(fitting) < len(frames):
            self._full = True
            self._restart()
        elif not whole:
            self._restart()

    def _count(self, frames: list[MsgFrame]) -> None:
        """The row has counted."""

    def _fitting(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        """What the queue may hold. The rest is asked for again, instead of being dropped."""
        room = self._pending_msgs_limit - len(self._pending)
        space = self._pending_bytes_limit - self._pending_bytes
        if len(frames) <= room and sum(len(frame.data) for frame in frames) <= space:
            return frames
        fitting: list[MsgFrame] = []
        for frame in frames[:room]:
            space -= len(frame.data)
            if space < 0 and (fitting or self._pending):
                break  # A single message that is larger than the limit is taken all the same.
            fitting.append(frame)
        return fitting

    def _shorten(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], int]:
        """A message that is larger than the limit by itself: nothing is dropped."""
        return frames, sum(len(frame.data) for frame in frames)

    def _on_last(self, consumer: int, stream: int) -> None:
        if consumer >= self._row.expected:
            self._restart()

    def _on_missed_heartbeat(self, allowed: float) -> None:
        self.notify(
            MissedHeartbeat(f"{self._name} of {self._stream} was silent for {allowed:g} s", hint="Going on")
        )
        self._restart()

    def reconnected(self) -> None:
        """Go on with the next consumer, at once: the last one may be gone with its server."""
        self._wait = 0.0
        self._restart()
        self._go_on.wake()

    def closed(self, error: Error | None) -> None:
        """Nothing will come any more."""
        super().closed(error)
        self._go_on.wake()

    def end(self) -> None:
        """Everything has arrived."""
        super().end()
        self._go_on.wake()

    # --- the row

    def _restart(self) -> None:
        """What the current consumer still sends is not wanted any more."""
        if self._closed:
            return
        self._stale = True
        if self._advancing is None:
            self._leave()
            self._advancing = asyncio.create_task(self._advance())

    async def _advance(self) -> None:
        try:
            while not self._closed:
                if self._full and not self._has_room():
                    await self._go_on.wait(None)
                    continue
                if self._wait and await self._go_on.wait(self._wait):
                    continue  # It is over, or the connection is back.
                self._full = self._stale = False
                self._wait = min(max(2 * self._wait, FIRST_BACK_OFF), LAST_BACK_OFF)
                try:
                    await self._advance_once()
                except Error as error:
                    if is_final(error):
                        self._finish(error)
                        return
                    self.notify(error)
                else:
                    if not self._stale:
                        return
                self._leave()
        finally:
            self._advancing = None

    def _has_room(self) -> bool:
        return (
            len(self._pending) <= self._pending_msgs_limit // 2
            and self._pending_bytes <= self._pending_bytes_limit // 2
        )

    def _reach(self) -> None:
        if self._full and self._has_room():
            self._go_on.wake()
        super()._reach()

    # --- ending

    async def unsubscribe(self) -> None:
        """Stop at once and delete the consumer behind it. What is buffered can still be read.

        Raises what deleting raises.
        """
        await self._stop_advancing()
        await super().unsubscribe()
        await self._delete_current()

    async def drain(self) -> None:
        """Stop without loss of what is under way, then delete the consumer behind it."""
        await self._stop_advancing()
        await super().drain()
        await self._delete_quietly()

    async def _delete_quietly(self) -> None:
        try:
            await self._delete_current()
        except Error as error:
            self.notify(error)

    async def _delete_current(self) -> None:
        self._connection.at_drain.discard(self._delete_quietly)
        info = self._row.info
        if info is None or self._connection.closed:
            return  # The server deletes it by itself when nobody listens.
        self._row.info = None
        with suppress(ConsumerNotFound):  # Such a consumer may go at any time.
            await consumers.delete(self._api, self._stream, info.name, while_draining=True)

    async def _stop_advancing(self) -> None:
        task = self._advancing
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
