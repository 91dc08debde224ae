"""What followed files have to say: which of them, in which order, and their lines.

An idle file costs a look at its size, and nothing else. What cannot be read concerns its own file alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.logs.agent.discovery import WatchedFiles
from jetspark.logs.agent.file import State, TailedFile, Truncated
from jetspark.logs.agent.split import Line, split_lines

__all__ = ["Harvest", "Lines"]

#: Bytes that are read at a time.
_CHUNK: Final = 256 * 1024


class Lines(NamedTuple):
    """Lines that were read, and the bytes of the file that they are."""

    lines: Sequence[Line]
    data: bytes


_NOTHING: Final = Lines((), b"")


class _Look(NamedTuple):
    file: TailedFile
    state: State
    error: OSError | None = None


class Harvest:
    """Reads the files that are followed. With `once`, whatever they end with is a line."""

    def __init__(self, watched: WatchedFiles, *, once: bool) -> None:
        self._watched = watched
        self._once = once

    async def ready(self) -> list[tuple[TailedFile, int]]:
        """Files with news, and their sizes; those that were written first come first.

        So a log that was rotated while nobody read it is shipped in order, over all its files. New ones have
        got their fingerprint: when `unsaved` is set, positions must be saved before they are shipped.
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
        """For a thread: the files that have news, or are over, or broken."""
        found: list[_Look] = []
        for file in files:
            over = self._watched.is_over(file)
            state = State(0, 0)
            try:
                state = file.state()
                if not (over or file.has_news(state)):
                    continue
                if state.size > file.offset and not file.position.head:
                    if not file.take_fingerprint(final=over or self._once):
                        file.wait_for_more(state)
                        continue
                    self._watched.unsaved = True
            except OSError as error:
                found.append(_Look(file, state, error))
            else:
                found.append(_Look(file, state))
        return found

    async def read(self, file: TailedFile, limit: int) -> Lines:
        """Lines of a file, of at most `limit` bytes each; none when there are no whole ones.

        A file that has begun anew is followed anew, and one that is over and shipped is closed.
        """
        over = self._watched.is_over(file)
        try:
            data = await asyncio.to_thread(file.read, _CHUNK + limit)
        except Truncated:
            self._watched.anew(file)
            return _NOTHING
        except OSError as error:
            self._watched.refuse(file, error)
            return _NOTHING
        at_end = len(data) < _CHUNK + limit
        final = (over or self._once) and at_end
        lines, used = split_lines(data, file.offset, limit, final=final)
        if not lines:
            file.wait_for_more(file.read_at)
            if over and at_end and file.position.offset == file.offset:
                self._watched.drop(file)
                self._watched.unsaved = True
        return Lines(lines, data[:used])
