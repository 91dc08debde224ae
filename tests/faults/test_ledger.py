"""The oracle itself: it must see every kind of fault, or it proves nothing."""

from __future__ import annotations

import pytest

from tests.support.ledger import Ledger


def filled(count: int) -> Ledger:
    ledger = Ledger(seed=1)
    for _ in range(count):
        ledger.attempt("a")
    ledger.acknowledge_all()
    return ledger


def read(ledger: Ledger, *payloads: bytes) -> Ledger:
    for payload in payloads:
        ledger.read(payload)
    return ledger


def test_what_was_acknowledged_and_read_in_order_passes() -> None:
    ledger = read(filled(3), b"a-1", b"a-2", b"a-3")
    ledger.verify(complete=True)


def test_writers_count_for_themselves() -> None:
    ledger = Ledger()
    assert [ledger.attempt("a"), ledger.attempt("b"), ledger.attempt("a")] == [b"a-1", b"b-1", b"a-2"]
    read(ledger, b"b-1", b"a-1", b"a-2").verify(complete=True)


def test_padding_makes_messages_large_and_is_not_part_of_their_name() -> None:
    ledger = Ledger()
    payload = ledger.attempt("a", size=100)
    assert len(payload) == 100
    ledger.acknowledge(payload)
    read(ledger, payload).verify(complete=True)


def test_an_acknowledged_message_that_was_not_read_is_lost() -> None:
    ledger = read(filled(3), b"a-1", b"a-3")
    assert ledger.lost == [b"a-2"]
    with pytest.raises(AssertionError, match=r"3 attempted.*\n  1 lost though acknowledged: a-2"):
        ledger.verify()
    ledger.verify(lossless=False)


def test_an_unacknowledged_message_may_be_missing_unless_completeness_is_asked_for() -> None:
    ledger = filled(1)
    ledger.attempt("a")
    read(ledger, b"a-1").verify()
    with pytest.raises(AssertionError, match="1 attempted and not read: a-2"):
        ledger.verify(complete=True)


def test_a_message_read_twice_is_a_duplicate_and_no_disorder() -> None:
    ledger = read(filled(2), b"a-1", b"a-2", b"a-1")
    assert ledger.duplicated == [b"a-1"]
    assert ledger.disordered == []
    with pytest.raises(AssertionError, match="1 read more than once: a-1"):
        ledger.verify()
    ledger.verify(unique=False)


def test_a_message_after_a_later_one_is_out_of_order() -> None:
    ledger = read(filled(10), *(b"a-%d" % n for n in (1, 2, 10, 3, 4, 5, 6, 7, 8, 9)))
    assert ledger.disordered == [b"a-3", b"a-4", b"a-5", b"a-6", b"a-7", b"a-8", b"a-9"]
    with pytest.raises(AssertionError, match="7 out of order: a-3, a-4"):
        ledger.verify()
    ledger.verify(ordered=False)


def test_what_was_never_attempted_or_was_refused_is_unexpected() -> None:
    ledger = filled(1)
    ledger.refuse(ledger.attempt("a"))
    read(ledger, b"a-1", b"a-2", b"garbage")
    assert ledger.unexpected == [b"a-2", b"garbage"]
    with pytest.raises(AssertionError, match="2 unexpected: a-2, garbage"):
        ledger.verify(lossless=False, unique=False, ordered=False)


def test_a_long_list_is_cut_and_the_seed_is_told() -> None:
    with pytest.raises(
        AssertionError, match=r"(?s)JETSPARK_TEST_SEED=1.*20 lost .*: a-1, .* and 12 more"
    ) as caught:
        filled(20).verify()
    assert "a-9" not in str(caught.value)


def test_the_seed_of_the_environment_repeats_the_randomness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Ledger()
    assert f"JETSPARK_TEST_SEED={first.seed}" in capsys.readouterr().out
    monkeypatch.setenv("JETSPARK_TEST_SEED", str(first.seed))
    assert Ledger().random.random() == first.random.random()
