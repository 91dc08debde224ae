"""The oracle of every fault test: messages attempted, acknowledged and read.

Each message carries `writer-counter`. A test records what happens to it and verifies at the end:

    ledger = Ledger()
    payload = ledger.attempt("a")     # b"a-1"
    ledger.acknowledge(payload)       # the server has acknowledged it
    ledger.refuse(payload)            # or the call has raised: it must not arrive
    ledger.read(message.data)
    ledger.verify()

The ledger also holds the randomness of the test. Its seed is printed when a test fails, and the
environment variable `JETSPARK_TEST_SEED` repeats it. No I/O, no clock.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable

__all__ = ["Ledger"]

_SEED = "JETSPARK_TEST_SEED"
_SHOWN = 8


class Ledger:
    """One account of messages. Writers are named by text without a dash."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = int(os.environ.get(_SEED) or random.randrange(2**32)) if seed is None else seed
        self.random = random.Random(self.seed)
        self._counters: Counter[str] = Counter()
        self._attempted: dict[bytes, None] = {}  # in order
        self._acknowledged: set[bytes] = set()
        self._read: list[bytes] = []
        if seed is None:
            # pytest shows the output with failures found elsewhere too, above all hangs.
            print(f"seed of the ledger: {_SEED}={self.seed}")

    # --- recording

    def attempt(self, writer: str = "w", *, size: int = 0) -> bytes:
        """Return the next payload of `writer`, padded to `size` bytes. It may arrive from now on."""
        if not writer or "-" in writer:
            raise ValueError(f"{writer!r} cannot name a writer")
        self._counters[writer] += 1
        payload = f"{writer}-{self._counters[writer]}".encode()
        self._attempted[payload] = None
        return payload.ljust(size)

    def refuse(self, payload: bytes) -> None:
        """Record that the attempt failed for certain: the message must not arrive."""
        del self._attempted[payload.rstrip()]

    def acknowledge(self, payload: bytes) -> None:
        """Record an acknowledgement: the message must arrive."""
        payload = payload.rstrip()
        if payload not in self._attempted:
            raise AssertionError(f"{payload!r} was acknowledged and never attempted")
        self._acknowledged.add(payload)

    def acknowledge_all(self) -> None:
        """Record that a flush has returned: all messages so far must arrive."""
        self._acknowledged.update(self._attempted)

    def read(self, payload: bytes) -> None:
        """Record that the message has arrived."""
        self._read.append(bytes(payload).rstrip())

    # --- results

    @property
    def attempted(self) -> list[bytes]:
        return list(self._attempted)

    @property
    def acknowledged(self) -> set[bytes]:
        return set(self._acknowledged)

    @property
    def seen(self) -> list[bytes]:
        """The messages read, in order."""
        return list(self._read)

    @property
    def lost(self) -> list[bytes]:
        """Messages acknowledged and not read."""
        lost = self._acknowledged.difference(self._read)
        return [payload for payload in self._attempted if payload in lost]

    @property
    def missing(self) -> list[bytes]:
        """Messages attempted and not read, which at-most-once delivery allows."""
        read = set(self._read)
        return [payload for payload in self._attempted if payload not in read]

    @property
    def duplicated(self) -> list[bytes]:
        """Messages read more than once."""
        return [payload for payload, times in Counter(self._read).items() if times > 1]

    @property
    def unexpected(self) -> list[bytes]:
        """Messages read that were never attempted, or were refused."""
        return [payload for payload in self._read if payload not in self._attempted]

    @property
    def disordered(self) -> list[bytes]:
        """Messages first read after a later one of the same writer. Duplicates do not count."""
        latest: dict[bytes, int] = {}
        late = []
        for payload in dict.fromkeys(self._read):
            writer, _, counter = payload.rpartition(b"-")
            if not counter.isdigit():
                continue  # listed as unexpected
            if int(counter) < latest.get(writer, 0):
                late.append(payload)
            latest[writer] = max(int(counter), latest.get(writer, 0))
        return late

    def verify(
        self, *, lossless: bool = True, unique: bool = True, ordered: bool = True, complete: bool = False
    ) -> None:
        """Raise an AssertionError that lists all faults.

        `lossless`: everything acknowledged was read; `unique`: nothing twice; `ordered`: each writer's in
        order; `complete`: everything attempted was read. Nothing unexpected may arrive in any case.
        """
        faults = {
            "unexpected": self.unexpected,
            "lost though acknowledged": self.lost if lossless else [],
            "read more than once": self.duplicated if unique else [],
            "out of order": self.disordered if ordered else [],
            "attempted and not read": self.missing if complete else [],
        }
        found = [f"  {len(list_)} {fault}: {_some(list_)}" for fault, list_ in faults.items() if list_]
        if found:
            raise AssertionError("\n".join([self.summary(), *found]))

    def __str__(self) -> str:
        return f"{self.summary()}, lost though acknowledged: {_some(self.lost) or 'none'}"

    def summary(self) -> str:
        """Return the totals in one line, with the seed."""
        return (
            f"{len(self._attempted)} attempted, {len(self._acknowledged)} acknowledged, "
            f"{len(self._read)} read ({_SEED}={self.seed})"
        )


def _some(payloads: Iterable[bytes]) -> str:
    names = [payload.decode(errors="backslashreplace") for payload in payloads]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
