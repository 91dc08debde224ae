"""An ordered push subscription: every message of a stream, once, in order, whatever happens on the way.

Behind it is a chain of push consumers (`chain.py`), one at a time, each with its own deliver subject.
When a delivery is missing, the server is silent, or the connection was lost, the next consumer starts behind
the last message in the queue. Only a failure to create it is reported.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

from jetspark.errors import ConsumerNotFound, Error
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.model.consumer import ConsumerConfig
from jetspark.jetstream.ordered.chain import Chain
from jetspark.jetstream.pull.iterate import Handler
from jetspark.jetstream.push.gaps import Gap
from jetspark.jetstream.push.options import PushOptions
from jetspark.jetstream.push.subscription import PushSubscription
from jetspark.wire import MsgFrame, total_size

__all__ = ["OrderedSubscription"]


class OrderedSubscription(PushSubscription):
    """An ordered push subscription. Made by `js.subscribe(..., ordered=True)`."""

    _silence_hint = "Continuing with the next consumer"

    def __init__(
        self, api: API, stream: str, config: ConsumerConfig, *, callback: Handler | None, options: PushOptions
    ) -> None:
        super().__init__(api, stream, config, callback=callback, options=options)
        self._chain = Chain(api, stream, config, f"ordered_{secrets.token_hex(6)}")
        self._gaps = self._chain.gaps
        # More arrived than the queue may hold: the chain continues when half of it is read.
        self._full = False

    async def start(self) -> None:
        """Create the first consumer. Raises the errors of that."""
        await self._chain.begin(self)
        self._connection.at_drain.add(self._delete_quietly)
        self._watch()
        self._start()

    # --- for the session

    def _accept(self, frames: list[MsgFrame]) -> None:
        fitting = self._fitting(frames)
        accepted, whole = self._chain.accept(fitting)
        if accepted:
            super()._accept(accepted)
        if len(fitting) < len(frames):
            self._full = True
            self._restart()
        elif not whole:
            self._restart()

    def _count(self, frames: list[MsgFrame]) -> None:
        """The chain has counted."""

    def _fitting(self, frames: list[MsgFrame]) -> list[MsgFrame]:
        """The messages that the queue may hold. The rest is requested again instead of being dropped."""
        room = self._pending_msgs_limit - len(self._pending)
        space = self._pending_bytes_limit - self._pending_bytes
        if len(frames) <= room and total_size(frames) <= space:
            return frames
        fitting: list[MsgFrame] = []
        for frame in frames[:room]:
            space -= frame.size
            if space < 0 and (fitting or self._pending):
                break  # A single message larger than the limit is taken nevertheless.
            fitting.append(frame)
        return fitting

    def _shorten(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], int]:
        """A single message larger than the limit: nothing is dropped."""
        return frames, total_size(frames)

    def _report_gap(self, gap: Gap) -> None:
        """Repair the gap that a heartbeat revealed, instead of reporting it."""
        self._restart()

    def _look(self) -> None:
        """Continue with the next consumer, whether the silent one still exists or not."""
        self._restart()

    def reconnected(self) -> None:
        """Continue with the next consumer at once: the last one may be gone with its server."""
        self._chain.works()
        self._restart()

    def closed(self, error: Error | None) -> None:
        super().closed(error)
        self._chain.woken.wake()

    def _restart(self) -> None:
        if not self._closed:
            self._leave()
            self._chain.restart()

    def _has_room(self) -> bool:
        return (
            len(self._pending) <= self._pending_msgs_limit // 2
            and self._pending_bytes <= self._pending_bytes_limit // 2
        )

    def _reach(self) -> None:
        if self._full and self._has_room():
            self._chain.woken.wake()
        super()._reach()

    # --- for the chain

    @property
    def wants_more(self) -> bool:
        """Whether it is still subscribed."""
        return not self._closed

    async def read_next_consumer(self) -> None:
        """Let the next consumer of the chain push to a new inbox, as soon as there is room."""
        while self._full and not self._has_room():
            await self._chain.woken.wait(None)
            if self._closed:
                return
        self._full = False
        inbox = self._connection.new_inbox()
        self._flow.forget()
        self.begin(inbox, "")
        try:
            info = await self._chain.advance(inbox)
        except BaseException:
            self._leave()
            raise
        self._name = info.name

    def resumed(self) -> None:
        """The new consumer has its time to send a heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.seen()

    def finish(self, error: Error) -> None:
        """End with this error."""
        self._finish(error)

    # --- ending

    async def unsubscribe(self) -> None:
        """Stop at once and delete the consumer. Queued messages can be read. Raises what deleting raises."""
        await self._chain.stop()
        await super().unsubscribe()
        await self._delete_current()

    async def drain(self) -> None:
        """Stop without losing messages in flight, then delete the consumer behind it."""
        await self._chain.stop()
        await super().drain()
        await self._delete_quietly()

    async def _delete_quietly(self) -> None:
        try:
            await self._delete_current()
        except Error as error:
            self.notify(error)

    async def _delete_current(self) -> None:
        self._connection.at_drain.discard(self._delete_quietly)
        info = self._chain.info
        if info is None or self._connection.closed:
            return  # The server deletes it by itself without a subscriber.
        self._chain.info = None
        with suppress(ConsumerNotFound):  # The server may delete such a consumer at any time.
            await consumers.delete(self._api, self._stream, info.name, while_draining=True)
