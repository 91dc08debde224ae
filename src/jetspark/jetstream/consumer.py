"""A pull consumer, as users see it: fetch, next, messages, consume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from jetspark.core.callbacks import Callbacks
from jetspark.core.numbers import check_count
from jetspark.errors import ConsumerIsPush, NoResponders, UsageError
from jetspark.jetstream.dead_letters import DeadLetter, dead_letters
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.model.consumer import ConsumerConfig, PriorityPolicy
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.bounds import Bounds
from jetspark.jetstream.pull.buffer import OnError, PullBuffer
from jetspark.jetstream.pull.fetch import Fetch
from jetspark.jetstream.pull.iterate import Consuming, Handler, Messages
from jetspark.jetstream.pull.options import PullKeywords, PullOptions
from jetspark.jetstream.pull.pin import OnPin, Pin, PinEvent
from jetspark.jetstream.pull.receiver import Leftover
from jetspark.jetstream.pull.request import PullTarget, fetch_request, no_wait_request
from jetspark.wire.subjects import check_name

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["Consumer", "described"]


class Consumer:
    """A consumer of a stream. Made by `create_consumer` and `get_consumer` of the stream or context."""

    def __init__(self, api: API, stream: str, name: str, info: ConsumerInfo | None) -> None:
        check_name(stream, "stream")
        check_name(name, "consumer")
        self._api = api
        self._stream = stream
        self._name = name
        self._leftover = Leftover()
        self._presence = Presence(api, stream, name)
        self._bounds = Bounds()
        self._pin_listeners: Callbacks[[PinEvent]] = Callbacks("on_pin")
        # By group.
        self._pins: dict[str, Pin] = {}
        # None while it was never looked up.
        self._info: ConsumerInfo | None = None
        if info is not None:
            self._know(info)

    def _know(self, info: ConsumerInfo) -> None:
        self._info = info
        self._bounds.read(info.config)

    @property
    def name(self) -> str:
        """The name of the consumer."""
        return self._name

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._stream

    @property
    def config(self) -> ConsumerConfig:
        """The configuration as last seen; only the name while it was not looked up."""
        return ConsumerConfig(name=self._name) if self._info is None else self._info.config

    @property
    def cached_info(self) -> ConsumerInfo:
        """The last answer of the server; sends no request. Raises `UsageError` while it was not looked up."""
        if self._info is None:
            raise UsageError(
                f"consumer {self._name} of stream {self._stream} was not looked up", hint="Call info() first"
            )
        return self._info

    def __repr__(self) -> str:
        return f"<Consumer {self.stream_name} > {self.name}>"

    # --- managing

    async def info(self) -> ConsumerInfo:
        """Ask the server for its state and configuration. Raises `ConsumerNotFound`."""
        info = await consumers.info(self._api, self.stream_name, self.name)
        self._know(info)
        return info

    async def delete(self) -> None:
        """Delete it. Raises `ConsumerNotFound`."""
        await consumers.delete(self._api, self.stream_name, self.name)

    async def pause(self, until: datetime | float) -> None:
        """Deliver nothing until a time, or for a number of seconds. Server 2.11."""
        await consumers.pause(self._api, self.stream_name, self.name, until)

    async def resume(self) -> None:
        """End a pause. Server 2.11."""
        await consumers.pause(self._api, self.stream_name, self.name, None)

    async def reset(self, sequence: int | None = None) -> None:
        """Continue at this sequence of the stream, or after the last acknowledged one. Server 2.14."""
        await consumers.reset(self._api, self.stream_name, self.name, sequence)

    async def unpin(self, group: str) -> None:
        """Let another client of the priority group be pinned. Server 2.11."""
        await consumers.unpin(self._api, self.stream_name, self.name, group)

    def on_pin(self, listener: OnPin) -> Callable[[], None]:
        """Call `listener` with a `PinEvent` when this object gains or loses the pin of a priority group.

        That is noticed while it reads: the pin is gained with the first message, and lost when the server
        refuses a request because another client is pinned. Returns a function that removes the listener.
        With asyncio, the listener may be a coroutine function.
        """
        return self._pin_listeners.add(listener)

    def dead_letters(
        self, *, since: datetime | None = None, follow: bool = False, durable: str | None = None
    ) -> AsyncIterator[DeadLetter]:
        """The messages that it gave up; see `JetStream.dead_letters`."""
        return dead_letters(
            self._api, self.stream_name, self.name, since=since, follow=follow, durable=durable
        )

    # --- consuming

    async def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float = 5.0,
        idle_heartbeat: float | None = None,
        group: str | None = None,
        priority: int | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        timeout: float | None = None,
    ) -> Batch:
        """Up to `max_messages` messages, up to `max_bytes` bytes, or both; waits at most `expires` seconds.

        Returns as soon as it has all of them, else at expiry with those that arrived, possibly none. It asks
        for no more than the consumer's `max_batch` and `max_bytes` allow, as they were last seen. When the
        request fails after a message arrived, the error is `batch.error`; otherwise it is raised:
        `ConsumerDeleted`, `NoResponders`, `ExceededLimit` and others. It waits for a broken connection to
        come back. `timeout` is an alias of `expires`.
        """
        request = fetch_request(
            max_messages,
            max_bytes,
            expires=expires,
            timeout=timeout,
            idle_heartbeat=idle_heartbeat,
            group=self._group(group),
            priority=priority,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
        )
        return await self._fetch(request, None)

    async def fetch_no_wait(
        self,
        max_messages: int,
        *,
        max_bytes: int | None = None,
        group: str | None = None,
        priority: int | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
    ) -> Batch:
        """Up to `max_messages` of the messages that are available now, up to `max_bytes` bytes.

        An empty list when there are none.
        """
        request = no_wait_request(
            max_messages,
            max_bytes=max_bytes,
            group=self._group(group),
            priority=priority,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
        )
        return await self._fetch(request, self._api.timeout)

    async def next(
        self,
        expires: float = 5.0,
        *,
        idle_heartbeat: float | None = None,
        group: str | None = None,
        priority: int | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        timeout: float | None = None,
    ) -> JetStreamMsg | None:
        """The next message, or None if none arrives within `expires` seconds. Raises what `fetch` raises.

        `timeout` is an alias of `expires`.
        """
        batch = await self.fetch(
            1,
            expires=expires,
            timeout=timeout,
            idle_heartbeat=idle_heartbeat,
            group=group,
            priority=priority,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
        )
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        """An endless iterator over a buffer that refills itself. Enter it with `async with`.

        Args:
            max_messages: How many messages are buffered at most (500); large ones only up to 128 MiB, and no
                more than `max_batch` of the consumer.
            max_bytes: The limit in bytes instead; no more than `max_bytes` of the consumer.
            expires: Seconds that one pull request lives, at least 1 (30).
            idle_heartbeat: Seconds of silence after which the server sends a heartbeat, from 0.5 to 30 (half
                of `expires`). Two missed ones are reported, and it pulls again.
            threshold_messages, threshold_bytes: The amount pending at which more is asked for (half).
            group, priority, min_pending, min_ack_pending: For consumers with a priority policy.
            on_error: Called with errors that do not end it: missed heartbeats, a new leader, refused
                requests. By default they go to the connection's `on_error`.
        """
        return Messages(self._pull_buffer(options, on_error))

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        on_error: OnError | None = None,
        **options: Unpack[PullKeywords],
    ) -> Consuming:
        """Call `handler` with every message until it is stopped.

        Messages are handled one after the other in order, or up to `concurrency` at once. The handler
        acknowledges. When it raises, the error is reported, the message is returned with a nak, and consuming
        continues. The other options are those of `messages`. With asyncio, the handler may be a coroutine
        function.
        """
        check_count("concurrency", concurrency)
        buffer = self._pull_buffer(options, on_error)
        await buffer.start()
        return self._api.connection.class_of(Consuming)(buffer, handler, concurrency)

    # --- internals

    def _target(self) -> PullTarget:
        if self.config.is_push:
            raise ConsumerIsPush(
                f"{self.name} pushes to {self.config.deliver_subject!r}", hint="Use js.subscribe(...)"
            )
        # A consumer that was not looked up is never asked about: the account may have no right to.
        presence = None if self._info is None else self._presence
        return PullTarget.of(self._api, self.stream_name, self.name, self.config.ack_policy, presence)

    def _pull_buffer(self, options: PullKeywords, on_error: OnError | None) -> PullBuffer:
        options["group"] = group = self._group(options.get("group"))
        bounded = PullOptions(**options, bounds=self._bounds)
        return PullBuffer(self._target(), bounded, on_error, self._pin(group))

    def _group(self, group: str | None) -> str | None:
        """The group to pull in: the given one, or the only one of the consumer."""
        groups = self.config.priority_groups
        return groups[0] if group is None and len(groups) == 1 else group

    def _pin(self, group: str | None) -> Pin | None:
        """The pin in a group; None where no client is pinned."""
        pins = self._info is None or self.config.priority_policy == PriorityPolicy.PINNED_CLIENT
        if group is None or not pins:
            return None
        return self._pins.setdefault(group, Pin(self.stream_name, self.name, group, self._pin_listeners))

    async def _fetch(self, request: PullRequest, timeout: float | None) -> Batch:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (request.expires or timeout or 0.0)
        fetch = Fetch(
            self._target(),
            request,
            leftover=self._leftover,
            bounds=self._bounds,
            pin=self._pin(request.group),
        )
        try:
            return await fetch.run(timeout)
        except NoResponders:
            if self._info is None:
                raise
            if (deleted := await self._presence.deletion(deadline - loop.time())) is not None:
                raise deleted from deleted.__cause__
            raise


def described(api: API, info: ConsumerInfo) -> Consumer:
    """The consumer that the server has described."""
    return Consumer(api, info.stream_name, info.name, info)
