"""Messages into the files of hosts: what of a batch was written, what did not fit, what never can be.

Whoever may publish says what a message holds, so memory is bounded: a payload becomes little larger than the
server takes one, and what is decompressed is written before much of it has gathered. Runs in a thread.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Container, Sequence
from typing import Final

from jetspark.errors import RemoteProtocolError, UsageError
from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.logs.compression import decompress
from jetspark.logs.files.files import LogFiles
from jetspark.logs.format.message import ENCODING

__all__ = ["LogWriter", "Outcome"]

#: Bytes that a payload may have when it is decompressed, where the server takes none as large.
_LARGEST: Final = 4 * 1024 * 1024
#: Bytes of lines that are gathered before they are written.
_SLICE: Final = 8 * 1024 * 1024
#: Hosts that are counted. Subjects are anybody's.
_MOST_HOSTS: Final = 100_000


@dataclasses.dataclass
class Outcome:
    """What became of the messages of a batch, by their index in it. Who is nowhere here was not touched."""

    #: They are on the disk.
    written: set[int] = dataclasses.field(default_factory=set)
    #: There was no room for them, or for what came before them from the same host.
    full: set[int] = dataclasses.field(default_factory=set)
    #: They can never be written, and why.
    poison: dict[int, str] = dataclasses.field(default_factory=dict)
    #: Where there was no room.
    reason: str = ""
    #: What ended the work before the end of the batch.
    error: Exception | None = None
    lines: int = 0
    bytes: int = 0


class LogWriter:
    """Writes messages to the files of their hosts, in order."""

    def __init__(self, files: LogFiles, max_payload: int) -> None:
        self._files = files
        self._limit = max(max_payload, _LARGEST)
        self._hosts: set[str] = set()

    @property
    def hosts(self) -> int:
        """How many hosts were seen, as far as they are counted."""
        return len(self._hosts)

    def write(self, messages: Sequence[JetStreamMsg], there: Container[int] = ()) -> Outcome:
        """Write and sync; raises nothing. Messages whose stream sequence is in `there` are on the disk."""
        outcome = Outcome()
        try:
            self._write(messages, there, outcome)
        except (UsageError, OSError) as error:
            outcome.error = error
        return outcome

    def _write(self, messages: Sequence[JetStreamMsg], there: Container[int], outcome: Outcome) -> None:
        gathered: dict[str, list[tuple[int, bytes]]] = {}
        closed: set[str] = set()
        size = 0
        for index, message in enumerate(messages):
            if there and message.metadata.sequence.stream in there:
                outcome.written.add(index)
                continue
            try:
                host, line = self._parse(message)
            except UsageError:
                # It is this program that lacks something, and another one may write the line.
                self._append(gathered, closed, outcome)
                raise
            except (ValueError, RemoteProtocolError) as error:
                outcome.poison[index] = " ".join(str(error).split())[:256]
                continue
            if host in closed:
                outcome.full.add(index)
                continue
            gathered.setdefault(host, []).append((index, line))
            size += len(line)
            if size >= _SLICE:
                self._append(gathered, closed, outcome)
                size = 0
        self._append(gathered, closed, outcome)

    def _parse(self, message: JetStreamMsg) -> tuple[str, bytes]:
        """Host and line. Raises `ValueError` and `RemoteProtocolError` where there is none."""
        tokens = message.subject.split(".")
        if len(tokens) < 3:
            raise ValueError(f"no host in the subject {message.subject!r}")
        self._files.path_of(tokens[-1])
        encoding = message.headers.get(ENCODING, "")
        return tokens[-1], decompress(encoding, message.data, self._limit) if encoding else message.data

    def _append(
        self, gathered: dict[str, list[tuple[int, bytes]]], closed: set[str], outcome: Outcome
    ) -> None:
        """Write what is gathered, and forget it. Hosts without room are `closed`: order must hold."""
        for host in list(gathered):
            pairs = gathered.pop(host)
            appended = self._files.append(host, [line for _, line in pairs])
            outcome.written.update(index for index, _ in pairs[: appended.lines])
            outcome.lines += appended.lines
            outcome.bytes += appended.bytes
            if len(self._hosts) < _MOST_HOSTS:
                self._hosts.add(host)
            if appended.full is not None:
                outcome.full.update(index for index, _ in pairs[appended.lines :])
                closed.add(host)
                outcome.reason = f"{self._files.path_of(host)}: {os.strerror(appended.full.errno or 0)}"
