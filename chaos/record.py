"""What the workloads of a cell did. No I/O. Threads may add to it."""

from __future__ import annotations

import time
from collections import Counter

from tests.support.ledger import Ledger

from jetspark import JetStreamMsg, blocking

__all__ = ["Letters", "Reading", "Record"]


class Reading:
    """What one reader was handed, in order."""

    def __init__(self, record: Record, name: str, *, ordered: bool) -> None:
        self._record = record
        self.name = name
        #: Whether it promises every message once and in order; else at least once.
        self.ordered = ordered
        #: Seconds from storing to the first delivery, for the message that waited longest.
        self.longest = 0.0
        self.sequences: list[int] = []
        self.replies: list[str] = []
        #: The data of each sequence when it came first.
        self.data: dict[int, bytes] = {}

    def take(self, message: JetStreamMsg | blocking.JetStreamMsg) -> None:
        """Record a delivery."""
        metadata = message.metadata
        sequence = metadata.sequence.stream
        if sequence not in self.data:
            self.longest = max(self.longest, time.time() - metadata.timestamp_ns / 1e9)
        self.add(sequence, message.reply, message.data)

    def add(self, sequence: int, reply: str, data: bytes) -> None:
        """Record a message that was read without a consumer, or one of `take`."""
        self.sequences.append(sequence)
        self.replies.append(reply)
        self.data.setdefault(sequence, data)

    @property
    def complete(self) -> bool:
        """Whether the stream is written and everything in it was delivered; or the cell is over."""
        if self._record.over:
            return True
        stored = self._record.stored
        return stored is not None and len(self.data) >= len(stored) and stored.keys() <= self.data.keys()


class Letters:
    """Dead letters: the sequences that a reader terminated, that the server announced, that were returned."""

    def __init__(self) -> None:
        self.terminated: set[int] = set()
        self.announced: set[int] | None = None
        self.returned: list[tuple[int, bytes | None]] = []

    @property
    def complete(self) -> bool:
        """Whether everything that the server announced was returned."""
        return self.announced is not None and self.announced <= {sequence for sequence, _ in self.returned}


class Record:
    """Everything that happened in a cell."""

    def __init__(self, seed: int) -> None:
        self.ledger = Ledger(seed)
        #: The writers that have one message in flight: their messages are stored in order.
        self.in_order: set[str] = set()
        #: The payloads of each atomic batch.
        self.batches: list[list[bytes]] = []
        self.readings: list[Reading] = []
        self.letters: Letters | None = None
        #: The stream when all writers have ended: data by sequence.
        self.stored: dict[int, bytes] | None = None
        #: Whether the cell is over. Threads that were left behind end.
        self.over = False
        #: Errors that calls raised and that are allowed under faults, by their class.
        self.errors: Counter[str] = Counter()
        #: What was found wrong on the way.
        self.findings: list[str] = []

    def reading(self, name: str, *, ordered: bool = False) -> Reading:
        """The account of a new reader."""
        reading = Reading(self, name, ordered=ordered)
        self.readings.append(reading)
        return reading

    @property
    def deliveries(self) -> int:
        """How many messages were handed to readers."""
        return sum(len(reading.sequences) for reading in self.readings)
