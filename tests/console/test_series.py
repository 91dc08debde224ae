"""Counters and levels over time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.console.series import SPAN, STEP, Meter, Series


def test_a_series_has_the_levels_and_the_rates_of_its_counters() -> None:
    series = Series(2)
    for index in range(4):
        assert series.add(100 + index * STEP, index * 50, index)
    assert series.level(1) == [(100.0, 0.0), (105.0, 1.0), (110.0, 2.0), (115.0, 3.0)]
    assert series.rate(0) == [(105.0, 10.0), (110.0, 10.0), (115.0, 10.0)]


def test_a_sample_that_comes_too_early_is_dropped_and_its_growth_is_not() -> None:
    series = Series(1)
    assert series.add(0, 0)
    assert not series.add(1, 10)
    assert series.add(5, 100)
    assert series.rate(0) == [(5.0, 20.0)]


def test_a_counter_that_begins_again_does_not_fall() -> None:
    series = Series(1)
    series.add(0, 1000)
    series.add(5, 10)
    assert series.rate(0) == [(5.0, 0.0)]
    meter = Meter(0, 1000)
    meter.read(2, 10)
    assert meter.rate == 5


@given(st.integers(0, 2000))
def test_a_series_covers_15_minutes_in_bounded_memory(samples: int) -> None:
    series = Series(1)
    for index in range(samples):
        series.add(index * STEP, index)
    points = series.level(0)
    assert len(series) <= 2 * SPAN / STEP
    assert len(points) == min(samples, SPAN / STEP + 1)
    assert not points or points[-1] == ((samples - 1) * STEP, samples - 1)


def test_a_meter_waits_for_a_second() -> None:
    meter = Meter(0, 0)
    meter.read(0.1, 100)
    assert meter.rate == 0
    meter.read(2, 200)
    assert meter.rate == 100
