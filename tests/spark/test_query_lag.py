"""`lag`: what the offsets in the progress of a query say; without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jetspark import UsageError
from jetspark.spark import Lag, lag
from jetspark.spark.query_lag import end_offsets
from tests.support.cases import for_each


def offset(**next_seq: int) -> dict[str, Any]:
    return {
        "version": 1,
        "streams": {
            name: {"created": "2026-01-31T12:00:00.123456+00:00", "began": 1, "next_seq": number}
            for name, number in next_seq.items()
        },
    }


def progress(end: object, latest: object, *others: dict[str, Any]) -> dict[str, Any]:
    return {"sources": [{"endOffset": end, "latestOffset": latest}, *others]}


def test_the_lag_is_counted_by_stream_and_in_all() -> None:
    found = lag(progress(offset(A=3, B=10), offset(A=6, B=10, C=5)))
    assert found == Lag(7, {"A": 3, "B": 0, "C": 4})


@pytest.mark.parametrize("write", [json.dumps, repr], ids=["json", "before-4.2"])
def test_offsets_may_be_text(write: Any) -> None:
    assert lag(progress(write(offset(A=3)), write(offset(A=6)))) == Lag(3, {"A": 3})


def test_a_progress_may_be_json() -> None:
    assert lag(json.dumps(progress(offset(A=3), offset(A=6)))) == Lag(3, {"A": 3})


def test_a_stream_that_was_created_again_is_behind_by_all_its_messages() -> None:
    latest = offset(A=6)
    latest["streams"]["A"] |= {"created": "2026-02-01T12:00:00.000000+00:00", "began": 2}
    assert lag(progress(offset(A=100), latest)) == Lag(4, {"A": 4})


def test_other_sources_do_not_count() -> None:
    kafka = {"endOffset": {"topic": {"0": 5}}, "latestOffset": {"topic": {"0": 9}}}
    rate = {"endOffset": "7", "latestOffset": "None"}
    found = progress(offset(A=3), offset(A=6), kafka, rate)
    assert lag(found) == Lag(3, {"A": 3})
    assert end_offsets(found) == [offset(A=3)]
    assert lag({"sources": [kafka, rate]}) is None


def test_the_lag_of_a_worker_and_a_missing_end_are_unknown() -> None:
    worker = {"version": 1, "consumer": "w", "batch": 1, "streams": {"A": {"delivered": {"1": "1-5"}}}}
    assert lag(progress(worker, "None")) is None
    assert lag(progress(offset(A=1), None)) is None


@for_each("wrong", ["", "{", "[]", {}, {"sources": 1}, "[" * 100_000])
def test_something_else_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="not the progress of a query"):
        lag(wrong)


@pytest.mark.parametrize(
    "wrong",
    ["[" * 100_000, {"version": 1, "streams": 1}, {"version": 1, "streams": {"A": {"next_seq": "1"}}}],
)
def test_an_offset_of_another_shape_is_not_ours(wrong: Any) -> None:
    assert end_offsets(progress(wrong, wrong)) == []


def test_the_function_stays_a_function_after_its_users_are_imported() -> None:
    import jetspark.spark.listener

    assert callable(jetspark.spark.lag)
