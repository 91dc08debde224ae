"""The followed files: those that match the patterns, also after a rename.

A renamed file is the same file. A file that no pattern matches any more is read to its end, and closed after
some time without new lines. A file that was renamed while no agent ran is searched for in its old directory.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jetspark.logs.agent.file import TailedFile, is_same, last_line_end
from jetspark.logs.agent.input import LogInput
from jetspark.logs.agent.positions import FilePosition, Key, Positions
from jetspark.logs.format.names import kind_of_file

__all__ = ["WatchedFiles"]

#: How often a look that finds new files is repeated. A file that is renamed between the listing and its
#: `stat` is found under neither name, and its successor must not be shipped before it.
_LOOKS: Final = 4
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class _Found(NamedTuple):
    path: str
    key: Key
    #: Open if it was not known; -1 if it was.
    fd: int
    source: LogInput


class WatchedFiles:
    """The followed files of all inputs, by device and inode. A file belongs to the first matching input."""

    def __init__(
        self,
        inputs: Sequence[LogInput],
        positions: Positions,
        *,
        from_end: bool = False,
        close_after: float = 60.0,
        report: Callable[[str], None],
    ) -> None:
        # One expression for each input: every name is matched five times a second.
        self._inputs = [
            (each, re.compile("|".join(map(fnmatch.translate, each.exclude)) or "(?!)")) for each in inputs
        ]
        self._positions = positions
        self._from_end = from_end
        self._close_after = close_after
        self._report = report
        self._refused: set[str] = set()
        self._first = True
        #: Whether there are new positions that are not on disk. After a crash, the agent needs them to find
        #: the same files with the same start.
        self.unsaved = False
        self.files: dict[Key, TailedFile] = {}

    def look(self) -> list[_Found]:
        """Find files, for `take`. Changes nothing, so that it can run in a thread."""
        known = set(self.files)
        found: dict[Key, _Found] = {}
        for _ in range(_LOOKS):
            before = len(found.keys() - known)
            for source, excluded in self._inputs:
                for pattern in source.patterns:
                    for path in glob.iglob(pattern, recursive=True, include_hidden=True):
                        if not excluded.match(os.path.basename(path)):
                            self._find(path, source, found, known)
            if len(found.keys() - known) == before:
                break
        if self._first:
            for position in list(self._positions.entries.values()):
                if position.key not in found and not position.deleted:
                    self._find_renamed(position, found)
        return list(found.values())

    def unmatched(self) -> list[str]:
        """The patterns that match no file."""
        return [
            pattern
            for source, _ in self._inputs
            for pattern in source.patterns
            if next(glob.iglob(pattern, recursive=True, include_hidden=True), None) is None
        ]

    def take(self, found: Sequence[_Found]) -> None:
        """Follow the files that were found, and mark the others. Files may have been dropped since `look`."""
        now = time.monotonic()
        # Exact matches first, so that no other file takes their position.
        for path, key, fd, source in sorted(found, key=lambda each: each.key not in self._positions.entries):
            if fd >= 0 and key in self.files:
                os.close(fd)
            elif fd >= 0:
                self._follow(path, key, fd, source)
            if key in self.files:
                self.files[key].left = None
        seen = {each.key for each in found}
        for key, file in self.files.items():
            file.position.seen = time.time()
            if key not in seen and file.left is None:
                file.left = now
        self._first = False

    def restart(self, file: TailedFile) -> None:
        fresh = file.restarted()
        self.files[file.key] = fresh
        self._positions.entries[file.key] = fresh.position
        self.unsaved = True
        self._report(f"{file.position.path} was truncated: reading it from its start")

    def is_finished(self, file: TailedFile) -> bool:
        """Whether no pattern matches the file, and it had no new lines for `close_after` seconds."""
        if file.left is None:
            return False
        return time.monotonic() - max(file.left, file.grown) >= self._close_after

    def drop(self, file: TailedFile) -> None:
        file.close()
        if self.files.get(file.key) is file:
            del self.files[file.key]

    def refuse(self, file: TailedFile, error: OSError) -> None:
        """Drop a file that cannot be read. The next look that finds it tries again."""
        self._cannot_read(file.position.path, error)
        self.drop(file)

    def close(self) -> None:
        for file in list(self.files.values()):
            self.drop(file)

    def _cannot_read(self, path: str, error: OSError) -> None:
        if path not in self._refused:
            self._refused.add(path)
            self._report(f"cannot read {path}: {error.strerror}")

    def _follow(self, path: str, key: Key, fd: int, source: LogInput) -> None:
        try:
            position = self._position(path, key, fd)
        except OSError as error:
            os.close(fd)
            self._cannot_read(path, error)
            return
        position.input = source.name
        self.files[key] = TailedFile(fd, position, source)
        if self._positions.entries.get(key) is not position:
            self._positions.entries[key] = position
            self.unsaved = True

    def _find(self, path: str, source: LogInput, found: dict[Key, _Found], known: set[Key]) -> None:
        try:
            status = os.stat(path)
            key = status.st_dev, status.st_ino
            if not stat.S_ISREG(status.st_mode):
                if not stat.S_ISDIR(status.st_mode):
                    kind = kind_of_file(status.st_mode)
                    self._cannot_read(path, OSError(errno.EINVAL, f"it is {kind}, not a regular file"))
                return
            if key in found:
                return
            if key in known:
                found[key] = _Found(path, key, -1, source)
                return
            opened = _open(path, source)
        except FileNotFoundError:
            return  # Deleted meanwhile.
        except OSError as error:
            self._cannot_read(path, error)
            return
        # The name may belong to another file by now.
        if opened.key in found or opened.key in known:
            os.close(opened.fd)
        else:
            found[opened.key] = opened

    def _find_renamed(self, position: FilePosition, found: dict[Key, _Found]) -> None:
        """Find a file that was renamed while no agent ran, even if no pattern matches its new name."""
        sources = [source for source, _ in self._inputs]
        source = next((each for each in sources if each.name == position.input), sources[0])
        try:
            with os.scandir(Path(position.path).parent) as entries:
                for entry in entries:
                    if entry.inode() == position.inode and entry.is_file(follow_symlinks=False):
                        self._take_renamed(_open(entry.path, source, os.O_NOFOLLOW), position, found)
                        return
        except OSError:
            return  # The directory was deleted too.

    def _take_renamed(self, opened: _Found, position: FilePosition, found: dict[Key, _Found]) -> None:
        try:
            known = opened.key == position.key or position.head
            more = os.fstat(opened.fd).st_size > position.offset
            if known and more and opened.key not in found and is_same(opened.fd, position):
                found[opened.key] = opened
        finally:
            if found.get(opened.key) is not opened:
                os.close(opened.fd)

    def _position(self, path: str, key: Key, fd: int) -> FilePosition:
        known = self._positions.entries.get(key)
        if known is not None and is_same(fd, known):
            return known
        if known is None and (moved := self._moved(key, fd)) is not None:
            self._positions.move(moved, key)
            self.unsaved = True
            return moved
        position = FilePosition(path=path, device=key[0], inode=key[1], seen=time.time())
        if known is not None:
            position.generation = known.generation + 1
        elif self._first and self._from_end and self._positions.first_use:
            position.offset, position.tail = last_line_end(fd)
        return position

    def _moved(self, key: Key, fd: int) -> FilePosition | None:
        """The position of the same inode, if its device had another number before a reboot."""
        for entry in self._positions.entries.values():
            if entry.inode == key[1] and entry.head and entry.key not in self.files and is_same(fd, entry):
                return entry
        return None


def _open(path: str, source: LogInput, flags: int = 0) -> _Found:
    """Open a regular file. Raises `OSError`."""
    fd = os.open(path, _OPEN | flags)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(path)  # It is no longer a regular file.
    except BaseException:
        os.close(fd)
        raise
    return _Found(path, (status.st_dev, status.st_ino), fd, source)
