"""Offsets: every version of jetspark reads the checkpoints of the versions before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import UsageError
from jetspark.jetstream.read.ranges import StreamRange
from jetspark.spark.read.offsets import Offset, StreamOffset, ranges_between
from tests.support.cases import for_each

CREATED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
LATER = CREATED + timedelta(microseconds=1)

# Offsets of version 1, byte for byte. Checkpoints live for years, so these texts never change.
GOLDEN = (
    '{"version": 1, "streams": {'
    '"EVENTS": {"created": "2026-01-31T12:00:00.000000+00:00", "began": 1, "next_seq": 1}, '
    '"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 17, "next_seq": 9007199254740993}}}'
)
GOLDEN_INITIAL = (
    '{"version": 1, "initial": true, "streams": {'
    '"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 17, "next_seq": 17}}}'
)
# The end of batch 0. Its `began` is the start of the query; the `initial` offset may have moved since.
GOLDEN_FIRST_BATCH = (
    '{"version": 1, "streams": {'
    '"ORDERS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 17, "next_seq": 20}}}'
)
# A work queue: its head moves as messages are acknowledged, and `began` stays.
GOLDEN_WORK_QUEUE = (
    '{"version": 1, "streams": {'
    '"JOBS": {"created": "2026-01-31T12:00:00.123456+00:00", "began": 1, "next_seq": 58}}}'
)
GOLDEN_EMPTY = '{"version": 1, "streams": {}}'


def at(next_seq: int, *, began: int = 1, created: datetime = CREATED) -> StreamOffset:
    return StreamOffset(created=created, began=began, next_seq=next_seq)


def text(offset: Offset) -> str:
    """The text that Spark stores."""
    return json.dumps(offset.to_json())


def spans(start: Offset, end: Offset) -> list[tuple[str, int, int]]:
    return [(each.stream, each.first_seq, each.next_seq) for each in ranges_between(start, end)]


# --- the text


@for_each(
    ("golden", "offset"),
    [
        (
            GOLDEN,
            Offset(
                {
                    "ORDERS": at(9007199254740993, began=17),
                    "EVENTS": at(1, created=CREATED.replace(microsecond=0)),
                }
            ),
        ),
        (GOLDEN_INITIAL, Offset({"ORDERS": at(17, began=17)}, initial=True)),
        (GOLDEN_FIRST_BATCH, Offset({"ORDERS": at(20, began=17)})),
        (GOLDEN_WORK_QUEUE, Offset({"JOBS": at(58)})),
        (GOLDEN_EMPTY, Offset({})),
    ],
    ids=["two-streams", "initial", "first-batch", "work-queue", "empty"],
)
def test_version_1_is_read_and_written_as_it_always_was(golden: str, offset: Offset) -> None:
    assert Offset.from_json(json.loads(golden)) == offset
    assert text(offset) == golden


def test_a_stored_first_batch_reads_from_where_the_query_began() -> None:
    initial, first = (
        Offset.from_json(json.loads(GOLDEN_INITIAL)),
        Offset.from_json(json.loads(GOLDEN_FIRST_BATCH)),
    )
    assert spans(initial, first) == [("ORDERS", 17, 20)]
    assert spans(first, first) == []


moments = st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC))
stream_offsets = st.builds(
    StreamOffset, created=moments, began=st.integers(1, 2**63), next_seq=st.integers(1, 2**63)
)
offsets = st.builds(Offset, st.dictionaries(st.text(min_size=1), stream_offsets), st.booleans())


@given(offsets)
def test_whatever_is_written_is_read_again(offset: Offset) -> None:
    assert Offset.from_json(json.loads(text(offset))) == offset


@given(offsets)
def test_equal_offsets_are_equal_texts_whatever_order_they_were_made_in(offset: Offset) -> None:
    turned = Offset(dict(reversed([*offset.streams.items()])), offset.initial)
    assert text(turned) == text(offset)


def test_a_time_of_another_zone_is_the_same_moment() -> None:
    written = json.loads(GOLDEN_INITIAL)
    written["streams"]["ORDERS"]["created"] = "2026-01-31T14:00:00.123456+02:00"
    offset = Offset.from_json(written)
    assert offset.streams["ORDERS"].created == CREATED
    assert offset.streams["ORDERS"].created.tzinfo == timezone(timedelta(hours=2))


@for_each("version", [2, 0, "1", None])
def test_another_version_is_refused_by_its_number(version: object) -> None:
    with pytest.raises(UsageError, match=f"version {version!r}") as caught:
        Offset.from_json({"version": version, "streams": {}})
    assert "checkpointLocation" in str(caught.value)


def test_an_offset_of_another_source_is_refused() -> None:
    with pytest.raises(UsageError, match="version None"):
        Offset.from_json({"topic": {"0": 5}})


@for_each(
    "damaged",
    [
        {},
        {"streams": None},
        {"streams": ["ORDERS"]},
        {"streams": {"ORDERS": 5}},
        {"streams": {"ORDERS": {"created": "2026-01-31", "began": 1}}},
        {"streams": {"ORDERS": {"created": "now", "began": 1, "next_seq": 1}}},
        {"streams": {"ORDERS": {"created": "2026-01-31", "began": 1, "next_seq": "x"}}},
    ],
    ids=str,
)
def test_a_damaged_offset_is_refused(damaged: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not of format jetstream"):
        Offset.from_json({"version": 1, **damaged})


# --- the ranges between two offsets


def test_a_batch_goes_from_one_end_to_the_next() -> None:
    start, end = Offset({"A": at(5), "B": at(9)}), Offset({"A": at(8), "B": at(9)})
    assert ranges_between(start, end) == [StreamRange(stream="A", created=CREATED, first_seq=5, next_seq=8)]


def test_between_equal_offsets_there_is_nothing() -> None:
    offset = Offset({"A": at(5), "B": at(9)})
    assert ranges_between(offset, offset) == []


def test_the_first_batch_trusts_its_end_and_not_a_start_that_has_moved() -> None:
    moved = Offset({"A": at(50, began=50)}, initial=True)
    assert spans(moved, Offset({"A": at(20, began=7)})) == [("A", 7, 20)]
    missing = Offset({}, initial=True)
    assert spans(missing, Offset({"A": at(20, began=7)})) == [("A", 7, 20)]


def test_a_first_batch_without_messages_is_followed_by_one_from_the_beginning() -> None:
    nothing_yet = Offset({"A": at(7, began=7)}, initial=True)
    assert spans(nothing_yet, nothing_yet) == []
    assert spans(nothing_yet, Offset({"A": at(9, began=7)})) == [("A", 7, 9)]


def test_a_stream_that_joins_is_read_from_where_it_began() -> None:
    assert spans(Offset({"A": at(5)}), Offset({"A": at(6), "B": at(4, began=3)})) == [
        ("A", 5, 6),
        ("B", 3, 4),
    ]


def test_a_stream_that_is_left_out_is_not_read() -> None:
    assert spans(Offset({"A": at(5), "B": at(5)}), Offset({"A": at(6)})) == [("A", 5, 6)]


def test_a_stream_that_was_created_again_is_read_from_where_it_began() -> None:
    again = at(3, began=1, created=LATER)
    assert ranges_between(Offset({"A": at(500)}), Offset({"A": again})) == [
        StreamRange(stream="A", created=LATER, first_seq=1, next_seq=3)
    ]
    assert spans(Offset({"A": at(2)}), Offset({"A": again})) == [("A", 1, 3)]


@for_each("began", [1, 20, 70, 99], ids="began at {}".format)
def test_a_stream_that_was_rolled_back_is_read_from_its_new_end(began: int) -> None:
    """Even if the query began after the new end."""
    before, back = at(100, began=began), at(50, began=50)
    assert spans(Offset({"A": before}), Offset({"A": back})) == []
    assert spans(Offset({"A": before}), Offset({"A": at(60, began=50)})) == [("A", 50, 60)]
    assert spans(Offset({"A": back}), Offset({"A": at(60, began=50)})) == [("A", 50, 60)]


def test_an_end_before_the_start_reads_nothing() -> None:
    assert spans(Offset({"A": at(100)}), Offset({"A": at(50)})) == []


@given(st.lists(st.dictionaries(st.sampled_from("ABC"), st.integers(0, 5)), max_size=8))
def test_successive_batches_read_every_sequence_once(steps: list[dict[str, int]]) -> None:
    """Streams join, grow and rest; each batch starts where the last one ended."""
    offset = Offset({"A": at(4, began=4)}, initial=True)
    read: dict[str, list[int]] = {}
    for step in steps:
        streams = dict(offset.streams)
        for name, more in step.items():
            here = streams.get(name, at(2, began=2))
            streams[name] = at(here.next_seq + more, began=here.began)
        end = Offset(streams, offset.initial and streams == offset.streams)
        for each in ranges_between(offset, end):
            read.setdefault(each.stream, []).extend(range(each.first_seq, each.next_seq))
        offset = end
    wanted = {name: list(range(s.began, s.next_seq)) for name, s in offset.streams.items()}
    assert read == {name: sequences for name, sequences in wanted.items() if sequences}
