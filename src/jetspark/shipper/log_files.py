"""The files of a log consumer: one a host, under one directory.

What is appended is synced or, when that fails, taken back: a file ends with whole lines, whatever the disk
does, unless the process dies in the middle. Names come from subjects, which anybody may have published to.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jetspark.shipper.names import file_name

__all__ = ["LogFiles", "is_full"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MODE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def is_full(error: OSError) -> bool:
    """Whether there may be room later: no space, no quota, no larger file."""
    return error.errno in _FULL


class LogFiles:
    """Appends lines to the files of hosts. At `rotate_size` bytes `a.log` becomes `a.log.1`, up to `keep`."""

    def __init__(self, directory: Path, *, rotate_size: int | None = None, keep: int = 5) -> None:
        self.directory = directory
        self._rotate_size = rotate_size
        self._keep = keep
        self._known: set[Path] = set()

    def path_of(self, host: str) -> Path:
        """The file of a host. Raises `ValueError` if it were elsewhere."""
        path = self.directory / f"{file_name(host)}.log"
        if path.parent.resolve() != self.directory.resolve():
            raise ValueError(f"{path} is not in {self.directory}")
        return path

    def append(self, host: str, lines: Iterable[bytes]) -> int:
        """Append lines, and sync; how many bytes that were. Raises `OSError`; nothing was appended then."""
        path = self.path_of(host)
        data = b"".join([line + b"\n" for line in lines])
        self._rotate(path, len(data))
        fd = os.open(path, _MODE, 0o640)
        try:
            before = os.fstat(fd).st_size
            try:
                written = 0
                while written < len(data):
                    written += os.write(fd, memoryview(data)[written:])
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, before)
                raise
        finally:
            os.close(fd)
        if path not in self._known:
            self._sync_directory()
            self._known.add(path)
        return len(data)

    def _rotate(self, path: Path, more: int) -> None:
        if self._rotate_size is None:
            return
        try:
            size = path.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return
        if size == 0 or size + more <= self._rotate_size:
            return
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
