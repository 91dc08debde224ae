"""How far each file is shipped, on disk: written when the stream has the lines, never before.

The file appears whole or not at all: it is written beside, synced, renamed, and the directory synced. One
agent uses it at a time. It holds a few bytes of each file, to know it again, so only its owner may read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from jetspark.errors import UsageError

__all__ = ["Key", "Position", "Positions"]

#: Device and inode: which file it is, as long as it is not deleted.
Key: TypeAlias = tuple[int, int]

_VERSION: Final = 1
#: Seconds that the position of a file is kept which is not there any more. Its inode may be given to another
#: file at once, whose ids must differ from those that the stream may still remember.
_KEEP_GONE: Final = 7 * 86400.0


class Position(msgspec.Struct, kw_only=True):
    """How far a file is shipped, and how to know it again."""

    path: str
    device: int
    inode: int
    #: The device in the ids of its lines, if that was another one: a disk may get another number at boot.
    origin: int | None = None
    #: Digest of the first `head_size` bytes: its first line, or as much of it as there was. Empty until then.
    head: str = ""
    head_size: int = 0
    #: How often the inode has begun anew: a truncation, or another file that got it.
    generation: int = 0
    #: Everything before it is stored in the stream.
    offset: int = 0
    #: The last bytes before `offset`.
    tail: bytes = b""
    #: Whether the file was deleted when it was last seen.
    deleted: bool = False
    #: When it was last seen, in seconds since 1970.
    seen: float = 0.0

    @property
    def key(self) -> Key:
        return self.device, self.inode

    @property
    def identity(self) -> str:
        """What the ids of its lines have in common. Only when the fingerprint is taken."""
        device = self.device if self.origin is None else self.origin
        return f"{device:x}-{self.inode:x}-{self.head}-{self.generation}"


class _Document(msgspec.Struct, kw_only=True):
    version: int
    #: Since when, in seconds since 1970, the stream may have got lines behind these positions; None when it
    #: has none: the agent ended well.
    since: float | None = None
    files: list[Position]


class Positions:
    """The position file. `load` it, change `entries`, `save`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[Key, Position] = {}
        #: Whether there was no file, so that this is the first agent to use it.
        self.first_use = True
        #: What the file said when it was loaded: see `_Document`.
        self.since: float | None = None
        self._lock: int | None = None
        # Writes happen in threads, and a thread cannot be called back: the newest wins, not the slowest.
        self._writing = threading.Lock()
        self._encoded = self._written = 0

    def load(self) -> None:
        """Read what is there, and keep others away. Raises `UsageError` if it is in use or damaged."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another agent uses the positions in {self.path}",
                hint="Give each agent a file of its own with --positions",
            ) from None
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        try:
            document = msgspec.convert(json.loads(data), _Document)
            if document.version != _VERSION:
                raise ValueError(f"version {document.version} is not {_VERSION}")
        except (msgspec.MsgspecError, ValueError) as error:
            self.close()
            raise UsageError(
                f"{self.path} is no position file: {error}",
                hint="Without it, files are shipped from --from-start or --from-end on",
            ) from None
        self.first_use = False
        self.since = document.since
        self.entries = {entry.key: entry for entry in document.files}

    def move(self, position: Position, key: Key) -> None:
        """The file of a position has this key now. The ids of its lines stay."""
        del self.entries[position.key]
        if position.origin is None:
            position.origin = position.device
        position.device, position.inode = key
        self.entries[key] = position

    def forget_gone(self, followed: Collection[Key]) -> None:
        """Forget what was not seen for a week. What is followed stays, whatever the clock says."""
        oldest = time.time() - _KEEP_GONE
        for key, entry in list(self.entries.items()):
            if entry.seen < oldest and key not in followed:
                del self.entries[key]

    def encode(self, since: float | None) -> tuple[int, bytes]:
        """What `write` writes, and its number."""
        document = _Document(version=_VERSION, since=since, files=list(self.entries.values()))
        self._encoded += 1
        # msgspec writes no names that are not UTF-8, and files may have such.
        return self._encoded, json.dumps(msgspec.to_builtins(document), indent=1).encode() + b"\n"

    def write(self, number: int, data: bytes) -> None:
        """Replace the file by `data`, so that a crash leaves the old one or the new one. Safe in threads.

        What was encoded before something that is written already is not written. Raises `OSError`.
        """
        with self._writing:
            if number > self._written:
                self._replace(data)
                self._written = number

    def _replace(self, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            raise
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Let others use it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
