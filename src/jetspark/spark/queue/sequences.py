"""Sets of sequences: as text in a checkpoint, and as spans to be read at once. Pure.

Workers that pull at the same time get messages in turns, so a batch may be every third message. As text
that is `1-2998/3`; a plain run is `1-5000`, and parts are separated by commas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["MOST", "parse_sequences", "show_sequences", "spans"]

#: The most sequences that one text may describe.
MOST: Final = 10_000_000
#: Skipping a gap of this many sequences costs less than another read.
_GAP: Final = 1000


def show_sequences(sequences: Sequence[int]) -> str:
    """Sequences, in order, as text."""
    return ",".join(_parts(sequences))


def _parts(sequences: Sequence[int]) -> Iterator[str]:
    place, count = 0, len(sequences)
    while place < count:
        first = sequences[place]
        step = sequences[place + 1] - first if place + 1 < count else 0
        end = place + 1
        while end < count and sequences[end] - sequences[end - 1] == step:
            end += 1
        if end - place > 2 or step == 1:
            yield f"{first}-{sequences[end - 1]}" + (f"/{step}" if step > 1 else "")
            place = end
        else:
            yield str(first)
            place += 1


def parse_sequences(text: str) -> list[int]:
    """The sequences of a text, in order. Raises `ValueError`."""
    sequences: list[int] = []
    for part in text.split(",") if text else ():
        bounds, slash, step = part.partition("/")
        first, dash, last = bounds.partition("-")
        run = range(_number(first), _number(last if dash else first) + 1, _number(step) if slash else 1)
        if not run or (sequences and run[0] <= sequences[-1]) or len(sequences) + len(run) > MOST:
            raise ValueError(f"not sequences in order: {part!r:.80}")
        sequences += run
    return sequences


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 20 and int(text)):
        raise ValueError(f"not a sequence: {text!r:.80}")
    return int(text)


def spans(sequences: Iterable[int]) -> list[tuple[int, int]]:
    """The ranges [first, next) that hold all of these sequences, which are in order, with small gaps only."""
    found: list[tuple[int, int]] = []
    first = following = 0
    for sequence in sequences:
        if sequence > following + _GAP or not following:
            if following:
                found.append((first, following))
            first = sequence
        following = sequence + 1
    if following:
        found.append((first, following))
    return found
