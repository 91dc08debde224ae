"""Reads new lines of the followed files, oldest file first.

An idle file costs one `fstat`. A file that cannot be read does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.logs.agent.discovery import WatchedFiles
from jetspark.logs.agent.file import FileState, TailedFile, Truncated
from jetspark.logs.agent.join import join_events
from jetspark.logs.agent.multiline import Multiline
from jetspark.logs.agent.split import split_lines
from jetspark.logs.format.line import Line

__all__ = ["FileReader", "Lines"]

#: Bytes to read at a time.
_CHUNK: Final = 256 * 1024


class Lines(NamedTuple):
    """Lines, and their bytes in the file."""

    lines: Sequence[Line]
    data: bytes


_NOTHING: Final = Lines((), b"")


class _Look(NamedTuple):
    file: TailedFile
    state: FileState
    error: OSError | None = None


class FileReader:
    """Reads the followed files. With `once`, a last line without a line feed counts as a line."""

    def __init__(self, watched: WatchedFiles, *, once: bool) -> None:
        self._watched = watched
        self._once = once

    async def ready(self) -> list[tuple[TailedFile, int]]:
        """Files with new data, and their sizes, by modification time.

        So a log that was rotated while no agent ran is shipped in order across its files. New files get their
        fingerprint here: if `unsaved` is set, save the positions before shipping.
        """
        files = list(self._watched.files.values())
        looks = await asyncio.to_thread(self._look_at, files)
        ready: list[_Look] = []
        for look in looks:
            if look.error is not None:
                self._watched.refuse(look.file, look.error)
            elif self._watched.files.get(look.file.key) is look.file:
                ready.append(look)
        return [(look.file, look.state.size) for look in sorted(ready, key=lambda look: look.state.mtime)]

    def _look_at(self, files: Sequence[TailedFile]) -> list[_Look]:
        """The files that have new data, are finished, or fail. Runs in a thread."""
        found: list[_Look] = []
        for file in files:
            finished = self._watched.is_finished(file)
            state = FileState(0, 0)
            try:
                state = file.state()
                if not (finished or file.has_new_data(state)):
                    continue
                if state.size > file.offset and not file.position.head:
                    if not file.take_fingerprint(final=finished or self._once):
                        file.wait_for_more(state)
                        continue
                    self._watched.unsaved = True
            except OSError as error:
                found.append(_Look(file, state, error))
            else:
                found.append(_Look(file, state))
        return found

    async def read(self, file: TailedFile, limit: int) -> Lines:
        """Lines of a file, of at most `limit` bytes each; empty if no line is complete.

        A truncated file is followed from its start, and a finished one that is stored is closed.
        """
        rule = file.source.multiline
        if rule is not None:
            return await self._read_events(file, limit, rule)
        finished = self._watched.is_finished(file)
        try:
            data = await asyncio.to_thread(file.read, _CHUNK + limit)
        except Truncated:
            self._watched.restart(file)
            return _NOTHING
        except OSError as error:
            self._watched.refuse(file, error)
            return _NOTHING
        at_end = len(data) < _CHUNK + limit
        final = (finished or self._once) and at_end
        lines, used = split_lines(data, file.offset, limit, final=final)
        if not lines:
            file.wait_for_more(file.read_at)
            if finished and at_end:
                self._drop_stored(file)
        return Lines(lines, data[:used])

    async def _read_events(self, file: TailedFile, limit: int, rule: Multiline) -> Lines:
        """Like `read`, with lines joined to events.

        If an event ends because nothing follows it, its end is recorded in the position, and the next call
        returns the event: save the positions before that.
        """
        finished = self._watched.is_finished(file)
        # Enough for an event that may continue and an incomplete line after it.
        size, ends = _CHUNK + 2 * limit, file.position.ends
        try:
            data = await asyncio.to_thread(file.read, size)
            if not data.startswith(file.held):
                raise Truncated
        except Truncated:
            if held := file.held:
                return Lines(join_events(held, file.offset, limit, rule, ends=ends, final=True)[0], held)
            self._watched.restart(file)
            return _NOTHING
        except OSError as error:
            self._watched.refuse(file, error)
            return _NOTHING
        lines, used = join_events(data, file.offset, limit, rule, ends=ends)
        if lines:
            return Lines(lines, data[:used])
        at_end = len(data) < size
        complete = data.rfind(b"\n") + 1
        final = (finished or self._once) and at_end
        # Bytes that were written after the state was taken are not old enough.
        timed_out = file.timed_out(file.read_at) and file.offset + len(data) == file.read_at.size
        if end := len(data) if final else complete if timed_out else 0:
            file.end_event(file.offset + end)
            self._watched.unsaved = True
            return _NOTHING
        file.hold(data[:complete])
        file.wait_for_more(file.read_at, rule.timeout if complete else None)
        if finished and at_end:
            self._drop_stored(file)
        return _NOTHING

    def _drop_stored(self, file: TailedFile) -> None:
        if file.position.offset == file.offset:
            self._watched.drop(file)
            self._watched.unsaved = True
