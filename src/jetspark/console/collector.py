"""Polls the server for all browser tabs together, and keeps what they show.

Streams are listed in pages, every two seconds while a tab is open; many pages take longer. Consumers are
listed stream by stream, one request after the other at an even pace; those of a stream whose page is open are
listed every time. So the cost is bounded: beyond some hundred streams, the figures get older instead.
Without an open tab, fewer requests keep the charts going.

`errors` has the parts that could not be read; the rest continues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, Self

from jetspark.console.listing import (
    ConsumerPage,
    ListedConsumer,
    ListedStream,
    StreamPage,
    list_consumers,
    list_streams,
)
from jetspark.console.reports import Reports, read_reports
from jetspark.console.series import Meter, Series
from jetspark.core.signal import Signal
from jetspark.errors import ConnectionClosed, Error, StreamNotFound
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import AccountInfo
from jetspark.logs.control.switch import CONTROL_STREAM, AgentReport, Switch
from jetspark.reports.jobs import JobReport

__all__ = ["Collector", "Pace", "WatchedAgent", "WatchedConsumer", "WatchedStream"]

logger = logging.getLogger("jetspark")

#: Seconds between two pages of streams.
_PAGE_WAIT: Final = 0.5
#: Seconds for which a request from outside, such as a scrape, counts as an open tab.
_TOUCH: Final = 60.0
#: Entries that are kept at most, and series of the past.
_STREAMS: Final = 20_000
_CONSUMERS: Final = 50_000
_SERIES: Final = 5_000


class Pace(NamedTuple):
    """How often the server is asked."""

    #: Seconds between two lists of the streams, and requests a second, with an open tab and without.
    interval: float = 2.0
    rate: float = 25.0
    idle_interval: float = 15.0
    idle_rate: float = 5.0
    #: Seconds between two looks at the account.
    account: float = 10.0


class WatchedConsumer:
    """A consumer: as it was listed last, and over time."""

    __slots__ = ("delivered", "history", "listed")

    def __init__(self, listed: ListedConsumer, now: float, history: Series | None) -> None:
        self.listed = listed
        self.delivered = Meter(now, listed.delivered.consumer_seq)
        #: Deliveries, pending messages, messages in flight, redelivered ones; None if there are too many
        #: series.
        self.history = history

    def take(self, listed: ListedConsumer, now: float) -> None:
        """Replace what was listed before."""
        self.listed = listed
        count = listed.delivered.consumer_seq
        self.delivered.read(now, count)
        if self.history is not None:
            self.history.add(now, count, listed.num_pending, listed.num_ack_pending, listed.num_redelivered)


class WatchedStream:
    """A stream: as it was listed last, its consumers, and over time."""

    __slots__ = ("consumers", "history", "listed", "seen", "stored")

    def __init__(self, listed: ListedStream, now: float, history: Series | None) -> None:
        self.listed = listed
        self.consumers: dict[str, WatchedConsumer] = {}
        self.stored = Meter(now, listed.state.last_seq)
        #: Last sequence, messages, bytes. None if there are too many series.
        self.history = history
        #: The pass in which it was listed.
        self.seen = 0

    def take(self, listed: ListedStream, now: float) -> None:
        """Replace what was listed before."""
        self.listed = listed
        state = listed.state
        self.stored.read(now, state.last_seq)
        if self.history is not None:
            self.history.add(now, state.last_seq, state.messages, state.bytes)


class WatchedAgent:
    """An agent: its last report, and over time."""

    __slots__ = ("history", "lines", "report")

    def __init__(self, report: AgentReport) -> None:
        self.report = report
        self.lines = Meter(_moment(report), report.lines)
        #: Lines, bytes behind.
        self.history = Series(2)

    def take(self, report: AgentReport) -> None:
        """Replace the report before."""
        self.report = report
        self.lines.read(_moment(report), report.lines)
        self.history.add(_moment(report), report.lines, report.behind)


def _moment(report: AgentReport) -> float:
    return report.heard.timestamp() if report.heard is not None else 0.0


class _Watcher(NamedTuple):
    update: Callable[[], None]
    stream: str | None


class Collector:
    """What the pages show. Enter it with `async with`; it polls until it is left."""

    def __init__(self, js: JetStream, *, pace: Pace | None = None) -> None:
        self.js = js
        self.streams: dict[str, WatchedStream] = {}
        self.account: AccountInfo | None = None
        self.switch = Switch()
        self.agents: dict[str, WatchedAgent] = {}
        self.jobs: dict[str, JobReport] = {}
        #: Stored messages, pending messages, lines of agents, rows of jobs; the first, third and fourth are
        #: counters that never shrink.
        self.totals = Series(4)
        #: What cannot be read, and why.
        self.errors: dict[str, str] = {}
        #: Streams on the server, if there are more than are kept.
        self.stream_total = 0
        #: Streams that no leader answered for.
        self.missing: list[str] = []
        #: Requests sent so far.
        self.requests = 0
        #: Passes over all streams, and over all consumers.
        self.passes = 0
        self.consumer_passes = 0
        self._pace = Pace() if pace is None else pace
        self._consumer_count = 0
        self._stored = self._lines = self._rows = 0.0
        self._watchers: list[_Watcher] = []
        self._touched = -_TOUCH
        self._watched = Signal()
        self._next_request = 0.0
        self._account_at = -self._pace.account
        self._listed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        polls = (self._poll_streams, self._poll_consumers, self._poll)
        self._tasks = [asyncio.create_task(self._repeat(poll), name="jetspark-console") for poll in polls]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def consumers(self) -> Iterator[WatchedConsumer]:
        """The consumers of all streams."""
        return (consumer for stream in self.streams.values() for consumer in stream.consumers.values())

    @property
    def watched(self) -> bool:
        """Whether a tab is open, or a scrape counts as one."""
        return bool(self._watchers) or time.monotonic() - self._touched < _TOUCH

    def watch(self, update: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """Call `update` after every poll, with new figures of the consumers of `stream`. Returns its end."""
        watcher = _Watcher(update, stream)
        self._watchers.append(watcher)
        self._watched.wake()

        def unwatch() -> None:
            with suppress(ValueError):
                self._watchers.remove(watcher)

        return unwatch

    def touch(self) -> None:
        """Poll as if a tab were open, for a while."""
        was = self.watched
        self._touched = time.monotonic()
        if not was:
            self._watched.wake()

    async def refresh(self) -> None:
        """Poll what is looked at now, after something was changed."""
        await self._poll()

    # --- polling

    async def _repeat(self, poll: Callable[[], Awaitable[None]]) -> None:
        # The streams come first: all else is about them.
        if poll != self._poll_streams:
            await self._listed.wait()
        while True:
            began = time.monotonic()
            try:
                await poll()
            except ConnectionClosed as error:
                self.errors["server"] = str(error)
                self._update_pages()
                return
            except Exception:  # The console continues: the cause may be temporary.
                logger.exception("the console cannot poll")
            # At once when a tab is opened, otherwise after the interval.
            while (left := began + self._interval - time.monotonic()) > 0:
                await self._watched.wait(left)

    @property
    def _interval(self) -> float:
        return self._pace.interval if self.watched else self._pace.idle_interval

    async def _take_turn(self) -> None:
        """Wait for the turn of the next request."""
        now = time.monotonic()
        turn = max(self._next_request, now)
        self._next_request = turn + 1 / (self._pace.rate if self.watched else self._pace.idle_rate)
        self.requests += 1
        if turn > now:
            await asyncio.sleep(turn - now)

    @asynccontextmanager
    async def _reading(self, part: str) -> AsyncIterator[None]:
        """Report what a part cannot read. A closed connection ends everything."""
        try:
            yield
        except ConnectionClosed:
            raise
        except Error as error:
            self.errors[part] = str(error)
        else:
            self.errors.pop(part, None)

    async def _poll(self) -> None:
        """Read what every poll reads, then update the pages."""
        await self._poll_account()
        await self._poll_control()
        for name in {watcher.stream for watcher in self._watchers if watcher.stream is not None}:
            if (stream := self.streams.get(name)) is not None:
                async with self._reading("consumers"):
                    await self._list_consumers(stream)
        pending = sum(consumer.listed.num_pending for consumer in self.consumers())
        self.totals.add(time.time(), self._stored, pending, self._lines, self._rows)
        self._update_pages()

    def _update_pages(self) -> None:
        for watcher in list(self._watchers):
            try:
                watcher.update()
            except Exception:  # The other pages continue.
                logger.exception("a page of the console cannot be updated")

    async def _poll_streams(self) -> None:
        async with self._reading("streams"):
            await self._list_streams()
        self._listed.set()

    async def _list_streams(self) -> None:
        offset = 0
        missing: set[str] = set()
        while True:
            if offset and self.passes:
                # The server sorts all its streams for each page.
                await asyncio.sleep(_PAGE_WAIT)
            await self._take_turn()
            page = await list_streams(self.js.api, offset)
            now = time.time()
            for listed in page.streams or ():
                self._take_stream(listed, now)
            missing.update(page.missing or ())
            step = _step(page, len(page.streams or ()) + len(page.missing or ()))
            offset += step
            if not step or offset >= min(page.total, _STREAMS):
                break
        self.stream_total = page.total
        self.missing = sorted(missing)
        self.passes += 1
        # Twice: what moved to another page meanwhile is missed once.
        late = (name for name, stream in self.streams.items() if stream.seen < self.passes - 1)
        for name in [name for name in late if name not in missing]:
            del self.streams[name]

    def _take_stream(self, listed: ListedStream, now: float) -> None:
        stream = self.streams.get(listed.name)
        if stream is None or stream.listed.created != listed.created:
            if stream is None and len(self.streams) >= _STREAMS:
                return
            stream = self.streams[listed.name] = WatchedStream(listed, now, self._series(3))
        self._stored += max(listed.state.last_seq - stream.listed.state.last_seq, 0)
        stream.take(listed, now)
        stream.seen = self.passes + 1

    async def _poll_consumers(self) -> None:
        async with self._reading("consumers"):
            for stream in list(self.streams.values()):
                if stream.listed.state.consumer_count:
                    await self._list_consumers(stream)
                else:
                    stream.consumers.clear()
            self._consumer_count = sum(1 for _ in self.consumers())
            self.consumer_passes += bool(self.passes)

    async def _list_consumers(self, stream: WatchedStream) -> None:
        offset = 0
        found: set[str] = set()
        while True:
            await self._take_turn()
            try:
                page = await list_consumers(self.js.api, stream.listed.name, offset)
            except StreamNotFound:
                break
            now = time.time()
            for listed in page.consumers or ():
                found.add(listed.name)
                self._take_consumer(stream, listed, now)
            found.update(page.missing or ())
            step = _step(page, len(page.consumers or ()) + len(page.missing or ()))
            offset += step
            if not step or offset >= min(page.total, _CONSUMERS):
                break
        for name in stream.consumers.keys() - found:
            del stream.consumers[name]

    def _take_consumer(self, stream: WatchedStream, listed: ListedConsumer, now: float) -> None:
        consumer = stream.consumers.get(listed.name)
        if consumer is None or consumer.listed.created != listed.created:
            if consumer is None and self._consumer_count >= _CONSUMERS:
                return
            self._consumer_count += consumer is None
            consumer = stream.consumers[listed.name] = WatchedConsumer(listed, now, self._series(4))
        consumer.take(listed, now)

    def _series(self, columns: int) -> Series | None:
        few = len(self.streams) + self._consumer_count < _SERIES
        return Series(columns) if few else None

    async def _poll_account(self) -> None:
        now = time.monotonic()
        if now - self._account_at < self._pace.account:
            return
        self._account_at = now
        async with self._reading("account"):
            await self._take_turn()
            self.account = await self.js.account_info()

    async def _poll_control(self) -> None:
        if CONTROL_STREAM not in self.streams:
            self._take_reports(Reports(Switch(), [], []))
            return
        async with self._reading("reports"):
            await self._take_turn()
            self.requests += 1  # The info of the stream, then the messages.
            with suppress(StreamNotFound):
                self._take_reports(await read_reports(self.js))

    def _take_reports(self, reports: Reports) -> None:
        self.switch = reports.switch
        agents: dict[str, WatchedAgent] = {}
        for report in reports.agents:
            agent = agents[report.name] = self.agents.get(report.name) or WatchedAgent(report)
            self._lines += _grown(agent.report.lines, report.lines)
            agent.take(report)
        self.agents = agents
        for job in reports.jobs:
            self._rows += _grown(self.jobs[job.name].rows if job.name in self.jobs else job.rows, job.rows)
        self.jobs = {job.name: job for job in reports.jobs}


def _grown(before: int, now: int) -> int:
    """How far a counter came. One that shrinks has begun again at 0."""
    return now - before if now >= before else now


def _step(page: StreamPage | ConsumerPage, entries: int) -> int:
    """Entries from the start of this page to that of the next; 0 at the end."""
    return max(page.limit or entries, 1) if entries else 0
