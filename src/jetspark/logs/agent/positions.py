"""The position file: how far each log is stored. Positions never run ahead of the stream.

A save replaces the file atomically: a temporary file is written, synced and renamed, then the directory is
synced. A lock admits one agent at a time. The file contains a few bytes of each log, to recognize it, so only
its owner may read it.
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
from jetspark.logs.agent.journal_entry import place_of

__all__ = ["FilePosition", "JournalPosition", "Key", "Positions"]

#: Device and inode: they identify a file until it is deleted.
Key: TypeAlias = tuple[int, int]

_VERSION: Final = 1
#: Seconds that the position of a deleted file is kept. A new file may get its inode at once, and must get
#: other ids than those in the duplicate window of the stream.
_KEEP_GONE: Final = 7 * 86400.0


class FilePosition(msgspec.Struct, kw_only=True):
    """How far a file is stored, and how to recognize it."""

    path: str
    device: int
    inode: int
    #: The device in the ids of its lines, if it differs: a disk may get another number at boot.
    origin: int | None = None
    #: Digest of the first `head_size` bytes: the first line, or the part of it that existed. Empty until
    #: then.
    head: str = ""
    head_size: int = 0
    #: How often the inode started over: by a truncation, or as another file.
    generation: int = 0
    #: Everything before it is stored in the stream.
    offset: int = 0
    #: The last bytes before `offset`.
    tail: bytes = b""
    #: Offsets after it at which an event was ended because nothing followed. Recorded before it is sent.
    ends: list[int] = []
    #: The input that it belongs to.
    input: str = ""
    #: Whether the file was deleted when last seen.
    deleted: bool = False
    #: When it was last seen, in seconds since 1970.
    seen: float = 0.0

    @property
    def key(self) -> Key:
        return self.device, self.inode

    @property
    def identity(self) -> str:
        """The common part of the ids of its lines. Valid when the fingerprint is taken."""
        device = self.device if self.origin is None else self.origin
        return f"{device:x}-{self.inode:x}-{self.head}-{self.generation}"


class JournalPosition(msgspec.Struct, kw_only=True):
    """How far a journal is stored."""

    #: The input that it belongs to.
    input: str
    #: The last entry that is stored; empty if there is none.
    cursor: str = ""

    @property
    def prefix(self) -> str:
        """The common part of the ids of its entries. The series and the sequence number follow."""
        return f"journal-{self.input}"

    @property
    def place(self) -> tuple[str, int] | None:
        """The series and the sequence number of that entry. Raises `ValueError`."""
        return place_of(self.cursor) if self.cursor else None


class _Document(msgspec.Struct, kw_only=True):
    version: int
    #: Since when, in seconds since 1970, the stream may have stored lines beyond these positions; None after
    #: a clean stop.
    since: float | None = None
    files: list[FilePosition]
    journals: list[JournalPosition] = []


class Positions:
    """The position file. `load` it, change `entries`, `save`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[Key, FilePosition] = {}
        #: By the names of their inputs.
        self.journals: dict[str, JournalPosition] = {}
        #: Whether the file did not exist.
        self.first_use = True
        #: As loaded from the file: see `_Document`.
        self.since: float | None = None
        self._lock: int | None = None
        # Threads write, and cannot be cancelled: the newest data wins, not the slowest thread.
        self._writing = threading.Lock()
        self._encoded = self._written = 0

    def load(self) -> None:
        """Lock and read the file. Raises `UsageError` if it is in use or damaged."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another agent uses the positions in {self.path}",
                hint="Give each agent its own file with --positions",
            ) from None
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        try:
            document = msgspec.convert(json.loads(data), _Document)
            if document.version != _VERSION:
                raise ValueError(f"version {document.version} is not {_VERSION}")
            for journal in document.journals:
                journal.place  # noqa: B018 - the property checks it
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.close()
            raise UsageError(
                f"{self.path} is not a valid position file: {error}",
                hint="Delete it to start over; --from-start or --from-end sets where",
            ) from None
        self.first_use = False
        self.since = document.since
        self.entries = {entry.key: entry for entry in document.files}
        self.journals = {journal.input: journal for journal in document.journals}

    def move(self, position: FilePosition, key: Key) -> None:
        """Give a position another key. The ids of its lines stay the same."""
        del self.entries[position.key]
        if position.origin is None:
            position.origin = position.device
        position.device, position.inode = key
        self.entries[key] = position

    def forget_gone(self, followed: Collection[Key]) -> None:
        """Drop positions of files not seen for a week. Followed files stay, even if the clock jumps."""
        oldest = time.time() - _KEEP_GONE
        for key, entry in list(self.entries.items()):
            if entry.seen < oldest and key not in followed:
                del self.entries[key]

    def encode(self, since: float | None) -> tuple[int, bytes]:
        """The data for `write`, and its number."""
        document = _Document(
            version=_VERSION,
            since=since,
            files=list(self.entries.values()),
            journals=list(self.journals.values()),
        )
        self._encoded += 1
        # Not with msgspec: it rejects file names that are not UTF-8.
        return self._encoded, json.dumps(msgspec.to_builtins(document), indent=1).encode() + b"\n"

    def write(self, number: int, data: bytes) -> None:
        """Replace the file with `data`, so that a crash leaves the old or the new one. Thread-safe.

        Data older than the written data is skipped. Raises `OSError`.
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
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
