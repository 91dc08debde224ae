"""How users read a pull buffer: `Messages`, an iterator, and `Consuming`, which calls a handler."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Self, TypeAlias

from jetspark.core.callbacks import cancelled_inside
from jetspark.errors import ConnectionClosed, Error, UsageError
from jetspark.jetstream.lazy_reader import LazyReader
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.pull.buffer import PullBuffer
from jetspark.wire import MsgFrame

__all__ = ["Consuming", "Handler", "Messages"]

#: A plain or coroutine function that handles one message.
Handler: TypeAlias = Callable[[JetStreamMsg], Awaitable[None] | None]


class Messages(LazyReader):
    """An endless iterator: `async with consumer.messages() as msgs: async for msg in msgs: ...`.

    Leaving the context stops it; buffered messages that were not handed out go back to the server.
    """

    def __init__(self, buffer: PullBuffer) -> None:
        self._buffer = buffer

    async def next(self, timeout: float | None = None) -> JetStreamMsg | None:
        """The next message; None if none arrives within `timeout` seconds, or after `stop` or `drain`.

        Raises the error that ended it, such as `ConsumerDeleted`.
        """
        await self._start()
        message = await self._buffer.next(timeout)
        if message is None and self._buffer.error is not None:
            raise self._buffer.error
        return message

    async def batches(self) -> AsyncIterator[Batch]:
        """The messages that have arrived, many at a time, while the next ones are on their way.

        The fastest way to read a consumer. A batch has at most half of `max_messages`, and is never empty.
        """
        while messages := await self.take():
            yield Batch(messages)

    async def take(self, timeout: float | None = None) -> list[JetStreamMsg]:
        """The buffered messages; otherwise like `next`. For readers that pass them to a thread."""
        await self._start()
        frames = await self._buffer.take(timeout)
        if not frames and self._buffer.error is not None:
            raise self._buffer.error
        return self._buffer.target.messages(frames)

    def put_back(self, frames: list[MsgFrame]) -> None:
        """Put back messages that were taken last and not handed out, before it stops."""
        self._buffer.put_back(frames)

    def notify(self, error: Exception) -> None:
        """Report an error that does not end it."""
        self._buffer.notify(error)

    def stop(self) -> Awaitable[None]:
        """End at once and return buffered messages to the server. With asyncio, awaiting it is optional."""
        self._started = True
        return self._buffer.stop()

    def drain(self) -> Awaitable[None]:
        """Pull no more, and end after the messages that are buffered or on their way.

        With asyncio, awaiting it is optional.
        """
        self._started = True
        return self._buffer.drain()

    async def __anext__(self) -> JetStreamMsg:
        buffer = self._buffer
        if buffer.frames:
            return buffer.pop()
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _open(self) -> None:
        await self._buffer.start()


class Consuming:
    """A running consume: `running = await consumer.consume(handler)`."""

    def __init__(self, buffer: PullBuffer, handler: Handler, concurrency: int) -> None:
        self._buffer = buffer
        self._handler = handler
        self._workers = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        self._done = asyncio.gather(*self._workers, return_exceptions=True)
        self._done.add_done_callback(lambda _: self._report_end())

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return not self._done.done()

    def stop(self) -> Awaitable[None]:
        """End at once: running handlers finish, buffered messages go back to the server.

        With asyncio, awaiting the result is optional; it waits for that.
        """
        self._buffer.stop()
        return self._finished()

    def drain(self) -> Awaitable[None]:
        """Pull no more, handle the messages that are buffered or on their way, and end.

        With asyncio, awaiting it is optional.
        """
        self._buffer.drain()
        return self._finished()

    async def wait_closed(self) -> None:
        """Wait until it has ended. Raises the error that ended it, such as `ConsumerDeleted`.

        Raises `UsageError` in a handler, which would wait for itself.
        """
        if asyncio.current_task() in self._workers:
            raise UsageError(
                "a handler cannot wait for its own consume to end", hint="stop() and drain() can"
            )
        await self._join()
        if self._buffer.error is not None:
            raise self._buffer.error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def _finished(self) -> Awaitable[None]:
        if asyncio.current_task() in self._workers:
            # A handler that ends its own consume must not wait for itself.
            return self._buffer.target.connection.session.outbox.done
        return asyncio.ensure_future(self._join())

    async def _join(self) -> None:
        await asyncio.shield(self._done)
        await self._buffer.join()

    async def _work(self) -> None:
        buffer = self._buffer
        while True:
            message = buffer.pop() if buffer.frames else await buffer.next()
            if message is None:
                return
            try:
                outcome = self._handler(message)
                if outcome is not None and inspect.isawaitable(outcome):
                    await outcome
            except asyncio.CancelledError as error:
                self._failed(message, cancelled_inside(error))
            except Exception as error:
                self._failed(message, error)

    def _report_end(self) -> None:
        """Report what ended it: perhaps nobody waits for its end. Closing the connection is no news."""
        error = self._buffer.error
        if error is not None and not isinstance(error, ConnectionClosed):
            self._buffer.notify(error)

    def _failed(self, message: JetStreamMsg, error: Exception) -> None:
        self._buffer.notify(error)
        # Closed, or the outbox is full: the message is delivered again after `ack_wait`.
        with suppress(Error):
            message.nak()
