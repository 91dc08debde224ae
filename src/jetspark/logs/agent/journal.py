"""The journal of systemd, read by `journalctl`. The position is the cursor of the last stored entry."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final, NamedTuple

from jetspark.errors import Error, Timeout, UsageError
from jetspark.logs.agent.input import JournalSource, LogInput
from jetspark.logs.agent.journal_entry import EntryParser, JournalEntry, place_of
from jetspark.logs.agent.positions import JournalPosition
from jetspark.logs.format.line import Line

__all__ = ["Journal", "JournalLines"]

_CHUNK: Final = 64 * 1024
#: Chunks of entries that are read ahead.
_AHEAD: Final = 4
#: Seconds until journalctl is started again, and that it may take to find the last entry.
_RESTART: Final = 1.0
_LONGEST_LOOK: Final = 60.0


class JournalLines(NamedTuple):
    """Entries as lines, at their sequence numbers, and the bytes of those lines."""

    #: The common part of the ids of the entries.
    identity: str
    lines: list[Line]
    data: bytes


class Journal:
    """The entries of a journal. `limit` returns the bytes at which an entry is cut.

    `offset` counts the bytes of the lines that were sent since the start, as the send queue needs it.
    """

    def __init__(
        self,
        source: LogInput,
        journal: JournalSource,
        *,
        limit: Callable[[], int],
        once: bool,
        report: Callable[[str], None],
    ) -> None:
        if shutil.which("journalctl") is None:
            raise UsageError(
                f"input {source.name} requires journalctl, which is not installed",
                hint="Install systemd, or ship files in its place",
            )
        self.source = source
        #: The agent replaces it with the saved one.
        self.position = JournalPosition(input=source.name)
        self.offset = 0
        self.tail = b""
        #: Whether all entries were read, with `once`.
        self.at_end = False
        self._journal = journal
        self._limit = limit
        self._once = once
        self._mode = () if once else ("--follow",)
        self._report = report
        self._arrived: asyncio.Queue[list[JournalEntry]] = asyncio.Queue(_AHEAD)
        self._entries: deque[JournalEntry] = deque()
        # The entries that were sent: the offset after each, and its cursor.
        self._sent: deque[tuple[int, str]] = deque()
        self._reading: asyncio.Task[None] | None = None

    async def skip_to_end(self) -> None:
        """Begin after the last entry. Raises `Error`."""
        try:
            async with asyncio.timeout(_LONGEST_LOOK), aclosing(self._journalctl("--lines=1")) as found:
                async for entries in found:
                    self.position.cursor = entries[-1].cursor
        except TimeoutError:
            raise Timeout("journalctl did not find the last entry in time") from None

    def start(self) -> None:
        """Read from the position on."""
        self._reading = asyncio.create_task(self._read(), name="jetspark-journal")

    def rewind(self) -> None:
        """Read again the entries after the position."""
        if self._reading is not None:
            self._reading.cancel()
        self._arrived = asyncio.Queue(_AHEAD)
        self._entries.clear()
        self._sent.clear()
        self.at_end = False
        self.start()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    def next(self, most: int) -> JournalLines | None:
        """Up to `most` entries of one series, which `advance` removes; None if there are none yet.

        Raises `Error` if reading fails, with `once`.
        """
        if self._reading is not None and self._reading.done():
            self._reading.result()
        while len(self._entries) < most and not self._arrived.empty():
            self._entries += self._arrived.get_nowait()
        if not self._entries:
            self.at_end = self._once and self._reading is not None and self._reading.done()
            return None
        series, _ = place_of(self._entries[0].cursor)
        lines: list[Line] = []
        for entry in itertools.islice(self._entries, most):
            other, number = place_of(entry.cursor)
            if other != series:
                break
            lines.append(Line(number, entry.data))
        data = b"".join([line.data + b"\n" for line in lines])
        return JournalLines(f"{self.position.prefix}-{series}", lines, data)

    def advance(self, data: bytes) -> None:
        """Move past the lines of `data`, which are sent now."""
        end = self.offset + len(data)
        while self.offset < end:
            entry = self._entries.popleft()
            self.offset += len(entry.data) + 1
            self._sent.append((self.offset, entry.cursor))

    def store(self, offset: int, tail: bytes) -> None:
        """Move the position: the stream has all entries before `offset`."""
        while self._sent and self._sent[0][0] <= offset:
            self.position.cursor = self._sent.popleft()[1]

    async def _read(self) -> None:
        """Read entries. If journalctl ends it is started again, but not with `once`."""
        last, reported = self.position.cursor, ""
        while True:
            # Not --after-cursor: it skips one more if that entry was deleted meanwhile.
            start = (f"--cursor={last}",) if last else ("--no-tail",)
            try:
                async with aclosing(self._journalctl(*self._mode, *start)) as found:
                    async for entries in found:
                        new = entries[entries[0].cursor == last :]
                        if new:
                            last = new[-1].cursor
                            await self._arrived.put(new)
                if self._once:
                    return
                problem = "journalctl has ended"
            except Error as error:
                if self._once:
                    raise
                problem = str(error)
            if problem != reported:
                reported = problem
                self._report(f"input {self.source.name}: {problem}; starting it again")
            await asyncio.sleep(_RESTART)

    async def _journalctl(self, *options: str) -> AsyncGenerator[list[JournalEntry], None]:
        """The entries that journalctl writes. Raises `Error` if it fails."""
        journal = self._journal
        directory = (f"--directory={journal.directory}",) if journal.directory else ()
        options = ("--output=export", "--quiet", "--no-pager", *directory, *options)
        try:
            process = await asyncio.create_subprocess_exec(
                "journalctl",
                *options,
                *journal.matches,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise Error(f"cannot start journalctl: {error.strerror}") from error
        assert process.stdout is not None
        assert process.stderr is not None
        problem = asyncio.create_task(_last_line(process.stderr))
        try:
            parser = EntryParser(self._limit())
            while data := await process.stdout.read(_CHUNK):
                if entries := parser.feed(data):
                    yield entries
            if await process.wait():
                raise Error(f"journalctl failed: {await problem or f'exit code {process.returncode}'}")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            problem.cancel()


async def _last_line(stream: asyncio.StreamReader) -> str:
    written = b""
    while data := await stream.read(_CHUNK):
        written = (written + data)[-1000:]
    return written.decode(errors="replace").strip().rpartition("\n")[2]
