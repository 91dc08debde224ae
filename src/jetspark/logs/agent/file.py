"""A followed file: how far it is read and stored, and whether it is still the same file.

A file is identified by device and inode, by a digest of its first line, and by the last bytes that were read.
If those bytes are not in front of the next read, the file was truncated and rewritten.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from typing import Final, NamedTuple

from jetspark.logs.agent.input import LogInput
from jetspark.logs.agent.positions import FilePosition, Key

__all__ = ["LEAST_LINE", "FileState", "TailedFile", "Truncated", "is_same", "last_line_end", "tail_of"]

#: Bytes of the first line that make the fingerprint; also the smallest size at which a line is cut.
LEAST_LINE: Final = 256
#: Bytes before a position that are compared.
_TAIL: Final = 64
_LOOK_BACK: Final = 256 * 1024


class Truncated(Exception):
    """The file was truncated or rewritten. Never leaves this package."""


class FileState(NamedTuple):
    """The modification time, in nanoseconds, and the size: one of them changes with every write."""

    mtime: int
    size: int


_NEVER: Final = FileState(-1, -1)


class TailedFile:
    """An open file. `offset` is how far it is read, `position.offset` how far it is stored."""

    def __init__(self, fd: int, position: FilePosition, source: LogInput) -> None:
        self._fd = fd
        self.position = position
        self.source = source
        self.offset = position.offset
        self.tail = position.tail
        #: Since when no pattern matches it, by the monotonic clock; None while one does.
        self.left: float | None = None
        self.grown = time.monotonic()
        #: Its state at the last read.
        self.read_at = _NEVER
        self._incomplete = _NEVER
        #: When to stop waiting for more of an event, by the monotonic clock; None to wait indefinitely.
        self._give_up: float | None = None
        # An event that may continue, and where it begins.
        self._held = b""
        self._held_at = 0

    @property
    def key(self) -> Key:
        return self.position.key

    def state(self) -> FileState:
        status = os.fstat(self._fd)
        return FileState(status.st_mtime_ns, status.st_size)

    def has_new_data(self, state: FileState) -> bool:
        """Whether there is something to read in this state."""
        if state.size == self.offset and not (self._held and self.held):
            return False
        return state != self._incomplete or self.timed_out(state)

    def wait_for_more(self, state: FileState, timeout: float | None = None) -> None:
        """Skip the file until its state changes, or for `timeout` seconds: it has no complete line yet."""
        self._incomplete = state
        self._give_up = None if timeout is None else time.monotonic() + timeout

    def timed_out(self, state: FileState) -> bool:
        """Whether the file stayed in this state for the timeout of `wait_for_more`."""
        return self._give_up is not None and state == self._incomplete and time.monotonic() >= self._give_up

    @property
    def held(self) -> bytes:
        """The bytes after `offset` that were read and not sent, because their event may continue."""
        start = self.offset - self._held_at
        return self._held[start:] if start >= 0 else b""

    def hold(self, data: bytes) -> None:
        """Keep the event that begins at `offset`: if the file is truncated, it is sent as it is."""
        if len(data) > len(self.held):
            self.grown = time.monotonic()
        self._held, self._held_at = data, self.offset

    def end_event(self, end: int) -> None:
        """End the event at this offset, whatever follows. Save the position before the event is sent."""
        at = self.position
        at.ends = [*(each for each in at.ends if each > at.offset), end]
        self._incomplete, self._give_up = _NEVER, None

    def behind(self) -> int:
        return max(os.fstat(self._fd).st_size - self.offset, 0)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes from `offset` on. Raises `Truncated`, `OSError`."""
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
        """Take the digest of the first line, or of its part if `final`. Returns whether there is one."""
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
        """Move the read offset past `data`, which is sent now."""
        self.offset += len(data)
        self.tail = tail_of(self.tail, data)
        self.grown = time.monotonic()

    def store(self, offset: int, tail: bytes) -> None:
        """Move the position: the stream has everything before `offset`."""
        self.position.offset, self.position.tail = offset, tail

    def rewind(self) -> None:
        self.offset, self.tail = self.position.offset, self.position.tail
        self._incomplete, self._give_up = _NEVER, None

    def restarted(self) -> TailedFile:
        """The same inode from its start, with other ids. Takes over the descriptor."""
        at = self.position
        fd, self._fd = self._fd, -1
        position = FilePosition(path=at.path, device=at.device, inode=at.inode, origin=at.origin)
        position.input = at.input
        position.generation, position.seen = at.generation + 1, time.time()
        file = TailedFile(fd, position, self.source)
        file.left = self.left
        return file

    def note(self) -> None:
        """Record in the position whether the file was deleted: another file may get its inode."""
        if self._fd >= 0:
            with suppress(OSError):  # The file system may be unmounted.
                self.position.deleted = os.fstat(self._fd).st_nlink == 0
            self.position.seen = time.time()

    def close(self) -> None:
        """Record its state in the position, and close it."""
        if self._fd >= 0:
            self.note()
            os.close(self._fd)
            self._fd = -1


def tail_of(before: bytes, data: bytes) -> bytes:
    """The last bytes of `before` followed by `data`, to compare later."""
    return (before + data[-_TAIL:])[-_TAIL:]


def is_same(fd: int, position: FilePosition) -> bool:
    """Whether an open file is the one of a position, and was not rewritten since."""
    if position.deleted or os.fstat(fd).st_size < position.offset:
        return False
    if position.head and _digest(os.pread(fd, position.head_size, 0)) != position.head:
        return False
    tail = position.tail
    return os.pread(fd, len(tail), position.offset - len(tail)) == tail


def last_line_end(fd: int) -> tuple[int, bytes]:
    """The end of the last complete line of a file, and the bytes before it."""
    size = os.fstat(fd).st_size
    start = max(size - _LOOK_BACK, 0)
    data = os.pread(fd, size - start, start)
    end = data.rfind(b"\n") + 1 if b"\n" in data or start == 0 else len(data)
    return start + end, data[:end][-_TAIL:]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
