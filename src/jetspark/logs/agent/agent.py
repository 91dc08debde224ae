"""The agent: follows files, ships their lines, remembers how far it has come.

```
files --> lines --> messages --> window --> stream
  ^                                |
  '---- positions, on disk <-------'  when the stream has them
```

A line is stored once: its id is that of its file and its offset. What the stream has behind the positions,
because the agent died before it could note it or a row was refused in the middle, is read back and not sent
again (`stored_ids.py`); where it cannot be read back the stream drops it, as long as its `duplicate_window`
lasts. Order per host holds: there is one row of messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from jetspark.errors import ConnectionClosed, Error
from jetspark.jetstream.context import JetStream
from jetspark.logs.agent.discovery import WatchedFiles
from jetspark.logs.agent.file import TailedFile
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.positions import Positions
from jetspark.logs.agent.reader import Harvest
from jetspark.logs.agent.report import AgentStatus, Reporter
from jetspark.logs.agent.send_queue import Outbound
from jetspark.logs.agent.stdin import StandardInput
from jetspark.logs.agent.stored_ids import StoredIds
from jetspark.logs.compression import compressor
from jetspark.logs.control.watcher import Gate
from jetspark.logs.format.message import Envelope

__all__ = ["Agent", "AgentStatus"]

#: Lines that are sent between two looks at the switch.
_PIECE: Final = 256
#: Seconds before a row that failed is sent again.
_FIRST_WAIT: Final = 0.5
_LAST_WAIT: Final = 10.0
#: Seconds without an acknowledgement that are worth a word.
_SILENCE: Final = 30.0
#: Seconds that work without anything under way gets to come to an end.
_MOMENT: Final = 0.5
#: How often it is tried to read back what the stream has.
_TRIES: Final = 3
#: Bytes of headers, at most; the payload must leave room for them.
_HEADERS: Final = 16 * 1024


class Agent:
    """Ships lines until it is told to stop. `run` it once.

    `tell` is called with remarks for the operator: a file that was truncated, a stream that refuses.
    """

    def __init__(self, js: JetStream, options: ShipOptions, tell: Callable[[str], None]) -> None:
        self._js = js
        self._options = options
        self._tell = tell
        self._positions = Positions(options.positions)
        self._watched = WatchedFiles(
            options.patterns,
            self._positions,
            exclude=options.exclude,
            from_end=options.from_end,
            close_after=options.close_after,
            tell=tell,
        )
        self._harvest = Harvest(self._watched, once=options.once)
        self._compress = compressor(options.compress) if options.compress else None
        self._gate = Gate(js, tell)
        self._reporter = Reporter(js, options, self.status, self._gate)
        self._known = StoredIds(js, options)
        self._row = Outbound(js, options, self._known)
        self._input = None if options.patterns else StandardInput(lambda: self._line_limit)
        # Counts of rows before this one.
        self._lines = self._bytes = self._duplicates = 0
        self._stopping = asyncio.Event()
        #: When it ends whatever is under way, by the monotonic clock.
        self._deadline = 0.0
        self._saving = asyncio.Lock()
        self._told_unreadable = False
        self._last_status: AgentStatus | None = None

    def stop(self) -> None:
        """Read no more; `run` returns when what is under way is stored."""
        if not self._stopping.is_set():
            self._deadline = time.monotonic() + self._options.grace
        self._stopping.set()
        self._gate.changed.wake()
        if self._input is not None:
            self._input.close()

    def status(self) -> AgentStatus:
        """How it stands."""
        if self._last_status is not None:
            return self._last_status
        self._row.settle()
        files = list(self._watched.files.values())
        behind = 0
        for file in files:
            with suppress(OSError):
                behind += file.behind()
        return AgentStatus(
            state="paused" if self._gate.closed and self._row.idle else "shipping",
            host=self._options.host,
            subject=self._options.subject,
            files=len(files),
            lines=self._lines + self._row.lines,
            bytes=self._bytes + self._row.bytes,
            duplicates=self._duplicates + self._row.duplicates,
            under_way=self._row.under_way,
            behind=behind,
        )

    async def run(self) -> None:
        """Ship until `stop`; with `once` until everything is stored.

        Raises what cannot pass: positions that are in use, no permission; with `once` also what might.
        """
        try:
            if self._options.patterns:
                self._positions.load()
                self._known.since = self._positions.since
            # From the beginning, whatever else has to be waited for: a file that is open cannot get lost.
            self._watched.take(await asyncio.to_thread(self._watched.look))
            looking = asyncio.create_task(self._look_now_and_then(), name="jetspark-files")
            saver = asyncio.create_task(self._save_now_and_then(), name="jetspark-positions")
            try:
                if self._options.control:
                    await self._until_stopping(self._watch_the_switch())
                await self._ship_until_stopped(looking)
            finally:
                self.stop()
                saver.cancel()
                await asyncio.wait((saver, looking), timeout=_MOMENT)
                looking.cancel()
                self._row.abandon()
                for file in self._watched.files.values():
                    file.note()
                await self._save(force=True)
                self._last_status = msgspec.structs.replace(self.status(), state="stopped")
                await self._reporter.stop()
                await self._gate.stop()
        finally:
            self._row.abandon()
            self._watched.close()
            self._positions.close()

    async def _watch_the_switch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._gate.start()
            except Error as error:
                if self._options.once or not error.transient:
                    raise
                self._tell(f"the pause switch cannot be read yet: {error}")
                await self._pause(_FIRST_WAIT)
            else:
                self._reporter.start()
                return

    async def _look_now_and_then(self) -> None:
        while not self._stopping.is_set():
            await self._pause(self._options.poll)
            self._watched.take(await asyncio.to_thread(self._watched.look))

    # --- shipping

    async def _ship_until_stopped(self, looking: asyncio.Task[None]) -> None:
        wait = _FIRST_WAIT
        while True:
            lines = self._row.lines
            try:
                await self._until_stopping(self._ship(looking))
                await self._finish()
                return
            except Error as error:
                if self._options.once or self._stopping.is_set() or self._js.connection.closed:
                    raise
                if self._input is not None:
                    raise  # What was read of it cannot be read again.
                self._tell(f"the stream does not take lines, they are shipped again: {error}")
            wait = _FIRST_WAIT if self._row.lines > lines else min(2 * wait, _LAST_WAIT)
            self._begin_row()
            await self._pause(wait)
            if self._stopping.is_set():
                return

    async def _until_stopping(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; when told to stop, let it come to an end, for as long as something is under way."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            moment = min(time.monotonic() + _MOMENT, self._deadline)
            while not task.done():
                if time.monotonic() >= (self._deadline if self._row.under_way else moment):
                    break
                await asyncio.wait((task,), timeout=0.05)
            if task.done():
                task.result()
        finally:
            for each in (task, stopping):
                each.cancel()
            with suppress(asyncio.CancelledError, Error):
                await task

    async def _finish(self) -> None:
        """Wait for the last acknowledgements; when told to stop, not for ever."""
        await self._until_stopping(self._row.finish())
        if self._row.under_way:
            self._tell(
                f"{self._row.under_way:,} lines have no answer: they are shipped again at the next start"
            )

    def _begin_row(self) -> None:
        """Give up the row, and read again what of it is not stored."""
        self._row.abandon()
        self._lines += self._row.lines
        self._bytes += self._row.bytes
        self._duplicates += self._row.duplicates
        if self._known.since is None:
            self._known.since = self._row.since
        progressed = self._row.progressed
        self._row = Outbound(self._js, self._options, self._known, careful=True)
        self._row.progressed = progressed
        for file in self._watched.files.values():
            file.rewind()

    async def _ship(self, looking: asyncio.Task[None]) -> None:
        if self._input is not None:
            await self._ship_input(self._input)
            return
        await self._recall()
        while not self._stopping.is_set():
            await self._wait_while_paused()
            if looking.done():
                looking.result()
            read = await self._pass()
            self._row.check()
            if read or self._watched.unsaved or self._gate.closed:
                continue
            if self._row.idle:
                self._known.forget(file.position for file in self._watched.files.values())
            if self._options.once:
                return
            await self._pause(self._options.poll)

    async def _recall(self) -> None:
        """Learn what the stream has behind the positions, if that may be anything."""
        tries = 0
        while self._known.since is not None and not self._stopping.is_set():
            connection = self._js.connection
            if connection.connected:
                try:
                    await self._known.read_back(list(self._positions.entries.values()))
                    return
                except Error as error:
                    tries += 1
                    if connection.connected and (tries >= _TRIES or not error.transient):
                        if not self._told_unreadable:
                            self._tell(
                                "what the stream has cannot be read back, only its duplicate_window keeps "
                                f"lines from being stored twice: {error}"
                            )
                        self._told_unreadable = True
                        self._known.clear()
                        return
            self._check_connection()
            await self._pause(_FIRST_WAIT)

    async def _pass(self) -> int:
        """Ship every file up to where it ends now; how many bytes that were."""
        read = 0
        ready = await self._harvest.ready()
        if self._watched.unsaved or self._saving.locked():
            await self._save()
        for file, size in ready:
            while not (self._stopping.is_set() or self._gate.closed):
                shipped = await self._ship_file(file)
                read += shipped
                if not shipped or file.offset >= size or self._watched.files.get(file.key) is not file:
                    break
        return read

    async def _ship_file(self, file: TailedFile) -> int:
        """Ship a chunk of a file; how many bytes that were."""
        lines, data = await self._harvest.read(file, self._line_limit)
        if not lines:
            return 0
        envelope = self._envelope(file.position.path, file.position.identity)
        begin = file.offset
        ends = [line.offset - begin for line in lines[_PIECE::_PIECE]] + [len(data)]
        start = 0
        for number, end in enumerate(ends):
            if self._gate.closed or self._stopping.is_set():
                return start
            piece = lines[number * _PIECE : (number + 1) * _PIECE]
            await self._row.send(piece, envelope.wrap(piece), file, data[start:end])
            start = end
        return len(data)

    async def _ship_input(self, source: StandardInput) -> None:
        envelope = self._envelope("-", source.identity)
        async for lines in source.pieces():
            self._row.check()
            for start in range(0, len(lines), _PIECE):
                await self._wait_while_paused()
                if self._stopping.is_set():
                    return
                piece = lines[start : start + _PIECE]
                await self._row.send(piece, envelope.wrap(piece), None, b"")

    def _envelope(self, path: str, identity: str) -> Envelope:
        options = self._options
        return Envelope(
            options.subject, options.host, path, identity, encoding=options.compress, compress=self._compress
        )

    @property
    def _line_limit(self) -> int:
        return min(self._options.max_line, max(self._js.connection.max_payload - _HEADERS, 1024))

    # --- waiting

    async def _wait_while_paused(self) -> None:
        told = False
        while self._gate.closed and not self._stopping.is_set():
            self._check_connection()
            if not told and await self._row.quiet(1.0):
                self._row.check()
                # Who says that it pauses has nothing under way any more.
                told = True
                await self._save()
                for_ever = " until resumed" if not self._gate.switch.until else ""
                self._tell(f"paused: the switch is set{for_ever}")
                await self._reporter.report()
            elif told:
                await self._gate.changed.wait(1.0)
        if told and not self._stopping.is_set():
            self._tell("going on")
            await self._reporter.report()

    def _check_connection(self) -> None:
        if self._js.connection.closed:
            raise ConnectionClosed("the connection is closed")

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # --- positions

    async def _save_now_and_then(self) -> None:
        stored, since = -1, time.monotonic()
        while True:
            await asyncio.sleep(self._options.save_every)
            await self._save()
            lines, now = self._lines + self._row.lines, time.monotonic()
            if lines != stored or not self._row.under_way:
                stored, since = lines, now
            elif now - since >= _SILENCE:
                since = now
                self._tell(f"nothing was acknowledged for {_SILENCE:g} s, {self._row.under_way:,} lines wait")

    async def _save(self, *, force: bool = False) -> None:
        """Write the positions, if there is something new. A disk that is full stops no shipping."""
        if not self._options.patterns:
            return
        async with self._saving:
            self._row.settle()
            if not (self._row.progressed or self._watched.unsaved or force):
                return
            self._row.progressed = self._watched.unsaved = False
            self._positions.forget_gone(self._watched.files)
            number, data = self._positions.encode(self._since())
            try:
                await asyncio.to_thread(self._positions.write, number, data)
            except OSError as error:
                self._row.progressed = True
                self._tell(f"the positions cannot be written to {self._positions.path}: {error.strerror}")

    def _since(self) -> float | None:
        """Since when the stream may have got lines behind the positions as they are now."""
        since = [each for each in (self._known.since, self._row.since) if each is not None]
        if not since and not self._stopping.is_set():
            return time.time()  # From now on it may.
        return min(since, default=None)
