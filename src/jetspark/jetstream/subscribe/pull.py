"""A pull subscription of the classic API: `fetch`, which raises `Timeout` when no message arrives.

It counts the fetches that wait, ends them, and gives messages that no fetch handed out back to the server.
How one fetch works is in `classic_fetch.py`.
"""

from __future__ import annotations

import asyncio
import enum
from typing import Self

from jetspark.core.numbers import check_count, check_seconds
from jetspark.core.signal import Signal
from jetspark.errors import Error, NoResponders, SubscriptionClosed, Timeout
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.manage.ownership import Ownership
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.message.delivered import Batch
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.jetstream.on_error import Reporter
from jetspark.jetstream.pull.receiver import Leftover
from jetspark.jetstream.pull.request import PullTarget
from jetspark.jetstream.subscribe.classic_fetch import ClassicFetch, FetchOne

__all__ = ["PullSubscription"]


class _State(enum.Enum):
    """Where a pull subscription stands."""

    OPEN = enum.auto()
    #: Fetches that have begun continue; no other one begins.
    DRAINING = enum.auto()
    #: Nothing is asked any more.
    CLOSED = enum.auto()


class PullSubscription:
    """A subscription to a pull consumer. Made by `js.pull_subscribe`."""

    def __init__(
        self, api: API, stream: str, name: str, info: ConsumerInfo | None, *, created: bool, keep: bool
    ) -> None:
        self._api = api
        self._stream = stream
        self._name = name
        policy = AckPolicy.EXPLICIT if info is None else info.config.ack_policy
        self._presence = Presence(api, stream, name)
        # A consumer that was only named may not exist yet.
        self._existed = info is not None
        self._target = PullTarget.of(api, stream, name, policy, self._presence)
        self._ownership: Ownership | None = None
        if info is not None:
            notify = Reporter(api.connection, None).notify
            self._ownership = Ownership(api, info, created=created, keep=keep, notify=notify)
        self._leftover = Leftover()
        self._one = FetchOne(self._target, self._leftover)
        # How many fetches wait, and the signal that one has ended.
        self._fetching = 0
        self._fetched = Signal()
        self._running: set[ClassicFetch] = set()
        self._state = _State.OPEN

    @property
    def stream_name(self) -> str:
        """Name of the stream."""
        return self._stream

    @property
    def consumer_name(self) -> str:
        """Name of the consumer."""
        return self._name

    @property
    def active(self) -> bool:
        """Whether `fetch` can still be called."""
        return self._state is _State.OPEN

    @property
    def pending_msgs(self) -> int:
        """Messages that cancelled fetches left over; the next fetch returns them."""
        return len(self._leftover.frames)

    async def consumer_info(self) -> ConsumerInfo:
        """State and configuration of the consumer. Raises `ConsumerNotFound`."""
        return await consumers.info(self._api, self._stream, self._name)

    def __repr__(self) -> str:
        return f"<PullSubscription {self._stream} > {self._name}>"

    async def fetch(self, batch: int = 1, timeout: float = 5.0, *, expires: float | None = None) -> Batch:
        """Up to `batch` messages: those that are available, else those that arrive within `timeout` seconds.

        Returns as soon as it has all of them, at the latest after `timeout` with those that arrived; an error
        that ended it early is `batch.error`. Without any message it raises `Timeout`, or the error of the
        server, such as `ExceededLimit`, `BadRequest`, `ConsumerDeleted`, `LeadershipChanged`,
        `NoResponders`. It waits for a broken connection to come back. The next fetch returns the messages
        that a cancelled one had received. `expires` is an alias of `timeout`.
        """
        option, timeout = ("timeout", timeout) if expires is None else ("expires", expires)
        check_count("batch", batch)
        check_seconds(option, timeout, endless=False)
        if not self.active:
            raise self._refusal()
        self._fetching += 1
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            fetched = await self._fetch(batch, timeout)
            self._existed = True
            return fetched
        except NoResponders:
            left = deadline - asyncio.get_running_loop().time()
            if self._existed and (deleted := await self._presence.deletion(left)) is not None:
                raise deleted from deleted.__cause__
            raise
        finally:
            self._fetching -= 1
            self._fetched.wake()

    async def _fetch(self, batch: int, timeout: float) -> Batch:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._leftover.settle(timeout)
        self._check_not_closed()  # Before it takes messages: what is left over goes back to the server.
        frames = self._leftover.take(batch, None)
        if len(frames) == batch:
            return Batch(self._target.messages(frames))
        self._target.check_open()
        error: Error | None = None
        try:
            at_once = batch > 1
            if not at_once and (found := await self._one.ask(deadline)) is not None:
                frames = [found]
        except TimeoutError:
            pass
        if len(frames) < batch and loop.time() < deadline:
            self._check_not_closed()
            fetch = ClassicFetch(self._target, batch - len(frames), self._leftover, at_once=at_once)
            self._running.add(fetch)
            try:
                frames += await fetch.run(deadline)
            except BaseException:
                self._leftover.frames.extendleft(reversed(frames))
                raise
            finally:
                self._running.discard(fetch)
            error = fetch.error
        if frames:
            return Batch(self._target.messages(frames), error)
        raise error or Timeout(
            f"no message of {self._stream} > {self._name} within {timeout} s",
            hint="No message is available, or max_ack_pending messages wait for acknowledgement",
        )

    # --- ending

    async def unsubscribe(self) -> None:
        """Stop at once, then delete the consumer if this subscription created it, unless `keep_consumer`.

        Waiting fetches raise `SubscriptionClosed`; messages that no fetch returned go back to the server.
        Raises the errors of deleting.
        """
        await self._end()
        if self._ownership is not None:
            await self._ownership.delete()

    async def drain(self) -> None:
        """Let waiting fetches finish, then delete the consumer as `unsubscribe` does.

        Errors of deleting go to the error callback. Raises `Timeout` after the connection's `drain_timeout`.
        """
        if not self.active:
            return
        self._state = _State.DRAINING
        seconds = self._api.connection.options.drain_timeout
        finished = await self._wait_for_fetches(seconds)
        await self._end()
        if not finished:
            raise Timeout(f"a fetch did not end within {seconds} s", hint="Raise drain_timeout")
        if self._ownership is not None:
            await self._ownership.delete_quietly()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.unsubscribe()

    async def _end(self) -> None:
        """End waiting fetches, and return left-over messages to the server."""
        self._state = _State.CLOSED
        for fetch in list(self._running):
            fetch.end(self._refusal())
        self._one.end(self._refusal())
        await self._wait_for_fetches(self._api.timeout)
        await self._leftover.settle(self._api.timeout)
        frames = self._leftover.take(len(self._leftover.frames), None)
        self._target.give_back(frames)

    async def _wait_for_fetches(self, timeout: float) -> bool:
        """Wait for all fetches to end. False when `timeout` seconds passed first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._fetching and await self._fetched.wait(deadline - loop.time()):
            pass
        return not self._fetching

    def _check_not_closed(self) -> None:
        if self._state is _State.CLOSED:
            raise self._refusal()

    def _refusal(self) -> SubscriptionClosed:
        return SubscriptionClosed(f"the subscription to {self._stream} > {self._name} is closed")
