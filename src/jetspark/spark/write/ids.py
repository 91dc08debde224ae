"""The ids of rows: what a row holds, and how often the task had the same row before. Pure.

The id of a row does not say where it stands, so a second attempt of a task gives each row the id that it
had, whatever the order. Rows that differ have different ids, and so have equal rows of one task.
"""

from __future__ import annotations

import binascii
import json
import uuid
from array import array
from hashlib import blake2b
from typing import Any, Final

__all__ = ["ID_LENGTH", "Occurrences", "RowIds", "short_query_id"]

#: The characters of a digest of 128 bits in base 64.
ID_LENGTH: Final = 22
_DIGEST_SIZE: Final = 16
_FIRST_SLOTS: Final = 1 << 12
#: The most slots: 12,500,000 rows in 200 MB.
_MOST_SLOTS: Final = 1 << 24
#: The most subjects whose state is kept.
_MOST_SUBJECTS: Final = 1024


def short_query_id(query: str) -> str:
    """The id of a query in 15 characters, 90 bits of its UUID: the server keeps the ids of rows in memory."""
    return _base64(uuid.UUID(query).bytes)[:15]


class RowIds:
    """Gives each row of a task the end of its id: the digest of its content, and how often it came before."""

    def __init__(self) -> None:
        self._occurrences = Occurrences()
        # The hash states that have begun with a subject; few tasks write to many.
        self._states: dict[tuple[str | None, bool], Any] = {}

    def next(self, subject: str | None, data: bytes | None, headers: Any) -> str:
        """The end of the id of the next row. Of its headers the order does not count."""
        payload = data or b""
        state = self._state(subject, bool(headers)).copy()
        if headers:
            state.update(b"%d:" % len(payload))
        state.update(payload)
        if headers:
            state.update(json.dumps(sorted(dict(headers).items())).encode())
        digest = state.digest()
        before = self._occurrences.add(int.from_bytes(digest[:8], "little"))
        text = _base64(digest)[:ID_LENGTH]
        return f"{text}/{before}" if before else text

    def _state(self, subject: str | None, headers: bool) -> Any:
        """The state after the subject, whose length comes first: no two rows hash the same bytes."""
        state = self._states.get((subject, headers))
        if state is None:
            name = b"" if subject is None else subject.encode("utf-8", "surrogatepass")
            kind = (b"-" if subject is None else b"") + (b"+" if headers else b":")
            if len(self._states) >= _MOST_SUBJECTS:
                self._states.clear()
            state = blake2b(b"%d%b%b" % (len(name), kind, name), digest_size=_DIGEST_SIZE)
            self._states[subject, headers] = state
        return state


class Occurrences:
    """Counts how often each of many numbers came, in bounded memory: 16 to 32 bytes for a number.

    It may count too much, never too little. Numbers are 64 bits of a digest: in one of 370,000 tasks of ten
    million rows, two different rows share one by chance. And a table that is full starts anew, with counts
    above all that it gave. Then rows that come in another order in the next attempt may have other ids.
    """

    def __init__(self, most_slots: int = _MOST_SLOTS) -> None:
        self._most_slots = most_slots
        # The least count of the current table, and one more than the highest that was given.
        self._floor = 0
        self._above = 1
        self._clear(min(_FIRST_SLOTS, most_slots))

    def _clear(self, slots: int) -> None:
        # A table with open addressing: numbers, 0 in empty slots, and their counts.
        self._numbers = array("Q", bytes(8 * slots))
        self._counts = array("I", bytes(4 * slots))
        self._mask = slots - 1
        self._room = slots * 3 // 4

    @property
    def slots(self) -> int:
        """The size of the table."""
        return len(self._numbers)

    def add(self, number: int) -> int:
        """How often `number` came before."""
        numbers, mask = self._numbers, self._mask
        number = number or 1
        slot = number & mask
        while found := numbers[slot]:
            if found == number:
                self._counts[slot] += 1
                count = self._floor + self._counts[slot]
                if count >= self._above:
                    self._above = count + 1
                return count
            slot = (slot + 1) & mask
        if not self._room:
            self._grow()
            return self.add(number)
        self._room -= 1
        numbers[slot] = number
        return self._floor

    def _grow(self) -> None:
        numbers, counts = self._numbers, self._counts
        slots = 2 * len(numbers)
        if slots > self._most_slots:
            self._floor = self._above
            self._above += 1
            self._clear(len(numbers))
            return
        self._clear(slots)
        for number, count in zip(numbers, counts, strict=True):
            if number:
                slot = number & self._mask
                while self._numbers[slot]:
                    slot = (slot + 1) & self._mask
                self._numbers[slot] = number
                self._counts[slot] = count
                self._room -= 1


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()
