"""Writes a batch of messages to the files of their hosts. Runs in a thread.

Messages are untrusted, so memory is bounded: the size of a decompressed payload is
limited, and lines are written in slices.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Final

from jetspark.jetstream.message.delivered import JetStreamMsg
from jetspark.logs.compression import decompress
from jetspark.logs.files.files import LogFiles
from jetspark.logs.format.message import ENCODING

__all__ = ["LogWriter", "Outcome"]

#: The limit on a decompressed payload in bytes, unless the server's max_payload is larger.
_LARGEST: Final = 4 * 1024 * 1024
#: Bytes of lines to collect before writing.
_SLICE: Final = 8 * 1024 * 1024
#: The highest number of hosts to count. Any publisher can invent hosts.
_MOST_HOSTS: Final = 100_000

Knows = Callable[[JetStreamMsg], bool]


@dataclasses.dataclass
class Outcome:
    """The results of a batch, by the index of the message. A message without a result was not processed."""

    #: Messages that are on disk.
    written: set[int] = dataclasses.field(default_factory=set)
    #: Messages that did not fit, or that follow one of the same host that did not fit.
    full: set[int] = dataclasses.field(default_factory=set)
    #: Invalid messages, with the reason.
    poison: dict[int, str] = dataclasses.field(default_factory=dict)
    #: The file that is full, and why.
    reason: str = ""
    #: The error that ended the work before the end of the batch.
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
        """The number of hosts seen, up to a limit."""
        return len(self._hosts)

    def write(self, messages: Sequence[JetStreamMsg], knows: Knows | None = None) -> Outcome:
        """Write and sync; never raises. `knows` says which messages are on disk already."""
        outcome = Outcome()
        try:
            self._write(messages, knows, outcome)
        except OSError as error:
            outcome.error = error
        return outcome

    def _write(self, messages: Sequence[JetStreamMsg], knows: Knows | None, outcome: Outcome) -> None:
        collected: dict[str, list[tuple[int, bytes]]] = {}
        closed: set[str] = set()
        size = 0
        for index, message in enumerate(messages):
            if knows is not None and knows(message):
                outcome.written.add(index)
                continue
            try:
                host, line = self._parse(message)
            except ValueError as error:
                outcome.poison[index] = " ".join(str(error).split())[:256]
                continue
            if host in closed:
                outcome.full.add(index)
                continue
            collected.setdefault(host, []).append((index, line))
            size += len(line)
            if size >= _SLICE:
                self._append(collected, closed, outcome)
                size = 0
        self._append(collected, closed, outcome)

    def _parse(self, message: JetStreamMsg) -> tuple[str, bytes]:
        """Host and line. Raises `ValueError` for an invalid message."""
        tokens = message.subject.split(".")
        if len(tokens) < 3:
            raise ValueError(f"no host in the subject {message.subject!r}")
        self._files.path_of(tokens[-1])
        headers = message.headers
        if "" in headers:
            raise ValueError("malformed headers")
        encoding = headers.get(ENCODING, "")
        return tokens[-1], decompress(encoding, message.data, self._limit) if encoding else message.data

    def _append(
        self, collected: dict[str, list[tuple[int, bytes]]], closed: set[str], outcome: Outcome
    ) -> None:
        """Write and clear the collected lines. A host without room is `closed`, to keep its order."""
        for host in list(collected):
            pairs = collected.pop(host)
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
