"""Subscriptions to the events of JetStream, which arrive as typed objects.

`model/advisories.py` defines the events. They are plain messages: events that are published without a
subscriber, or while the connection is down, are lost. A stream can capture them; `dead_letters.py` reads it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final, Self

from jetspark.core.connection import Connection
from jetspark.core.events import Event
from jetspark.core.receiver import Receiver
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionLost, Error, RemoteProtocolError, SlowConsumer, UsageError
from jetspark.jetstream.model.advisories import ADVISORIES, Advisory, AdvisoryKind, parse_advisory
from jetspark.jetstream.retry import Backoff
from jetspark.wire import MsgFrame
from jetspark.wire.subjects import check_filter, check_name, text_list

__all__ = ["CAPTURED_SUBJECT", "Advisories", "advisory_subjects", "parse_or_report"]

#: The subjects of a stream that captures advisories.
CAPTURED_SUBJECT: Final = "$JS.EVENT.ADVISORY.>"
#: Most events that wait to be read by default; further ones are dropped and reported.
_LIMIT: Final = 64 * 1024

# The subjects without `kinds`: wildcards, so that events of newer servers arrive too.
_EVERYTHING: Final = ("$JS.EVENT.ADVISORY.>", "$JS.EVENT.METRIC.>")
_OF_A_STREAM: Final = (
    "$JS.EVENT.ADVISORY.*.*.{stream}",
    "$JS.EVENT.ADVISORY.*.*.{stream}.>",
    "$JS.EVENT.METRIC.*.*.{stream}.>",
)
_OF_A_CONSUMER: Final = (
    "$JS.EVENT.ADVISORY.*.*.{stream}.{consumer}",
    "$JS.EVENT.METRIC.*.*.{stream}.{consumer}",
)


def advisory_subjects(
    kinds: Iterable[str | type[Advisory]] | None, stream: str | None, consumer: str | None
) -> list[str]:
    """The subjects of these events. Raises `UsageError` for unknown kinds, and kinds without such a name."""
    if stream is not None:
        check_name(stream, "stream")
    if consumer is not None:
        check_name(consumer, "consumer")
    if kinds is None:
        patterns: tuple[str, ...] = _EVERYTHING
        if consumer is not None:
            patterns = _OF_A_CONSUMER
        elif stream is not None:
            patterns = _OF_A_STREAM
        return [pattern.format(stream=stream or "*", consumer=consumer) for pattern in patterns]
    subjects: dict[str, None] = {}
    for kind in [kinds] if isinstance(kinds, type) else text_list(kinds, "kinds"):
        row = _row(kind)
        for name, value in (("stream", stream), ("consumer", consumer)):
            if value is not None and f"{{{name}}}" not in row.patterns[0]:
                raise UsageError(f"kinds: {row.kind} is not about a {name}, but {name}={value!r} was given")
        subjects |= dict.fromkeys(row.subjects(stream or "*", consumer or "*"))
    if not subjects:
        raise UsageError("kinds must not be empty; None stands for all")
    return list(subjects)


def _row(kind: object) -> AdvisoryKind:
    for row in ADVISORIES.values():
        if kind in (row.kind, row.event):
            return row
    raise UsageError(f"kinds: unknown kind {kind!r}", hint=f"Known kinds: {', '.join(ADVISORIES)}")


def parse_or_report(connection: Connection, data: bytes) -> Advisory | None:
    """The event, or None after reporting an invalid one: any client may publish on these subjects."""
    try:
        return parse_advisory(data)
    except RemoteProtocolError as error:
        connection.report(error)
        return None


class Advisories:
    """Events as they happen: `async with js.advisories() as events: async for event in events: ...`."""

    def __init__(self, connection: Connection, subjects: list[str], *, limit: int = _LIMIT) -> None:
        self._connection = connection
        self._limit = limit
        self._receivers = [_Inlet(self, connection.session.new_sid(), each) for each in subjects]
        self._pending: deque[MsgFrame] = deque()
        self._arrived = Signal()
        self._dropped = 0
        self._closed = True
        self._error: Error | None = None

    @property
    def subjects(self) -> list[str]:
        """The subjects of its subscriptions."""
        return [receiver.subject_filter.decode() for receiver in self._receivers]

    @property
    def dropped(self) -> int:
        """Events that were dropped because too many waited to be read."""
        return self._dropped

    async def __aenter__(self) -> Self:
        self._closed = False
        for receiver in self._receivers:
            self._connection.session.add(receiver)
        try:
            await self._subscribed()
        except BaseException:
            self._stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Advisory:
        if (event := await self.next()) is None:
            raise StopAsyncIteration
        return event

    async def next(self, timeout: float | None = None) -> Advisory | None:
        """The next event; None if none arrives within `timeout` seconds, or after the context was left.

        Raises the error that closed the connection, and `PermissionsViolation`.
        """
        loop = asyncio.get_running_loop()
        # One for all waits: any client may publish invalid events, which are skipped.
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            while not self._pending:
                if self._error is not None:
                    raise self._error
                left = None if deadline is None else deadline - loop.time()
                if self._closed or not await self._arrived.wait(left):
                    return None
            if event := parse_or_report(self._connection, self._pending.popleft().data):
                return event

    async def _subscribed(self) -> None:
        """Wait until the server has the subscriptions: it misses no event from then on."""
        backoff = Backoff(self._connection.options.request_timeout)
        while True:
            try:
                return await self._connection.flush(backoff.left)
            except ConnectionLost:
                continue

    def _stop(self) -> None:
        self._closed = True
        for receiver in self._receivers:
            self._connection.session.unsubscribe(receiver)
            self._connection.session.forget(receiver)
        self._pending.clear()
        self._arrived.wake()

    def take(self, frames: list[MsgFrame], subject: str) -> None:
        """Queue the frames of one subject."""
        room = max(self._limit - len(self._pending), 0)
        self._pending.extend(frames[:room])
        if len(frames) > room:
            if not self._dropped:
                self._connection.report(
                    SlowConsumer(
                        f"{self._limit} advisories wait to be read; further ones are dropped",
                        subject=subject,
                        dropped=len(frames) - room,
                        hint="Read faster, or ask for fewer kinds",
                    ),
                    Event.SLOW_CONSUMER,
                )
            self._dropped += len(frames) - room
        self._arrived.wake()

    def end(self, error: Error | None) -> None:
        """No more events will arrive."""
        self._closed = True
        self._error = self._error or error
        self._arrived.wake()


class _Inlet(Receiver):
    """The subscription to one of the subjects."""

    def __init__(self, advisories: Advisories, sid: bytes, subject: str) -> None:
        super().__init__(sid, check_filter(subject))
        self._advisories = advisories

    def deliver(self, frames: list[MsgFrame]) -> None:
        """Pass the frames on."""
        self._advisories.take(frames, self.subject_filter.decode())

    def closed(self, error: Error | None) -> None:
        """No more events will arrive."""
        self._advisories.end(error)
