"""The ids of rows: the same in any order, different for rows that differ, and never too few."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.spark.write.ids import ID_LENGTH, Occurrences, RowIds, short_query_id

texts = st.text(st.sampled_from("ab:+-1{}"), max_size=4)
headers = st.none() | st.dictionaries(texts, texts | st.lists(texts, max_size=2), max_size=3)
rows = st.tuples(st.none() | texts, st.none() | texts.map(str.encode), headers)


def ids_of(given_rows: list[Any]) -> list[str]:
    ids = RowIds()
    return [ids.next(*row) for row in given_rows]


def content(row: tuple[Any, Any, Any]) -> str:
    """What is sent of a row: null and empty data are the same message, and so are no headers."""
    subject, data, fields = row
    return repr((subject, data or b"", sorted((fields or {}).items())))


@given(st.lists(rows, max_size=12), st.randoms(use_true_random=False))
def test_rows_in_another_order_have_the_same_ids(given_rows: list[Any], random: Any) -> None:
    shuffled = random.sample(given_rows, len(given_rows))
    ids, other = ids_of(given_rows), ids_of(shuffled)
    assert len(set(ids)) == len(ids)
    assert sorted(ids) == sorted(other)
    assert sorted(zip(map(content, given_rows), ids, strict=True)) == sorted(
        zip(map(content, shuffled), other, strict=True)
    )


@given(st.lists(rows, max_size=12))
def test_rows_share_a_digest_exactly_if_they_are_the_same_message(given_rows: list[Any]) -> None:
    digests = {
        (content(row), text[:ID_LENGTH]) for row, text in zip(given_rows, ids_of(given_rows), strict=True)
    }
    assert len(digests) == len({row for row, _ in digests}) == len({digest for _, digest in digests})


def test_the_order_of_headers_does_not_count_and_that_of_their_values_does() -> None:
    one, other, third = ids_of(
        [
            ("s", b"", {"a": ["1", "2"], "b": ["3"]}),
            ("s", b"", [("b", ["3"]), ("a", ["1", "2"])]),  # as Arrow has it
            ("s", b"", {"a": ["2", "1"], "b": ["3"]}),
        ]
    )
    assert other == f"{one}/1"
    assert third[:ID_LENGTH] != one[:ID_LENGTH]


def test_an_id_is_no_longer_than_the_position_of_a_row() -> None:
    query = str(uuid.uuid4())
    assert len(f"{short_query_id(query)}/12/3/{ids_of([('s', b'x', None)])[0]}") <= len(f"{query}/12/3/1")
    assert short_query_id(query) != short_query_id(str(uuid.uuid4()))


def test_a_task_that_writes_to_many_subjects_gives_the_same_ids() -> None:
    many = [(f"s.{number}", b"x", None) for number in range(3000)]
    assert sorted(ids_of(many)) == sorted(ids_of(many[::-1]))


# --- counting

numbers = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=300)


@given(numbers)
def test_occurrences_are_counted(given_numbers: list[int]) -> None:
    counts, model = Occurrences(), Counter[int]()
    for number in given_numbers:
        assert counts.add(number) == model[number or 1]  # 0 stands for an empty slot.
        model[number or 1] += 1


def test_a_table_that_grows_forgets_nothing() -> None:
    counts = Occurrences()
    for turn in range(3):
        assert {counts.add(number * 4096) for number in range(20_000)} == {turn}


@given(numbers, st.sampled_from([4, 16]))
def test_a_table_that_is_full_never_gives_a_count_twice_for_one_number(
    given_numbers: list[int], slots: int
) -> None:
    counts = Occurrences(slots)
    found = [(number or 1, counts.add(number)) for number in given_numbers]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("slots", [4, 1 << 12])
def test_a_table_has_no_more_slots_than_allowed(slots: int) -> None:
    counts = Occurrences(slots)
    for number in range(10_000):
        counts.add(number)
    assert counts.slots <= slots
