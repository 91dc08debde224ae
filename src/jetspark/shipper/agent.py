"""The agent: follows files, ships their lines, remembers how far it has come.

```
files --> lines --> messages --> window --> stream
  ^                                |
  '---- positions, on disk <-------'  when the stream has them
```

A line is stored once: its id is that of its file and its offset, so that what is shipped again, because the
acknowledgement was lost or the agent died before it could note it, is known to the stream as long as its
`duplicate_window` lasts. Order per host holds: there is one row of messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from jetspark.errors import Error
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.patience import is_passing
from jetspark.shipper.compression import compressor
from jetspark.shipper.gate import Gate
from jetspark.shipper.lines import split_lines
from jetspark.shipper.messages import Envelope
from jetspark.shipper.options import ShipOptions
from jetspark.shipper.outbound import Outbound
from jetspark.shipper.positions import Positions
from jetspark.shipper.report import Reporter
from jetspark.shipper.standard_input import StandardInput
from jetspark.shipper.tail import TailedFile, Truncated
from jetspark.shipper.watch import WatchedFiles

__all__ = ["Agent", "AgentStatus"]

#: Bytes that are read at a time, and lines that are sent between two looks at the switch.
_CHUNK: Final = 256 * 1024
_PIECE: Final = 256
#: Seconds before a row that failed is sent again.
_FIRST_WAIT: Final = 0.5
_LAST_WAIT: Final = 10.0
#: Seconds without an acknowledgement that are worth a word.
_SILENCE: Final = 30.0
#: Bytes of headers, at most; the payload must leave room for them.
_HEADERS: Final = 16 * 1024


class AgentStatus(msgspec.Struct, kw_only=True, frozen=True):
    """How an agent stands."""

    state: str
    host: str
    subject: str
    files: int
    #: Lines and bytes that are stored.
    lines: int
    bytes: int
    #: How many of the lines the stream had already.
    duplicates: int
    #: Messages without an answer, and bytes of files that are not read yet.
    under_way: int
    behind: int


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
        self._compress = compressor(options.compress) if options.compress else None
        self._gate = Gate(js, tell)
        self._reporter = Reporter(js, options, self.status, lambda: self._gate.switch.sequence)
        self._row = Outbound(js, options)
        self._input: StandardInput | None = None if options.patterns else StandardInput(options.max_line)
        # Counts of rows before this one.
        self._lines = self._bytes = self._duplicates = 0
        self._stopping = asyncio.Event()
        self._looked = -1.0
        self._saving = asyncio.Lock()
        self._paused = False
        self._last_status: AgentStatus | None = None

    def stop(self) -> None:
        """Read no more; `run` returns when what is under way is stored."""
        self._stopping.set()
        self._gate.changed.wake()
        if self._input is not None:
            self._input.close()

    def status(self) -> AgentStatus:
        """How it stands."""
        if self._last_status is not None:
            return self._last_status
        files = list(self._watched.files.values())
        behind = 0
        for file in files:
            with suppress(OSError):
                behind += file.behind()
        return AgentStatus(
            state="paused" if self._paused else "shipping",
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
            if self._options.control:
                await self._watch_the_switch()
            saver = asyncio.create_task(self._save_now_and_then(), name="jetspark-positions")
            try:
                await self._ship_until_stopped()
            finally:
                saver.cancel()
                with suppress(asyncio.CancelledError):
                    await saver
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
                if self._options.once or not is_passing(error):
                    raise
                self._tell(f"the pause switch cannot be read yet: {error}")
                await self._pause(_FIRST_WAIT)
            else:
                self._reporter.start()
                return

    # --- shipping

    async def _ship_until_stopped(self) -> None:
        wait = _FIRST_WAIT
        while True:
            lines = self._row.lines
            try:
                await self._until_stopping(self._ship())
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
        """Run `work`; when told to stop, let it come to an end, for a while."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait((task,), timeout=self._options.grace)
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
        progressed = self._row.progressed
        self._row = Outbound(self._js, self._options)
        self._row.progressed = progressed
        for file in self._watched.files.values():
            file.rewind()

    async def _ship(self) -> None:
        if self._input is not None:
            await self._ship_input(self._input)
            return
        while not self._stopping.is_set():
            await self._wait_while_paused()
            await self._look()
            read = await self._pass()
            self._row.check()
            if not read and not self._gate.closed:
                if self._options.once:
                    return
                await self._pause(self._options.poll)

    async def _pass(self) -> int:
        """Ship every file up to where it ends now, those that were written first before the others.

        So a log that was rotated while nobody read it is shipped in order, over all its files.
        """
        read = 0
        states = [(*file.state(), file) for file in self._watched.files.values()]
        for _, size, file in sorted(states, key=lambda state: state[0]):
            while not (self._stopping.is_set() or self._gate.closed):
                shipped = await self._ship_file(file)
                read += shipped
                if not shipped or file.offset >= size or self._watched.files.get(file.key) is not file:
                    break
                await self._look()
        return read

    async def _look(self) -> None:
        now = time.monotonic()
        if self._looked >= 0 and now - self._looked < self._options.poll:
            return
        self._looked = now
        found = await asyncio.to_thread(self._watched.look)
        if self._watched.take(found):
            await self._save(force=True)  # A crash must find the same files, beginning at the same place.

    async def _ship_file(self, file: TailedFile) -> int:
        """Ship a chunk of a file; how many bytes that were."""
        over = self._watched.is_over(file)
        final = over or self._options.once
        limit = self._line_limit
        try:
            data = await asyncio.to_thread(file.read, _CHUNK + limit)
        except Truncated:
            self._watched.anew(file)
            await self._save(force=True)
            return 1
        except OSError as error:
            self._tell(f"{file.position.path} cannot be read: {error.strerror}")
            self._watched.drop(file)
            return 0
        if data and not file.position.head:
            if not file.take_fingerprint(final=final):
                return 0
            await self._save(force=True)
        at_end = len(data) < _CHUNK + limit
        lines, used = split_lines(data, file.offset, limit, final=final and at_end)
        if not lines:
            if over and at_end and file.position.offset == file.offset:
                self._watched.drop(file)
                await self._save(force=True)
            return 0
        envelope = self._envelope(file.position.path, file.identity)
        ends = [line.offset - file.offset for line in lines[_PIECE::_PIECE]] + [used]
        start = 0
        for number, end in enumerate(ends):
            if self._gate.closed or self._stopping.is_set():
                return start
            piece = lines[number * _PIECE : (number + 1) * _PIECE]
            await self._row.send(envelope.wrap(piece), file, data[start:end])
            start = end
        return used

    async def _ship_input(self, source: StandardInput) -> None:
        envelope = self._envelope("-", source.identity)
        async for lines, size in source.pieces():
            self._row.check()
            for start in range(0, len(lines), _PIECE):
                await self._wait_while_paused()
                if self._stopping.is_set():
                    return
                piece = lines[start : start + _PIECE]
                await self._row.send(envelope.wrap(piece), None, b"")
            self._row.bytes += size

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
        if not self._gate.closed:
            return
        # Who says that it pauses has nothing under way any more.
        await self._row.quiet(self._options.grace)
        await self._save()
        self._paused = True
        self._tell("paused: the switch is set" + (" until resumed" if not self._gate.switch.until else ""))
        await self._reporter.report()
        while self._gate.closed and not self._stopping.is_set():
            obeyed = self._gate.switch.sequence
            await self._gate.changed.wait(1.0)
            if self._gate.switch.sequence != obeyed:
                await self._reporter.report()
        self._paused = False
        if not self._stopping.is_set():
            self._tell("going on")
        await self._reporter.report()

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
            if not (self._row.progressed or force):
                return
            self._row.progressed = False
            number, data = self._positions.encode()
            try:
                await asyncio.to_thread(self._positions.write, number, data)
            except OSError as error:
                self._row.progressed = True
                self._tell(f"the positions cannot be written to {self._positions.path}: {error.strerror}")
