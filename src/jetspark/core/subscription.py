"""A subscription: the bounded queue between the connection and its reader.

`next()`, `async for`, or a callback in a task of the subscription takes the messages, one after the other.
Messages that do not fit are dropped and reported: core NATS delivers at most once, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from jetspark.core.callbacks import cancelled_inside
from jetspark.core.events import Event
from jetspark.core.message import Msg
from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import Error, SlowConsumer, SubscriptionClosed, Timeout, UsageError
from jetspark.wire import MsgFrame, total_size

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["Callback", "Subscription", "acting_for"]

#: A plain or coroutine function that handles one message.
Callback: TypeAlias = Callable[[Msg], Awaitable[None] | None]

#: In code that runs for a callback in another thread: the callback's task, which must not wait for itself.
acting_for: ContextVar[asyncio.Task[None] | None] = ContextVar("acting_for", default=None)

#: The number of messages after which a callback that never awaits lets the loop run.
_TURN = 256


class Subscription(Receiver):
    """Made by `Connection.subscribe`. Read it with `next()` or `async for`, unless it has a callback."""

    def __init__(
        self,
        connection: Connection,
        sid: bytes,
        subject: bytes,
        queue: bytes,
        *,
        callback: Callback | None,
        max_msgs: int | None,
        pending_msgs_limit: int,
        pending_bytes_limit: int,
    ) -> None:
        super().__init__(sid, subject, queue)
        self._connection = connection
        self._max_msgs = max_msgs
        self._pending_msgs_limit = pending_msgs_limit
        self._pending_bytes_limit = pending_bytes_limit
        self._pending: deque[MsgFrame] = deque()
        self._pending_bytes = 0
        self._received = 0
        self._dropped = 0
        self._slow = False
        self._arrived = Signal()
        self._closed = False
        self._error: Error | None = None
        self._task: asyncio.Task[None] | None = None
        if callback is not None:
            self.hand_to(self._run(callback))

    def hand_to(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a task take the messages. Ending the subscription waits for the task."""
        task = asyncio.create_task(work, name=f"jetspark-subscription-{self.subject}")
        self._task = task
        self._connection.callbacks.add(self)
        task.add_done_callback(lambda _: self._connection.callbacks.discard(self))
        return task

    @property
    def subject(self) -> str:
        """The subject, possibly with wildcards, that was subscribed to."""
        return self.subject_filter.decode("utf-8", "surrogateescape")

    @property
    def queue(self) -> str:
        """The queue group; empty without one."""
        return self.queue_group.decode("utf-8", "surrogateescape")

    @property
    def pending_msgs(self) -> int:
        """Messages that arrived and are not read yet."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Their size: subjects, replies, headers and payloads."""
        return self._pending_bytes

    @property
    def received(self) -> int:
        """Messages that arrived, dropped ones included."""
        return self._received

    @property
    def dropped(self) -> int:
        """Messages that were dropped because the subscription was full."""
        return self._dropped

    @property
    def active(self) -> bool:
        """Whether further messages can arrive. Buffered ones can be read in any case."""
        return not self._closed

    # --- reading

    async def next(self, timeout: float | None = None) -> Msg:
        """The next message.

        Raises `Timeout` after `timeout` seconds (by default the connection's `request_timeout`), and
        `SubscriptionClosed`, or the error that closed it, when no more can arrive.
        """
        self._check_no_callback()
        if not self._pending:
            loop = asyncio.get_running_loop()
            seconds = self._connection.options.request_timeout if timeout is None else timeout
            deadline = loop.time() + seconds
            while not self._pending:
                self._raise_if_closed()
                if not await self._arrived.wait(deadline - loop.time()) and not self._pending:
                    raise Timeout(f"no message on {self.subject!r} within {seconds} s")
        return self._take()

    def __aiter__(self) -> Self:
        self._check_no_callback()
        return self

    async def __anext__(self) -> Msg:
        while not self._pending:
            if self._closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._arrived.wait(None)
        return self._take()

    async def take(self, limit: int, timeout: float | None) -> list[MsgFrame]:
        """Buffered messages, up to `limit`; empty after `timeout` seconds without one, or at the end.

        Raises the error that closed it.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while not self._pending:
            if self._closed:
                if self._error is not None:
                    raise self._error
                return []
            wait = None if deadline is None else deadline - loop.time()
            if not await self._arrived.wait(wait) and not self._pending:
                return []
        frames = [self._pending.popleft() for _ in range(min(limit, len(self._pending)))]
        self._pending_bytes -= total_size(frames)
        return frames

    def _take(self) -> Msg:
        frame = self._pending.popleft()
        self._pending_bytes -= frame.size
        return Msg(frame, self._connection)

    def _discard(self) -> None:
        self._pending.clear()
        self._pending_bytes = 0

    def _check_no_callback(self) -> None:
        if self._task is not None:
            raise UsageError("this subscription has a callback, which receives its messages")

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise self._error or SubscriptionClosed(f"the subscription to {self.subject!r} is closed")

    # --- closing

    async def unsubscribe(self) -> None:
        """Stop without waiting for messages in flight. Buffered messages can still be read.

        A callback is not called again; returns when a running call has ended.
        """
        self._connection.session.unsubscribe(self)
        self._connection.session.forget(self)
        self.closed(None)
        if self._task is not None:
            self._discard()
            await self.join(None)

    async def drain(self) -> None:
        """Stop without loss: wait for messages in flight, deliver them, then end.

        Returns when everything has arrived, and a callback has handled it all. `async for` continues with the
        buffered messages, then ends. Raises `Timeout` after the connection's `drain_timeout`.
        """
        if self._closed:
            return
        deadline = asyncio.get_running_loop().time() + self._connection.options.drain_timeout
        await self._connection.drain_subscriptions([self], deadline)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.unsubscribe()

    # --- for the connection

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Queue messages, drop and report those that do not fit, wake the readers once."""
        self._received += len(frames)
        if self._max_msgs is not None and self._received >= self._max_msgs:
            del frames[len(frames) - (self._received - self._max_msgs) :]
            self._connection.session.forget(self)
            self._closed = True
        size = total_size(frames)
        if (
            len(self._pending) + len(frames) > self._pending_msgs_limit
            or self._pending_bytes + size > self._pending_bytes_limit
        ):
            frames, size = self._shorten(frames)
        self._pending.extend(frames)
        self._pending_bytes += size
        self._arrived.wake()

    def remaining(self) -> int | None:
        """How many messages are still wanted; None without a limit."""
        return None if self._max_msgs is None else self._max_msgs - self._received

    def closed(self, error: Error | None) -> None:
        """No more messages can arrive: readers get the buffered ones, then `error` or the end."""
        if not self._closed:
            self._closed = True
            self._error = error
        self._arrived.wake()

    def _shorten(self, frames: list[MsgFrame]) -> tuple[list[MsgFrame], int]:
        """Keep the messages that fit; report the others once, until the reader has caught up."""
        if (
            self._slow
            and len(self._pending) <= self._pending_msgs_limit // 2
            and self._pending_bytes <= self._pending_bytes_limit // 2
        ):
            self._slow = False
        room = self._pending_msgs_limit - len(self._pending)
        space = self._pending_bytes_limit - self._pending_bytes
        fitting: list[MsgFrame] = []
        size = 0
        for frame in frames[: max(room, 0)]:
            if size + frame.size > space:
                break
            size += frame.size
            fitting.append(frame)
        dropped = len(frames) - len(fitting)
        self._dropped += dropped
        self._connection.session.tally.dropped += dropped
        if not self._slow:
            self._slow = True
            self._connection.report(
                SlowConsumer(
                    f"the subscription to {self.subject!r} is full and drops messages",
                    subject=self.subject,
                    dropped=self._dropped,
                    hint="Read faster, share the work in a queue group, or raise the pending limits",
                ),
                Event.SLOW_CONSUMER,
            )
        return fitting, size

    async def join(self, timeout: float | None) -> bool:
        """Wait until a callback has handled everything, unless the callback itself is the caller."""
        task = self._task
        if task is None or self._is_caller(task):
            return True
        done, _ = await asyncio.wait([task], timeout=timeout)
        return bool(done)

    def cancel(self) -> None:
        """Cancel a callback, or stop it after this message when the callback itself is the caller.

        A callback that drains the connection still gets the messages that have arrived.
        """
        if self._task is None:
            return
        if not self._is_caller(self._task):
            self._task.cancel()
        elif not self._connection.draining:
            self._discard()

    def _is_caller(self, task: asyncio.Task[None]) -> bool:
        return task is asyncio.current_task() or task is acting_for.get()

    async def _run(self, callback: Callback) -> None:
        handled = 0
        while True:
            while not self._pending:
                if self._closed:
                    return
                await self._arrived.wait(None)
            message = self._take()
            try:
                outcome = callback(message)
                if outcome is not None and inspect.isawaitable(outcome):
                    await outcome
            except asyncio.CancelledError as error:
                self._connection.report(cancelled_inside(error), Event.ERROR)
            except Exception as error:
                self._connection.report(error, Event.ERROR)
            handled += 1
            if handled % _TURN == 0:
                await asyncio.sleep(0)
