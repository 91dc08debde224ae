"""The connection, as users see it: publish, subscribe, request, flush, drain, close.

The link (`link.py`) keeps it connected; the session (`session.py`) carries its messages.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import aclosing
from typing import Final, Self, TypeVar

from jetspark import errors
from jetspark.core.events import Event, Listener
from jetspark.core.headers import COMMON, header_block
from jetspark.core.link import Link, State
from jetspark.core.message import Msg, as_bytes, too_large
from jetspark.core.numbers import check_count
from jetspark.core.options import ConnectOptions
from jetspark.core.outbox import TURN
from jetspark.core.request import Accepts, Requests
from jetspark.core.request_many import request_many
from jetspark.core.server_info import ServerInfo
from jetspark.core.servers import PoolServer, parse_servers
from jetspark.core.session import Session
from jetspark.core.subscription import Callback, Subscription
from jetspark.errors import Error
from jetspark.wire import hpub, pub
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import check_filter, check_queue, check_subject, encode_subject

__all__ = ["Connection", "Statistics"]

T = TypeVar("T")

#: Messages and bytes that a subscription buffers by default before it drops messages.
PENDING_MSGS_LIMIT: Final = 512 * 1024
PENDING_BYTES_LIMIT: Final = 128 * 1024 * 1024

#: Seconds that closing waits for each task to end, after the queued messages are written.
_GRACE: Final = 1.0


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts since the connection was made. Bytes include the protocol."""

    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    reconnects: int


class Connection:
    """A connection to NATS. Made by `jetspark.connect`; belongs to the event loop that made it."""

    def __init__(self, servers: list[PoolServer], options: ConnectOptions) -> None:
        self.options = options
        self._link = Link(servers, options)
        #: For the layers above: receivers and the outbox.
        self.session: Session = self._link.session
        self._loop = asyncio.get_running_loop()
        self._requests: Requests | None = None
        #: Subscriptions whose callback is not done, closed ones included.
        self.callbacks: set[Subscription] = set()
        #: For the layers above: called by `drain` when everything is drained, before it closes.
        self.at_drain: set[Callable[[], Awaitable[None]]] = set()
        #: For instrumentation: subclasses that the objects of this connection get, by the classes that
        #: others have.
        self.classes: dict[object, object] = {}
        #: Queues whole frames; for acknowledgements of messages.
        self.write = self.session.outbox.write
        #: Queues the acknowledgement of one message, if there is room: `write` in one compiled call.
        self.queue_ack = self.session.outbox.queue.ack
        self._queue = self.session.outbox.queue.publish
        self._done = self.session.outbox.done
        self._drained = self.session.outbox.drained
        self._published = 0
        self._draining = False
        self._publishing = True
        #: Whether `publish` may take its fast path: publishing is allowed, and no header is on every message.
        self._plain = not COMMON
        for event in Event:
            listener = getattr(options, f"on_{event}")
            if listener is not None:
                self.on(event, listener)

    async def open(self) -> None:
        """Connect, once. `jetspark.connect` does it."""
        await self._link.open()

    # --- state

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._link.state

    @property
    def connected(self) -> bool:
        """Whether it is connected to a server now."""
        return self._link.state is State.CONNECTED

    @property
    def closed(self) -> bool:
        """Whether it is closed for good."""
        return self._link.state is State.CLOSED

    @property
    def draining(self) -> bool:
        """Whether `drain()` was called."""
        return self._draining

    @property
    def last_error(self) -> Error | None:
        """The error that last broke or closed the connection, or that no call could raise."""
        return self._link.error

    @property
    def server_info(self) -> ServerInfo:
        """The INFO of the server in use, or of the last one."""
        return self._link.info

    @property
    def connected_url(self) -> str | None:
        """The URL of the server in use, without user info; None while disconnected."""
        server = self._link.server
        return server.url if server is not None and self.connected else None

    @property
    def servers(self) -> list[str]:
        """The URLs of all known servers, discovered ones included.

        Set it to one or more URLs, as `connect` takes them, to use others from the next reconnect on, which
        `reconnect()` forces. The next INFO adds the servers of the cluster again.
        """
        return [server.url for server in self._link.pool]

    @servers.setter
    def servers(self, servers: str | Iterable[str]) -> None:
        self._link.pool.replace(parse_servers(servers))

    @property
    def max_payload(self) -> int:
        """The largest message, headers included, that the server accepts."""
        return self._link.info.max_payload

    @property
    def statistics(self) -> Statistics:
        """Counts since the connection was made."""
        return Statistics(
            in_msgs=self.session.messages_received,
            out_msgs=self._published + self.session.outbox.queue.published,
            in_bytes=self.session.bytes_received,
            out_bytes=self.session.bytes_sent,
            reconnects=self._link.reconnects,
        )

    def on(self, event: Event, listener: Listener) -> Callable[[], None]:
        """Call `listener` at every `event`; returns a function that removes it.

        With asyncio, the listener may be a coroutine function.
        """
        return self._link.events.on(event, listener)

    def __repr__(self) -> str:
        server = self._link.server
        return f"<{type(self).__name__} {self.state}{f' to {server.url}' if server else ''}>"

    def report(self, error: Exception, event: Event = Event.ERROR) -> None:
        """Report an error that no call can raise: log it, and call the listeners of `event`."""
        self._link.report(error, event)

    def class_of(self, plain: T) -> T:
        """The class to make an object of: `plain`, unless `classes` has another in its place."""
        return self.classes.get(plain, plain)  # type: ignore[return-value]

    # --- publish, subscribe, request

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: HeadersLike | None = None
    ) -> Awaitable[None]:
        """Publish a message: it is queued, and written soon.

        While the connection is down, messages wait, up to `pending_size` bytes, and are sent in order after
        it is back. With asyncio, awaiting the result waits for back-pressure; a program that publishes much
        should do so.

        Raises `UsageError` for an invalid argument, `MaxPayloadError`, `OutboundBufferFull`,
        `ConnectionDraining` and `ConnectionClosed`; nothing was queued then.
        """
        # The fast path of most messages: one call, compiled where possible, checks, encodes and queues.
        if not (reply or headers) and self._plain:
            size = self._queue(subject, data, self._link.info.max_payload)
            if size:
                return self._done if size < TURN else self._drained
        return self._publish(self.frame(subject, data, reply, headers))

    def publish_block(self, subject: str, data: bytes, block: bytes) -> Awaitable[None]:
        """`publish` with a header block that is encoded already."""
        return self._publish(self.frame(subject, data, "", None, block=block))

    def _publish(self, frame: bytes) -> Awaitable[None]:
        written = self.write(frame)
        self._published += 1
        return written

    def frame(
        self,
        subject: str,
        data: bytes,
        reply: str,
        headers: HeadersLike | None,
        *,
        block: bytes = b"",
        inbox: bytes = b"",
    ) -> bytes:
        """The bytes of a publish, checked; raises what `publish` raises. Thread-safe.

        A `block`, encoded already, takes the place of the headers, and an `inbox` that of the reply.
        """
        if not self._publishing:
            raise self._refusal()
        if type(data) is not bytes:
            data = as_bytes(data)
        if type(subject) is not str:
            raise errors.UsageError(f"subject must be a str, not {type(subject).__name__}")
        encoded = encode_subject(subject)
        encoded_reply = check_subject(reply, "reply") if reply else inbox
        block = block or header_block(headers)
        if block:
            if not self._link.info.headers:
                raise errors.HeadersNotSupported("the server does not support headers")
            size = len(block) + len(data)
            frame = hpub(encoded, encoded_reply, block, data)
        else:
            size = len(data)
            frame = pub(encoded, encoded_reply, data)
        if size > self._link.info.max_payload:
            raise too_large(size, self._link.info.max_payload)
        return frame

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        max_msgs: int | None = None,
        pending_msgs_limit: int = PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = PENDING_BYTES_LIMIT,
    ) -> Subscription:
        """Subscribe to a subject; `*` stands for one token, a final `>` for one or more.

        Read the subscription with `next()` or `async for`, or give a `callback`, which is called with one
        message after the other. Members of one `queue` share the messages. `max_msgs` ends the subscription
        after so many. Beyond the limits, by default 524,288 messages and 128 MiB of them with subjects and
        headers, messages are dropped and reported as `SlowConsumer`. With asyncio, the callback may be a
        coroutine function.
        """
        self._raise_if_ending()
        if max_msgs is not None:
            check_count("max_msgs", max_msgs)
        check_count("pending_msgs_limit", pending_msgs_limit)
        check_count("pending_bytes_limit", pending_bytes_limit)
        if callback is not None and not callable(callback):
            raise errors.UsageError(f"callback must be a function, not {type(callback).__name__}")
        subscription = self.class_of(Subscription)(
            self,
            self.session.new_sid(),
            check_filter(subject),
            check_queue(queue) if queue else b"",
            callback=callback,
            max_msgs=max_msgs,
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
        )
        self.session.add(subscription)
        return subscription

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """Publish a request and return the first answer.

        Raises `NoResponders` at once when there is no subscriber, `Timeout` after `timeout` seconds (by
        default `request_timeout`), `ConnectionLost` when the connection breaks before the answer.
        """
        self._raise_if_ending()
        seconds = self.options.request_timeout if timeout is None else timeout

        def publish(inbox: bytes) -> None:
            self._publish(self.frame(subject, data, "", headers, inbox=inbox))

        return await self._inbox().ask(subject, publish, seconds)

    async def request_many(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
        max_msgs: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[Msg], bool] | None = None,
    ) -> AsyncIterator[Msg]:
        """Publish a request and read several answers: `async for answer in nc.request_many(...)`.

        Ends after `timeout` seconds (by default `request_timeout`), after `max_msgs` answers, when no answer
        arrives for `stall` seconds after the last one, or at the first answer for which `sentinel` returns
        True, which is left out. An empty result is not an error; without a subscriber, `NoResponders` is
        raised.
        """
        self._raise_if_ending()
        answers = request_many(
            self,
            subject,
            data,
            timeout=self.options.request_timeout if timeout is None else timeout,
            headers=headers,
            max_msgs=max_msgs,
            stall=stall,
            sentinel=sentinel,
        )
        async with aclosing(answers):
            async for answer in answers:
                yield answer

    async def request_block(
        self, subject: str, data: bytes, block: bytes, *, timeout: float, accepts: Accepts | None = None
    ) -> Msg:
        """`request` with an encoded header block. Answers that `accepts` refuses are dropped."""
        self._raise_if_ending()

        def publish(inbox: bytes) -> None:
            self._publish(self.frame(subject, data, "", None, block=block, inbox=inbox))

        return await self._inbox().ask(subject, publish, timeout, accepts)

    def _inbox(self) -> Requests:
        """The inbox of requests; a new one at first, and after the last one has ended."""
        if self._requests is None or self._requests.ended:
            self._requests = Requests(self, self.session.new_sid(), f"{self.new_inbox()}.".encode())
            self.session.add(self._requests)
        return self._requests

    def new_inbox(self) -> str:
        """A unique subject under `inbox_prefix`."""
        return f"{self.options.inbox_prefix}.{secrets.token_urlsafe(16)}"

    async def flush(self, timeout: float | None = None) -> None:
        """Return when the server has processed everything published before.

        Waits for the connection if it is down. Raises `Timeout` after `timeout` seconds (by default
        `request_timeout`), `ConnectionLost` when the connection breaks meanwhile.
        """
        seconds = self.options.request_timeout if timeout is None else timeout
        deadline = self._loop.time() + seconds
        await self._link.wait_connected(seconds)
        await self.session.flush(deadline - self._loop.time())

    async def rtt(self, timeout: float | None = None) -> float:
        """Seconds for a PING to the server and its PONG back."""
        start = time.perf_counter()  # The time of uvloop has milliseconds only.
        await self.flush(timeout)
        return time.perf_counter() - start

    async def wait_connected(self, timeout: float | None = None) -> None:
        """Return when connected to a server.

        Raises `Timeout` after `timeout` seconds (by default `request_timeout`), with the last error as its
        cause, and `ConnectionClosed`.
        """
        await self._link.wait_connected(self.options.request_timeout if timeout is None else timeout)

    async def reconnect(self, timeout: float | None = None) -> None:
        """Leave the server in use and connect to the next one of `servers`, without a wait.

        Messages published before are processed by the old server or sent to the new one; open requests fail
        with `ConnectionLost`. While the connection is down, the wait before the next attempt ends. Returns
        when connected; raises `Timeout` after `timeout` seconds (by default `request_timeout`), and
        `ConnectionClosed`.
        """
        self._raise_if_ending()
        if self.options.max_reconnect_attempts == 0:
            raise errors.UsageError("reconnect() needs reconnects: max_reconnect_attempts must not be 0")
        await self._link.reconnect(self.options.request_timeout if timeout is None else timeout)

    # --- closing

    async def drain(self) -> None:
        """Close without loss: subscriptions deliver messages in flight, everything published is written.

        Subscriptions and requests are refused at once; publishing is refused once the callbacks have
        finished. Then the connection closes, also when `Timeout` is raised after `drain_timeout` because
        callbacks did not finish.
        """
        await self.drain_until(self._loop.time() + self.options.drain_timeout)

    async def drain_until(self, deadline: float) -> None:
        """`drain` with another deadline, a time of the event loop."""
        if self._draining or self.closed:
            return
        self._draining = True
        try:
            subscriptions = {each for each in self.session.receivers if isinstance(each, Subscription)}
            await self.drain_subscriptions(subscriptions | self.callbacks, deadline)
            async with asyncio.timeout_at(deadline):
                await asyncio.gather(*(last() for last in list(self.at_drain)))
            self._publishing = self._plain = False
            while self.session.attached or self.session.outbox.size:
                try:
                    await self.flush(deadline - self._loop.time())
                    break
                except errors.ConnectionLost:
                    continue  # The queue is written after the reconnect.
        except TimeoutError as error:
            if isinstance(error, errors.Timeout):
                raise
            raise errors.Timeout(
                "consumers could not be deleted within the drain timeout", hint="Raise drain_timeout"
            ) from None
        finally:
            left = deadline - self._loop.time()
            await self._close(min(left, self.session.close_timeout), min(max(left, 0.1), _GRACE))

    async def drain_subscriptions(self, subscriptions: Collection[Subscription], deadline: float) -> None:
        """Unsubscribe, wait for messages in flight, let callbacks finish. Raises `Timeout`."""
        for subscription in subscriptions:
            self.session.unsubscribe(subscription)
        try:
            if self.session.attached:
                await self.session.flush(deadline - self._loop.time())
        except errors.ConnectionLost:
            pass  # Then nothing is in flight any more.
        finally:
            for subscription in subscriptions:
                self.session.forget(subscription)
                subscription.closed(None)
        for subscription in subscriptions:
            if not await subscription.join(max(deadline - self._loop.time(), 0.0)):
                raise errors.Timeout(
                    f"the callback of {subscription.subject!r} did not finish within the drain timeout",
                    hint="Raise drain_timeout",
                )

    async def close(self) -> None:
        """Write the queued messages, for at most 2 seconds, and close.

        Closing twice does nothing; a cancelled close still closes. With asyncio, callbacks are cancelled too.
        """
        await self._close(min(self.options.connect_timeout, self.session.close_timeout), _GRACE)

    async def _close(self, timeout: float, grace: float) -> None:
        """Write for `timeout` seconds; then each step of closing has `grace` seconds to end."""
        self._publishing = self._plain = False
        callbacks = list(self.callbacks)
        for subscription in callbacks:
            subscription.cancel()
        try:
            if self.session.attached:
                await self.session.flush(timeout)
        except Error:
            pass  # Unwritten messages are lost with the connection.
        finally:
            await self._link.close(None, grace)
            for subscription in callbacks:
                await subscription.join(grace)
            await self._link.events.settle(grace)

    async def wait_closed(self) -> None:
        """Return when the connection is closed, by the user or for good."""
        while not self.closed:
            await self._link.changed.wait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _raise_if_ending(self) -> None:
        if self._draining or not self._publishing or self.closed:
            raise self._refusal()

    def _refusal(self) -> Error:
        if self._draining and not self.closed:
            return errors.ConnectionDraining("the connection is draining")
        return self._link.closed_error()
