"""The files of a log consumer: one for each host, in one directory.

An append is synced or, if that fails, undone: a file always ends with a complete line. A partial line that a
crash left is removed at the next append. Names come from subjects, so they are not trusted.
"""

from __future__ import annotations

import bisect
import errno
import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jetspark.logs.format.names import file_name, kind_of_file

__all__ = ["Appended", "LogFiles"]

#: Errors that may pass when space is freed: disk, quota or file size limit.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: The number of paths to cache. There may be any number of hosts.
_REMEMBERED: Final = 10_000
#: Bytes at the end of a file in which to search for the last complete line.
_LOOK_BACK: Final = 1024 * 1024
_MODE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Appended(NamedTuple):
    """The result of an append."""

    #: How many of the lines were written, from the first on, and their bytes.
    lines: int
    bytes: int
    #: Why the others were not written.
    full: OSError | None


class LogFiles:
    """Appends lines to the files of hosts. At `rotate_size` bytes `a.log` becomes `a.log.1`, up to `keep`."""

    def __init__(self, directory: Path, *, rotate_size: int | None = None, keep: int = 5) -> None:
        self.directory = directory
        self._rotate_size = rotate_size
        self._keep = keep
        self._known: set[Path] = set()
        self._paths: dict[str, Path] = {}

    def path_of(self, host: str) -> Path:
        """The file of a host. Raises `ValueError` if it is outside of the directory."""
        path = self._paths.get(host)
        if path is None:
            path = self.directory / f"{file_name(host)}.log"
            if path.parent.resolve() != self.directory.resolve():
                raise ValueError(f"{path} is not in {self.directory}")
            if len(self._paths) >= _REMEMBERED:
                self._paths.clear()
            self._paths[host] = path
        return path

    def append(self, host: str, lines: Sequence[bytes]) -> Appended:
        """Append lines and sync; on a full disk, the lines that fit. Raises `OSError` for other errors."""
        path = self.path_of(host)
        done, size = 0, 0
        while done < len(lines):
            room = self._room(path)
            group = _fitting(lines, done, room)
            if not group and room is not None and room < (self._rotate_size or 0):
                self._rotate(path)
                continue
            group = group or lines[done : done + 1]  # A line above `rotate_size` gets its own file.
            appended = self._append(path, group)
            done += appended.lines
            size += appended.bytes
            if appended.full is not None:
                return Appended(done, size, appended.full)
        return Appended(done, size, None)

    def _append(self, path: Path, lines: Sequence[bytes]) -> Appended:
        ends = list(itertools.accumulate(len(line) + 1 for line in lines))
        data = memoryview(b"".join([line + b"\n" for line in lines]))
        full: OSError | None = None
        fd = os.open(path, _MODE, 0o640)
        try:
            if not stat.S_ISREG(mode := os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, f"it is {kind_of_file(mode)}, not a regular file", str(path))
            before = _remove_partial_line(fd)
            written = 0
            try:
                while written < len(data):
                    written += os.write(fd, data[written:])
            except OSError as error:
                if error.errno not in _FULL:
                    os.ftruncate(fd, before)
                    raise
                full = error
            whole = bisect.bisect_right(ends, written)
            size = ends[whole - 1] if whole else 0
            try:
                if size < written:
                    os.ftruncate(fd, before + size)
                os.fsync(fd)
            except OSError as error:
                os.ftruncate(fd, before)
                if error.errno not in _FULL:
                    raise
                whole, size, full = 0, 0, error
        finally:
            os.close(fd)
        if path not in self._known:
            self._sync_directory()
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known.add(path)
        return Appended(whole, size, full)

    def _room(self, path: Path) -> int | None:
        """Bytes left until a file is rotated; None without rotation."""
        if self._rotate_size is None:
            return None
        try:
            return max(self._rotate_size - path.stat(follow_symlinks=False).st_size, 0)
        except FileNotFoundError:
            return self._rotate_size

    def _rotate(self, path: Path) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number + 1}"))
        if self._keep > 0:
            path.replace(path.with_name(f"{path.name}.1"))
        else:
            path.unlink()
        self._known.discard(path)

    def _sync_directory(self) -> None:
        directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _fitting(lines: Sequence[bytes], start: int, room: int | None) -> Sequence[bytes]:
    """The lines from `start` on that fit into `room` bytes."""
    if room is None:
        return lines[start:]
    end = start
    while end < len(lines) and len(lines[end]) + 1 <= room:
        room -= len(lines[end]) + 1
        end += 1
    return lines[start:end]


def _remove_partial_line(fd: int) -> int:
    """Remove a partial line that a crash left, which is not acknowledged. Returns the size of the file."""
    size = os.fstat(fd).st_size
    if not size or os.pread(fd, 1, size - 1) == b"\n":
        return size
    start = max(size - _LOOK_BACK, 0)
    end = os.pread(fd, size - start, start)
    whole = end.rfind(b"\n") + 1
    if not whole and start:
        return size + os.write(fd, b"\n")  # Not written by this class: keep it.
    os.ftruncate(fd, start + whole)
    return start + whole
