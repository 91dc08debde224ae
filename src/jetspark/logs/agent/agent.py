"""The agent: follows files, publishes their lines, and saves how far each file is stored.

```
files --> lines --> messages --> send queue --> stream
  ^                                  |
  '------ positions, on disk <-------'  after the acknowledgement
```

Each line is stored once: its id consists of the file and the offset. Lines that the stream stored beyond the
saved positions (after a crash, or after the stream rejected a line among others) are read back and not sent
again (`stored_ids.py`). If they cannot be read back, the stream drops the duplicates within its
`duplicate_window`. Lines of a host stay in order, because there is one send queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jetspark.errors import ConnectionClosed, Error
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.retry import Backoff
from jetspark.logs.agent.discovery import WatchedFiles
from jetspark.logs.agent.file import TailedFile
from jetspark.logs.agent.input import LogInput
from jetspark.logs.agent.journal import Journal
from jetspark.logs.agent.options import ShipOptions
from jetspark.logs.agent.positions import Positions
from jetspark.logs.agent.reader import FileReader
from jetspark.logs.agent.report import AgentStatus, agent_reports
from jetspark.logs.agent.saver import PositionSaver
from jetspark.logs.agent.send_queue import SendQueue, Source
from jetspark.logs.agent.stdin import StandardInput
from jetspark.logs.agent.stored_ids import StoredIds
from jetspark.logs.compression import compressor
from jetspark.logs.control.watcher import SwitchWatcher
from jetspark.logs.format.line import Line
from jetspark.logs.format.message import Envelope

if TYPE_CHECKING:
    from jetspark.otel.spans import Tracing

__all__ = ["Agent", "AgentStatus"]

#: Lines that are sent between two checks of the switch.
_PIECE: Final = 256
#: Seconds to wait after the stream rejected a line: at first, and at most.
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 10.0
#: Seconds without an acknowledgement before the agent reports it.
_SILENCE: Final = 30.0
#: Seconds that work may take to end after `stop` if nothing is in flight.
_STOP_WAIT: Final = 0.5
#: Attempts to read back stored ids.
_ATTEMPTS: Final = 3
#: The bytes of a message that are reserved for headers.
_HEADER_BYTES: Final = 16 * 1024


class Agent:
    """Ships lines until `stop`. Call `run` once; `report` gets messages for the operator.

    With `tracing`, lines that are sent together have one span, and its context in their headers.
    """

    def __init__(
        self,
        js: JetStream,
        options: ShipOptions,
        report: Callable[[str], None],
        *,
        tracing: Tracing | None = None,
    ) -> None:
        self._js = js
        self._tracing = tracing
        self._options = options
        self._report = report
        self._positions = Positions(options.positions)
        self._watched = WatchedFiles(
            options.file_inputs,
            self._positions,
            from_end=options.from_end,
            close_after=options.close_after,
            report=report,
        )
        self._reader = FileReader(self._watched, once=options.once)
        self._journals = [
            Journal(each, each.journal, limit=lambda: self._line_limit, once=options.once, report=report)
            for each in options.file_inputs
            if each.journal is not None
        ]
        self._compress = compressor(options.compress) if options.compress else None
        self._switch = SwitchWatcher(js, report)
        self._reports = agent_reports(js, options, self.status, self._switch)
        self._stored_ids = StoredIds(js, options)
        self._queue = SendQueue(js, options, self._stored_ids)
        self._stopping = asyncio.Event()
        self._saver = PositionSaver(
            self._positions,
            self._watched,
            self._queue,
            self._stored_ids,
            stopping=self._stopping,
            report=report,
        )
        self._input = (
            None if options.file_inputs else StandardInput(lambda: self._line_limit, options.multiline)
        )
        #: When `run` returns even if messages are in flight, by the monotonic clock.
        self._deadline = 0.0
        self._reported_unreadable = False
        self._last_status: AgentStatus | None = None

    def stop(self) -> None:
        """Stop reading; `run` returns when the lines in flight are stored."""
        if not self._stopping.is_set():
            self._deadline = time.monotonic() + self._options.grace
        self._stopping.set()
        self._switch.changed.wake()
        if self._input is not None:
            self._input.close()

    def status(self) -> AgentStatus:
        if self._last_status is not None:
            return self._last_status
        self._queue.settle()
        files = list(self._watched.files.values())
        behind = 0
        for file in files:
            with suppress(OSError):
                behind += file.behind()
        return AgentStatus(
            state="paused" if self._switch.paused and self._queue.idle else "shipping",
            host=self._options.host,
            subject=",".join(self._options.subjects),
            files=len(files),
            lines=self._queue.lines,
            bytes=self._queue.bytes,
            duplicates=self._queue.duplicates,
            in_flight=self._queue.in_flight,
            behind=behind,
        )

    async def run(self) -> None:
        """Ship until `stop`; with `once` until everything is stored.

        Raises errors that are not transient, such as positions in use or a missing permission; with `once`,
        transient ones too.
        """
        try:
            if self._options.file_inputs:
                self._positions.load()
                self._stored_ids.since = self._positions.since
                await self._load_journals()
            # Open files before anything else that may wait: a rotation cannot lose an open file.
            self._watched.take(await asyncio.to_thread(self._watched.look))
            for pattern in await asyncio.to_thread(self._watched.unmatched):
                self._report(f"no file matches {pattern}{'' if self._options.once else ' yet'}")
            looking = asyncio.create_task(self._look_periodically(), name="jetspark-files")
            saver = asyncio.create_task(self._save_periodically(), name="jetspark-positions")
            try:
                if self._options.control:
                    await self._until_stopping(self._start_switch())
                await self._ship_until_stopped(looking)
            finally:
                self.stop()
                saver.cancel()
                await asyncio.wait((saver, looking), timeout=_STOP_WAIT)
                looking.cancel()
                self._queue.abandon()
                for file in self._watched.files.values():
                    file.note()
                await self._save(force=True)
                self._last_status = msgspec.structs.replace(self.status(), state="stopped")
                await self._reports.stop()
                await self._switch.stop()
        finally:
            self._queue.abandon()
            for journal in self._journals:
                await journal.close()
            self._watched.close()
            self._positions.close()

    async def _load_journals(self) -> None:
        for journal in self._journals:
            name = journal.source.name
            if saved := self._positions.journals.get(name):
                journal.position = saved
            elif self._options.from_end and self._positions.first_use:
                await journal.skip_to_end()
            self._positions.journals[name] = journal.position
            self._watched.unsaved = True
            journal.start()

    async def _start_switch(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._switch.start()
            except Error as error:
                if self._options.once or not error.transient:
                    raise
                self._report(f"cannot read the pause switch yet: {error}")
                await self._pause(_FIRST_WAIT)
            else:
                self._reports.start()
                return

    async def _look_periodically(self) -> None:
        while not self._stopping.is_set():
            await self._pause(self._options.poll)
            self._watched.take(await asyncio.to_thread(self._watched.look))

    # --- shipping

    async def _ship_until_stopped(self, looking: asyncio.Task[None]) -> None:
        backoff = Backoff(first=_FIRST_WAIT, longest=_LONGEST_WAIT)
        while True:
            lines = self._queue.lines
            try:
                await self._until_stopping(self._ship(looking))
                await self._finish()
                return
            except Error as error:
                if self._options.once or self._stopping.is_set() or self._js.connection.closed:
                    raise
                if self._input is not None:
                    raise  # Standard input cannot be read again.
                self._report(f"the stream rejects lines, retrying: {error}")
            if self._queue.lines > lines:
                backoff.renew()
            self._restart_queue()
            await self._pause(backoff.next_wait() or 0.0)
            if self._stopping.is_set():
                return

    async def _until_stopping(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`. After `stop`, let it end while messages are in flight, up to the deadline."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            moment = min(time.monotonic() + _STOP_WAIT, self._deadline)
            while not task.done():
                if time.monotonic() >= (self._deadline if self._queue.in_flight else moment):
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
        """Wait for the last acknowledgements; after `stop`, up to the deadline."""
        await self._until_stopping(self._queue.finish())
        if self._queue.in_flight:
            self._report(
                f"{self._queue.in_flight:,} lines were not acknowledged: the next start ships them again"
            )

    def _restart_queue(self) -> None:
        """Empty the queue, and read again the lines that are not stored."""
        self._queue.abandon()
        if self._stored_ids.since is None:
            self._stored_ids.since = self._queue.since
        self._queue.restart()
        for file in self._watched.files.values():
            file.rewind()
        for journal in self._journals:
            journal.rewind()

    async def _ship(self, looking: asyncio.Task[None]) -> None:
        if self._input is not None:
            await self._ship_input(self._input)
            return
        await self._read_back()
        while not self._stopping.is_set():
            await self._wait_while_paused()
            if looking.done():
                looking.result()
            read = await self._pass()
            self._queue.check()
            if read or self._watched.unsaved or self._switch.paused:
                continue
            if self._queue.idle:
                self._stored_ids.forget(file.position for file in self._watched.files.values())
            if self._options.once and all(journal.at_end for journal in self._journals):
                return
            await self._pause(self._options.poll)

    async def _read_back(self) -> None:
        """Read the ids of lines beyond the positions that the stream already has, if there may be any."""
        tries = 0
        while self._stored_ids.since is not None and not self._stopping.is_set():
            connection = self._js.connection
            if connection.connected:
                try:
                    await self._stored_ids.read_back(
                        list(self._positions.entries.values()), list(self._positions.journals.values())
                    )
                    return
                except Error as error:
                    tries += 1
                    if connection.connected and (tries >= _ATTEMPTS or not error.transient):
                        if not self._reported_unreadable:
                            self._report(
                                "cannot read back stored lines; duplicates are dropped only within the "
                                f"duplicate_window of the stream: {error}"
                            )
                        self._reported_unreadable = True
                        self._stored_ids.clear()
                        return
            self._check_connection()
            await self._pause(_FIRST_WAIT)

    async def _pass(self) -> int:
        """Ship every file up to its current end. Returns the number of bytes."""
        read = 0
        ready = await self._reader.ready()
        if self._watched.unsaved or self._saver.busy:
            await self._save()
        for file, size in ready:
            while not (self._stopping.is_set() or self._switch.paused):
                shipped = await self._ship_file(file)
                read += shipped
                if not shipped or file.offset >= size or self._watched.files.get(file.key) is not file:
                    break
        for journal in self._journals:
            while not (self._stopping.is_set() or self._switch.paused):
                if not (shipped := await self._ship_journal(journal)):
                    break
                read += shipped
        return read

    async def _ship_file(self, file: TailedFile) -> int:
        lines, data = await self._reader.read(file, self._line_limit)
        if not lines:
            return 0
        envelope = self._envelope(file.source, file.position.path, file.position.identity)
        begin, number, start = file.offset, 0, 0
        while number < len(lines):
            if self._switch.paused or self._stopping.is_set():
                return start
            last = min(number + _PIECE, len(lines))
            while not lines[last - 1].size:  # Its bytes are counted with the next event.
                last += 1
            end = lines[last].offset - begin if last < len(lines) else len(data)
            piece = lines[number:last]
            await self._send(piece, envelope, file, data[start:end])
            number, start = last, end
        return len(data)

    async def _ship_journal(self, journal: Journal) -> int:
        found = journal.next(_PIECE)
        if found is None:
            return 0
        envelope = self._envelope(journal.source, "journal", found.identity)
        await self._send(found.lines, envelope, journal, found.data)
        return len(found.data)

    async def _ship_input(self, source: StandardInput) -> None:
        envelope = self._envelope(self._options.one_input, "-", source.identity)
        async for lines in source.pieces():
            self._queue.check()
            for start in range(0, len(lines), _PIECE):
                await self._wait_while_paused()
                if self._stopping.is_set():
                    return
                piece = lines[start : start + _PIECE]
                await self._send(piece, envelope, None, b"")

    async def _send(
        self, lines: Sequence[Line], envelope: Envelope, source: Source | None, data: bytes
    ) -> None:
        messages = envelope.wrap(lines)
        if self._tracing is None or not messages:
            await self._queue.send(lines, messages, source, data)
            return
        with self._tracing.sending_many(messages) as traced:
            await self._queue.send(lines, traced, source, data)

    def _envelope(self, source: LogInput, path: str, identity: str) -> Envelope:
        options = self._options
        return Envelope(
            options.subject_of(source),
            options.host,
            path,
            identity,
            encoding=options.compress,
            compress=self._compress,
        )

    @property
    def _line_limit(self) -> int:
        return min(self._options.max_line, max(self._js.connection.max_payload - _HEADER_BYTES, 1024))

    # --- waiting

    async def _wait_while_paused(self) -> None:
        reported = False
        while self._switch.paused and not self._stopping.is_set():
            self._check_connection()
            if not reported and await self._queue.quiet(1.0):
                self._queue.check()
                # An agent reports that it is paused when nothing is in flight.
                reported = True
                await self._save()
                how_long = " until resumed" if not self._switch.switch.until else ""
                self._report(f"paused: the switch is set{how_long}")
                await self._reports.publish()
            elif reported:
                await self._switch.changed.wait(1.0)
        if reported and not self._stopping.is_set():
            self._report("resumed")
            await self._reports.publish()

    def _check_connection(self) -> None:
        if self._js.connection.closed:
            raise ConnectionClosed("the connection is closed")

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # --- positions

    async def _save_periodically(self) -> None:
        stored, since = -1, time.monotonic()
        while True:
            await asyncio.sleep(self._options.save_every)
            await self._save()
            lines, now = self._queue.lines, time.monotonic()
            if lines != stored or not self._queue.in_flight:
                stored, since = lines, now
            elif now - since >= _SILENCE:
                since = now
                self._report(
                    f"no acknowledgement for {_SILENCE:g} s, {self._queue.in_flight:,} lines in flight"
                )

    async def _save(self, *, force: bool = False) -> None:
        if self._options.file_inputs:
            await self._saver.save(force=force)
