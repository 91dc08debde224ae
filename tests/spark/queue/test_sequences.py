"""Sets of sequences, as text and as spans."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.spark.queue.sequences import parse_sequences, show_sequences, spans
from tests.support.cases import for_each

SEQUENCES = st.sets(st.integers(1, 10**6), max_size=200).map(sorted)


@for_each(
    ("sequences", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([7, 8], "7-8"),
        ([7, 9], "7,9"),
        (list(range(1, 5001)), "1-5000"),
        ([1, 4, 7, 10], "1-10/3"),
        ([1, 2, 3, 5, 7, 9, 20], "1-3,5-9/2,20"),
        ([2**62, 2**62 + 1], f"{2**62}-{2**62 + 1}"),
    ],
)
def test_sequences_have_one_text(sequences: list[int], text: str) -> None:
    assert show_sequences(sequences) == text
    assert parse_sequences(text) == sequences


@given(SEQUENCES)
def test_every_set_survives_its_text(sequences: list[int]) -> None:
    assert parse_sequences(show_sequences(sequences)) == sequences


@given(st.integers(1, 5), st.integers(1, 1000), st.integers(1, 10**9))
def test_what_several_workers_get_in_turns_is_short(workers: int, count: int, first: int) -> None:
    turns = list(range(first, first + workers * count, workers))
    assert len(show_sequences(turns)) < 30


@for_each(
    "text",
    ["a", "1-", "-1", "0", "5-1", "1,1", "3,2", "1-5/0", "1-5,4", "1--2", "1-99999999999", " 1", "1" * 30],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="sequence"):
        parse_sequences(text)


@given(SEQUENCES)
def test_spans_hold_every_sequence_and_are_apart(sequences: list[int]) -> None:
    found = spans(sequences)
    assert all(any(first <= each < following for first, following in found) for each in sequences)
    assert all(first in sequences and following - 1 in sequences for first, following in found)
    assert all(before[1] + 1000 < after[0] for before, after in pairwise(found))
