"""What is wrong with a record: lost, doubled, disordered, changed, refused and stored. No I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from chaos.record import Letters, Reading, Record

__all__ = ["judge"]

_SHOWN = 6
#: Seconds; a leader that steps down is replaced in far less, on a loaded machine too.
_STALL = 4.0


def judge(record: Record, *, forgetful: bool, gentle: bool = False) -> list[str]:
    """One sentence for each thing that must not be.

    `forgetful`: a server was killed or another one became leader. It may have forgotten that a consumer
    delivered a message, and may deliver it again under the same consumer sequence. `gentle`: servers and
    connections were up all the time, so that no message has a reason to wait.
    """
    if record.stored is None:
        return ["the stream could not be read at the end"]
    found = list(_written(record, record.stored))
    for reading in record.readings:
        promises = _ordered(reading) if reading.ordered else _acked(reading, forgetful)
        problems = (*_delivered(reading, record.stored), *promises)
        found += [f"{reading.name}: {problem}" for problem in problems]
        if gentle and reading.longest > _STALL:
            found.append(f"{reading.name}: stalled: a message waited {reading.longest:.1f} s for its reader")
    if record.letters is not None:
        found += [f"dead letters: {problem}" for problem in _letters(record.letters, record.stored)]
    return found


def _written(record: Record, stored: dict[int, bytes]) -> Iterator[str]:
    ledger = record.ledger
    for sequence in sorted(stored):
        ledger.read(stored[sequence])
    yield from _some("acknowledged and not stored", ledger.lost)
    yield from _some("stored more than once", ledger.duplicated)
    yield from _some("stored though refused, or never published", ledger.unexpected)
    late = [name for name in ledger.disordered if name.partition(b"-")[0].decode() in record.in_order]
    yield from _some("stored out of order", late)
    names = set(ledger.seen)
    halves = [batch[0] for batch in record.batches if 0 < sum(name in names for name in batch) < len(batch)]
    yield from _some("atomic batches stored in part, beginning with", halves)


def _delivered(reading: Reading, stored: dict[int, bytes]) -> Iterator[str]:
    yield from _some("lost", sorted(stored.keys() - reading.data.keys()))
    yield from _some("delivered and not in the stream", sorted(reading.data.keys() - stored.keys()))
    changed = [number for number, data in reading.data.items() if stored.get(number, data) != data]
    yield from _some("delivered with other data", changed)


def _ordered(reading: Reading) -> Iterator[str]:
    counts = Counter(reading.sequences)
    yield from _some("delivered twice by an ordered reader", [n for n, times in counts.items() if times > 1])
    late, last = [], 0
    for sequence in dict.fromkeys(reading.sequences):
        if sequence < last:
            late.append(sequence)
        last = max(last, sequence)
    yield from _some("delivered out of order", late)


def _acked(reading: Reading, forgetful: bool) -> Iterator[str]:
    if not forgetful:
        twice = [reply for reply, times in Counter(reading.replies).items() if times > 1]
        yield from _some("handed over twice, though delivered once", twice)


def _letters(letters: Letters, stored: dict[int, bytes]) -> Iterator[str]:
    returned = Counter(sequence for sequence, _ in letters.returned)
    yield from _some("lost", sorted((letters.announced or set()) - returned.keys()))
    yield from _some("returned twice", [sequence for sequence, times in returned.items() if times > 1])
    yield from _some("returned and never terminated", sorted(returned.keys() - letters.terminated))
    changed = [number for number, data in letters.returned if data is not None and stored.get(number) != data]
    yield from _some("returned with another message", changed)


def _some(what: str, which: Iterable[object]) -> Iterator[str]:
    names = [
        each.decode(errors="backslashreplace") if isinstance(each, bytes) else str(each) for each in which
    ]
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{more}"
