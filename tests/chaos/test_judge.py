"""The judge sees everything that must not be, and nothing else."""

from __future__ import annotations

import pytest

from chaos.judge import judge
from chaos.record import Letters, Record

STORED = {1: b"w-1", 2: b"w-2", 3: b"w-3"}


def written(*stored: bytes) -> Record:
    """Three messages of one writer, acknowledged; these are in the stream."""
    record = Record(seed=1)
    for _ in range(3):
        record.ledger.acknowledge(record.ledger.attempt("w"))
    record.in_order.add("w")
    record.stored = dict(enumerate(stored, start=1))
    return record


def read(*sequences: int, ordered: bool, data: bytes | None = None) -> Record:
    """A stream that was read so. Each delivery has its own reply subject."""
    record = written(*STORED.values())
    reading = record.reading("r", ordered=ordered)
    for number, sequence in enumerate(sequences):
        reading.add(sequence, f"delivery {number}", data or STORED.get(sequence, b"?"))
    return record


def test_what_is_stored_once_and_read_in_order_is_right() -> None:
    assert judge(read(1, 2, 3, ordered=True), forgetful=False) == []
    assert judge(read(1, 3, 2, 3, ordered=False), forgetful=False) == []


@pytest.mark.parametrize(
    ("stored", "finding"),
    [
        ((b"w-1", b"w-3"), "1 acknowledged and not stored: w-2"),
        ((b"w-1", b"w-2", b"w-3", b"w-1"), "1 stored more than once: w-1"),
        ((b"w-1", b"w-2", b"w-3", b"x-1"), "1 stored though refused, or never published: x-1"),
        ((b"w-1", b"w-3", b"w-2"), "1 stored out of order: w-2"),
    ],
)
def test_a_stream_that_is_wrong_is_found(stored: tuple[bytes, ...], finding: str) -> None:
    assert judge(written(*stored), forgetful=True) == [finding]


def test_a_message_that_was_refused_must_not_be_stored() -> None:
    record = written(*STORED.values(), b"w-4")
    record.ledger.refuse(record.ledger.attempt("w"))
    assert judge(record, forgetful=True) == ["1 stored though refused, or never published: w-4"]


def test_writers_with_several_messages_in_flight_may_be_stored_out_of_order() -> None:
    record = written(b"w-1", b"w-3", b"w-2")
    record.in_order.clear()
    assert judge(record, forgetful=True) == []


def test_an_atomic_batch_is_stored_as_a_whole_or_not_at_all() -> None:
    record = written(*STORED.values())
    record.batches = [[b"w-1", b"w-2"], [b"a-1", b"a-2"]]
    assert judge(record, forgetful=True) == []
    record = written(*STORED.values())
    record.batches = [[b"w-2", b"a-2"]]
    assert judge(record, forgetful=True) == ["1 atomic batches stored in part, beginning with: w-2"]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("sequences", "finding"),
    [((1, 3), "r: 1 lost: 2"), ((1, 2, 3, 4), "r: 1 delivered and not in the stream: 4")],
)
def test_a_reader_that_is_wrong_is_found(sequences: tuple[int, ...], finding: str, ordered: bool) -> None:
    assert judge(read(*sequences, ordered=ordered), forgetful=False) == [finding]


def test_other_data_is_found() -> None:
    found = judge(read(1, 2, 3, ordered=True, data=b"w-2"), forgetful=False)
    assert found == ["r: 2 delivered with other data: 1, 3"]


def test_an_ordered_reader_gets_nothing_twice_and_nothing_late() -> None:
    assert judge(read(1, 2, 2, 3, ordered=True), forgetful=True) == [
        "r: 1 delivered twice by an ordered reader: 2"
    ]
    assert judge(read(1, 3, 2, ordered=True), forgetful=True) == ["r: 1 delivered out of order: 2"]


def test_the_same_delivery_twice_is_wrong_unless_a_server_may_have_forgotten_it() -> None:
    record = read(1, 2, 3, ordered=False)
    record.readings[0].add(3, "delivery 2", STORED[3])
    assert judge(record, forgetful=False) == ["r: 1 handed over twice, though delivered once: delivery 2"]
    record = read(1, 2, 3, ordered=False)
    record.readings[0].add(3, "delivery 2", STORED[3])
    assert judge(record, forgetful=True) == []


def test_a_message_that_waits_though_nothing_is_down_is_found() -> None:
    record = read(1, 2, 3, ordered=False)
    record.readings[0].longest = 5.0
    assert judge(record, forgetful=True) == []
    record = read(1, 2, 3, ordered=False)
    record.readings[0].longest = 5.0
    assert judge(record, forgetful=True, gentle=True) == ["r: stalled: a message waited 5.0 s for its reader"]


def test_dead_letters_are_compared_with_what_the_server_announced() -> None:
    record = written(*STORED.values())
    letters = record.letters = Letters()
    letters.terminated, letters.announced = {1, 2}, {1, 2}
    letters.returned = [(1, b"w-1"), (2, None)]
    assert judge(record, forgetful=True) == []
    record = written(*STORED.values())
    record.letters = letters
    letters.returned = [(2, b"w-1"), (2, b"w-2"), (3, None)]
    assert judge(record, forgetful=True) == [
        "dead letters: 1 lost: 1",
        "dead letters: 1 returned twice: 2",
        "dead letters: 1 returned and never terminated: 3",
        "dead letters: 1 returned with another message: 2",
    ]


def test_a_stream_that_could_not_be_read_proves_nothing() -> None:
    record = written()
    record.stored = None
    assert judge(record, forgetful=True) == ["the stream could not be read at the end"]
