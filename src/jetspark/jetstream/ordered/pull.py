"""Ordered consumers: every message of a stream, once, in order, whatever the server does.

Behind one is a chain of short-lived pull consumers (`chain.py`), one at a time: no acknowledgements, one
replica, in memory. When a message is missing, or the consumer, its leader or the connection is lost, the next
consumer starts after the last message that arrived.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, Unpack

from jetspark.errors import BadRequest, ConnectionLost, Error, NoResponders, Timeout, UsageError
from jetspark.jetstream.api import API
from jetspark.jetstream.message.delivered import Batch, JetStreamMsg
from jetspark.jetstream.message.status import OnConsume, Status
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy, ReplayPolicy
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.ordered.chain import Chain, ChainState, is_final
from jetspark.jetstream.pull.buffer import BufferState, OnError, PullBuffer
from jetspark.jetstream.pull.fetch import Fetch
from jetspark.jetstream.pull.iterate import Consuming, Handler, Messages
from jetspark.jetstream.pull.options import PullKeywords, PullOptions, default_heartbeat
from jetspark.jetstream.pull.receiver import Leftover, RequestState
from jetspark.jetstream.pull.request import PullTarget, fetch_request, no_wait_request, shortened
from jetspark.jetstream.retry import Backoff
from jetspark.wire import MsgFrame
from jetspark.wire.subjects import check_name, text_list

__all__ = ["OrderedConsumer", "pull_buffer"]

#: ADR-17: the server deletes a consumer of the chain after so many seconds without use.
_INACTIVE_THRESHOLD: Final = 300.0
_HEARTBEAT: Final = 5.0


class OrderedConsumer:
    """Reads a stream from a point on, in order and without gaps. Made by `ordered_consumer`."""

    def __init__(
        self,
        api: API,
        stream: str,
        *,
        filter_subjects: Sequence[str] | str = (),
        deliver_policy: DeliverPolicy | str | None = None,
        opt_start_seq: int | None = None,
        opt_start_time: datetime | None = None,
        replay_policy: ReplayPolicy | str = ReplayPolicy.INSTANT,
        headers_only: bool = False,
        inactive_threshold: float = _INACTIVE_THRESHOLD,
        name_prefix: str | None = None,
    ) -> None:
        check_name(stream, "stream")
        prefix = check_name(name_prefix, "name_prefix") if name_prefix else f"ordered_{secrets.token_hex(6)}"
        subjects = text_list(filter_subjects, "filter_subjects")
        if deliver_policy is None:
            if opt_start_seq is not None and opt_start_time is not None:
                raise UsageError("opt_start_seq and opt_start_time exclude each other")
            deliver_policy = DeliverPolicy.ALL
            if opt_start_seq is not None:
                deliver_policy = DeliverPolicy.BY_START_SEQUENCE
            elif opt_start_time is not None:
                deliver_policy = DeliverPolicy.BY_START_TIME
        self._api = api
        self.stream_name = stream
        self._chain = Chain(
            api,
            stream,
            ConsumerConfig(
                ack_policy=AckPolicy.NONE,
                deliver_policy=deliver_policy,
                opt_start_seq=opt_start_seq,
                opt_start_time=opt_start_time,
                filter_subject=subjects[0] if len(subjects) == 1 else None,
                filter_subjects=subjects if len(subjects) > 1 else [],
                replay_policy=replay_policy,
                headers_only=headers_only,
                inactive_threshold=inactive_threshold,
                max_deliver=1,
                mem_storage=True,
                num_replicas=1,
            ),
            prefix,
        )
        self._target: PullTarget | None = None
        # How often the connection had been restored when that was created.
        self._reconnects = 0
        self._leftover = Leftover()

    @property
    def cached_info(self) -> ConsumerInfo | None:
        """The current consumer of the chain, as it was created; None without one."""
        return self._chain.info

    @property
    def last_sequence(self) -> int:
        """The last sequence of the stream that arrived; 0 before the first message."""
        return self._chain.last_sequence

    def __repr__(self) -> str:
        return f"<OrderedConsumer {self.stream_name} after {self.last_sequence}>"

    async def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float = 5.0,
        idle_heartbeat: float | None = None,
        timeout: float | None = None,
    ) -> Batch:
        """Up to `max_messages` messages, or `max_bytes` bytes of them, that arrive within `expires` seconds.

        The first message is the one after the last that was fetched, whatever happens to the consumer.
        `timeout` is an alias of `expires`.
        """
        request = fetch_request(
            max_messages, max_bytes, expires=expires, timeout=timeout, idle_heartbeat=idle_heartbeat
        )
        return await self._fetch(request, expires if timeout is None else timeout)

    async def fetch_no_wait(self, max_messages: int) -> Batch:
        """Up to `max_messages` messages that are available now; an empty list when there are none."""
        return await self._fetch(no_wait_request(max_messages), self._api.timeout)

    async def next(self, expires: float = 5.0, *, timeout: float | None = None) -> JetStreamMsg | None:
        """The next message, or None when none arrives within `expires` seconds.

        `timeout` is an alias of `expires`.
        """
        batch = await self.fetch(1, expires=expires, timeout=timeout)
        return batch[0] if batch else None

    def messages(self, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]) -> Messages:
        """An endless iterator over a buffer that refills itself. Options as for `Consumer.messages`."""
        return Messages(pull_buffer(self, options, on_error))

    async def consume(
        self, handler: Handler, *, on_error: OnError | None = None, **options: Unpack[PullKeywords]
    ) -> Consuming:
        """Call `handler` with every message, one after the other. Options as for `Consumer.consume`."""
        buffer = pull_buffer(self, options, on_error)
        await buffer.start()
        return self._api.connection.class_of(Consuming)(buffer, handler, concurrency=1)

    async def delete(self) -> None:
        """Delete the current consumer on the server. The next read creates another one.

        Raises nothing: while the server does not answer, it is deleted in the background, or by the server
        after `inactive_threshold`.
        """
        self._target = None
        await self._chain.delete()

    async def _fetch(self, request: PullRequest, seconds: float) -> Batch:
        """Fetch from the current consumer; after an error, or a loss, from the next one, if time is left."""
        self._chain.check_free()
        timing = self._chain.timing
        backoff = Backoff(seconds, first=timing.ordered_fetch_back_off)
        while True:
            try:
                async with asyncio.timeout(backoff.left + timing.ordered_fetch_grace):
                    target = await self._current_target(backoff.left)
                    if request.expires is not None:
                        request = request.replace(**shortened(request, max(backoff.left, 0.01)))
                    fetch = _OrderedFetch(target, request, leftover=self._leftover)
                    batch = await fetch.run(seconds)
            except Error as error:
                self._target = None
                # Not only transient errors: the next consumer of the chain may work where this one failed.
                if is_final(error):
                    raise
                if await backoff.pause():
                    continue
                if self._waits_for_connection(request):
                    return Batch()
                raise
            except TimeoutError:
                self._target = None
                if self._waits_for_connection(request):
                    return Batch()
                raise self._no_answer(seconds) from None
            frames, whole = self._chain.accept([message._frame for message in batch])
            if not whole or fetch.lost or batch.error is not None:
                self._target = None
            if frames or (whole and not fetch.lost):
                return Batch([JetStreamMsg(frame, self._api.connection, True) for frame in frames])
            if backoff.left <= 0:
                if request.expires is None:
                    raise self._no_answer(seconds)
                return Batch()

    async def _current_target(self, timeout: float) -> PullTarget:
        """The consumer to fetch from: the next one after a lost connection, which may have lost messages."""
        connection = self._api.connection
        while not connection.connected:
            self._target = None
            with suppress(ConnectionLost):
                await connection.flush(max(timeout, 0.0))
        if self._target is None or self._reconnects != connection.statistics.reconnects:
            self._leftover = Leftover()
            self._target = await self._chain.next_target()
            self._reconnects = connection.statistics.reconnects
        return self._target

    def _waits_for_connection(self, request: PullRequest) -> bool:
        """Whether nothing can have arrived before the request expired, and the next one may bring it."""
        return request.expires is not None and not self._api.connection.connected

    def _no_answer(self, seconds: float) -> Timeout:
        return Timeout(f"no consumer on {self.stream_name} answered within {seconds} s")


class _OrderedFetch(Fetch):
    """A fetch that ends when its request is lost: only the next consumer sends its messages again."""

    @property
    def lost(self) -> bool:
        """Whether messages may be lost that the server has sent."""
        return self._broken or self._state is RequestState.LEFT or self._state is RequestState.CLOSED

    _broken = False

    def disconnected(self) -> None:
        """Messages on their way are lost."""
        self._break()

    async def _on_silence(self) -> bool:
        """The request is lost, and perhaps messages with it."""
        self._break()
        return False

    def _break(self) -> None:
        self._broken = True
        self._finish(None)


def pull_buffer(consumer: OrderedConsumer, options: PullKeywords, on_error: OnError | None) -> PullBuffer:
    """The buffer behind `messages` and `consume` of an ordered consumer, not started."""
    for option in ("group", "priority", "min_pending", "min_ack_pending"):
        if options.get(option) is not None:
            raise UsageError(
                f"{option} is not for ordered consumers: clients do not share them", hint="Omit the argument"
            )
    consumer._chain.check_free()
    consumer._target = None
    options.setdefault("idle_heartbeat", min(_HEARTBEAT, default_heartbeat(options.get("expires", 30.0))))
    return _OrderedBuffer(consumer._chain, PullOptions(**options), on_error)


class _OrderedBuffer(PullBuffer):
    """A pull buffer that a chain drives: instead of asking the same consumer again, it takes the next one."""

    def __init__(self, chain: Chain, options: PullOptions, on_error: OnError | None) -> None:
        target = PullTarget(chain.connection, "", AckPolicy.NONE, timing=chain.timing)
        super().__init__(target, options, on_error)
        self._chain = chain

    async def start(self) -> None:
        """Create the first consumer. Raises the errors of that."""
        await self._chain.begin(self)
        if self.wants_more:  # Otherwise it was stopped meanwhile.
            await super().start()

    def _expecting(self) -> bool:
        # A reader that stops does not wait for messages in flight: the next reader requests them again.
        return self.state is not BufferState.STOPPING and super()._expecting()

    # --- for the session

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Drop messages of old consumers; restart the chain when something is missing."""
        super().deliver(frames)
        if self._chain.state is ChainState.BROKEN:
            self._restart()

    def _take_in(self, frames: list[MsgFrame]) -> None:
        accepted, _ = self._chain.accept(frames)
        if accepted:
            super()._take_in(accepted)

    def reconnected(self) -> None:
        """Continue with the next consumer at once: the last one may be gone with its server."""
        self._chain.works()
        super().reconnected()

    def _on_status(self, status: Status, token: int) -> None:
        gone = status.on_consume is OnConsume.END or isinstance(status.error, NoResponders)
        if gone and not isinstance(status.error, BadRequest):
            if self._accounting.ended(token, None):
                self._restart()
        else:
            self._chain.works()
            super()._on_status(status, token)

    def _restart(self) -> None:
        self._forget()
        if self.wants_more and not self._chain.advancing:
            self._chain.restart()

    def _ask(self) -> None:
        if self._chain.state is ChainState.READING:
            super()._ask()

    def _give_back(self) -> None:
        """The next reader continues with the unread messages."""
        if self._unread:
            self._chain.rewind(self._unread[0])
            self._unread.clear()

    def finish(self, error: Error | None) -> None:
        """End with this error; the chain is free for another reader."""
        super().finish(error)
        self._chain.end(self)

    # --- for the chain

    @property
    def wants_more(self) -> bool:
        """Whether it still asks for messages."""
        return self.state is BufferState.RUNNING

    async def read_next_consumer(self) -> None:
        """Pull from the next consumer of the chain."""
        self.target = await self._chain.next_target()

    def resumed(self) -> None:
        """Ask the new consumer."""
        self._ask()
