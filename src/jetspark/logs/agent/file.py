"""One file that is followed: what is read of it, what of that is stored, and whether it is still the same.

A file is known by device and inode, by a digest of its first line, and by the last bytes that were read:
they stand before whatever is read next, or the file was truncated and written anew meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from typing import Final, NamedTuple

from jetspark.logs.agent.positions import Key, Position

__all__ = ["LEAST_LINE", "State", "TailedFile", "Truncated", "is_same", "last_line_end", "tail_of"]

#: Bytes of the first line that make the fingerprint. A line is never cut before.
LEAST_LINE: Final = 256
#: Bytes before a position that must be there again.
_TAIL: Final = 64
_LOOK_BACK: Final = 256 * 1024


class Truncated(Exception):
    """The file has begun anew. Never leaves this package."""


class State(NamedTuple):
    """What changes when a file is written to: the time, in nanoseconds, and the size."""

    mtime: int
    size: int


_NEVER: Final = State(-1, -1)


class TailedFile:
    """An open file. `offset` is how far it is read, `position.offset` how far it is stored."""

    def __init__(self, fd: int, position: Position) -> None:
        self._fd = fd
        self.position = position
        self.offset = position.offset
        self.tail = position.tail
        #: Since when no name that is followed leads to it, by the monotonic clock; None while one does.
        self.left: float | None = None
        self.grown = time.monotonic()
        #: Its state at the last read.
        self.read_at = _NEVER
        self._useless = _NEVER

    @property
    def key(self) -> Key:
        """Device and inode."""
        return self.position.key

    def state(self) -> State:
        """When it was written last, and its size."""
        status = os.fstat(self._fd)
        return State(status.st_mtime_ns, status.st_size)

    def has_news(self, state: State) -> bool:
        """Whether there is more to read in this state than there was."""
        return state.size != self.offset and state != self._useless

    def wait_for_more(self, state: State) -> None:
        """What there is in this state cannot be shipped yet: it has no news before that changes."""
        self._useless = state

    def behind(self) -> int:
        """Bytes that are there and not read."""
        return max(os.fstat(self._fd).st_size - self.offset, 0)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes behind `offset`. Raises `Truncated`, `OSError`."""
        self.read_at = self.state()
        if self.read_at.size < self.offset:
            raise Truncated
        if self.read_at.size == self.offset:
            return b""
        data = os.pread(self._fd, len(self.tail) + size, self.offset - len(self.tail))
        if not data.startswith(self.tail):
            raise Truncated
        return data[len(self.tail) :]

    def take_fingerprint(self, *, final: bool = False) -> bool:
        """Take the digest of the first line when it is there, or of what there is when it is `final`.

        Returns whether there is one. From then on lines have ids.
        """
        at = self.position
        if not at.head:
            first = os.pread(self._fd, LEAST_LINE, 0)
            end = first.find(b"\n") + 1
            if not first or (not end and len(first) < LEAST_LINE and not final):
                return False
            at.head_size = end or len(first)
            at.head = _digest(first[: at.head_size])
        return True

    def advance(self, data: bytes) -> None:
        """`data`, which was read, is on its way."""
        self.offset += len(data)
        self.tail = tail_of(self.tail, data)
        self.grown = time.monotonic()

    def store(self, offset: int, tail: bytes) -> None:
        """The stream has everything before `offset`."""
        self.position.offset, self.position.tail = offset, tail

    def rewind(self) -> None:
        """Read again what is not stored."""
        self.offset, self.tail = self.position.offset, self.position.tail
        self._useless = _NEVER

    def begin_anew(self) -> TailedFile:
        """The same inode from its start, with other ids. This one is to be forgotten."""
        at = self.position
        fd, self._fd = self._fd, -1
        file = TailedFile(
            fd,
            Position(
                path=at.path,
                device=at.device,
                inode=at.inode,
                origin=at.origin,
                generation=at.generation + 1,
                seen=time.time(),
            ),
        )
        file.left = self.left
        return file

    def note(self) -> None:
        """Note in the position whether it was deleted: then its inode may be another file's."""
        if self._fd >= 0:
            with suppress(OSError):  # A file system that is gone tells nothing.
                self.position.deleted = os.fstat(self._fd).st_nlink == 0
            self.position.seen = time.time()

    def close(self) -> None:
        """Note how it stands, and close it."""
        if self._fd >= 0:
            self.note()
            os.close(self._fd)
            self._fd = -1


def tail_of(before: bytes, data: bytes) -> bytes:
    """The bytes to know a place again that is behind `data`, which is behind `before`."""
    return (before + data[-_TAIL:])[-_TAIL:]


def is_same(fd: int, position: Position) -> bool:
    """Whether an open file is the one of a position, and has not been written anew since."""
    if position.deleted or os.fstat(fd).st_size < position.offset:
        return False
    if position.head and _digest(os.pread(fd, position.head_size, 0)) != position.head:
        return False
    tail = position.tail
    return os.pread(fd, len(tail), position.offset - len(tail)) == tail


def last_line_end(fd: int) -> tuple[int, bytes]:
    """Where the last whole line of a file ends, and the bytes before that."""
    size = os.fstat(fd).st_size
    start = max(size - _LOOK_BACK, 0)
    data = os.pread(fd, size - start, start)
    end = data.rfind(b"\n") + 1 if b"\n" in data or start == 0 else len(data)
    return start + end, data[:end][-_TAIL:]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
