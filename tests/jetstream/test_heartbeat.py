"""When a missed heartbeat is noticed: at the moment at which it is missed, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.heartbeat import HeartbeatMonitor
from tests.support.cases import for_each


class Clock:
    """The part of an event loop that a monitor uses. `run` moves its time from timer to timer."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle | None:
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, callback, args))
        return None

    def run(self, until: float, *, blocked: float = 0.0) -> None:
        """Run all timers up to a time; the program blocks the loop for so long first."""
        self.now += blocked
        while self._timers and self._timers[0][0] <= until:
            when, _, callback, args = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            callback(*args)
        self.now = max(self.now, until)


class Monitored:
    """A monitor on such a clock, and the times at which it reported."""

    def __init__(self, allowed: float, checks: int) -> None:
        self.clock = Clock()
        self.expected = True
        self.missed: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "get_running_loop", lambda: self.clock)
            self.monitor = HeartbeatMonitor(
                allowed,
                checks,
                is_expected=lambda: self.expected,
                on_missed=lambda _: self.missed.append(self.clock.now),
            )
        self.monitor.start()


@for_each(("allowed", "checks"), [(10.0, 2), (15.0, 3), (1.0, 2), (0.3, 3)])
@for_each("heard_after", [0.0, 0.1, 0.499, 0.5, 0.501, 0.99])
def test_silence_is_reported_when_it_has_lasted_so_long_and_not_at_the_next_look(
    allowed: float, checks: int, heard_after: float
) -> None:
    monitored = Monitored(allowed, checks)
    clock = monitored.clock
    clock.run(clock.now + heard_after * allowed)
    monitored.monitor.seen()
    last = clock.now
    clock.run(last + 3.5 * allowed)
    assert monitored.missed == pytest.approx([last + allowed, last + 2 * allowed, last + 3 * allowed])


def test_nothing_is_missed_while_nothing_is_expected() -> None:
    monitored = Monitored(10.0, 2)
    clock = monitored.clock
    monitored.expected = False
    clock.run(clock.now + 1000)
    monitored.expected = True
    monitored.monitor.seen()
    last = clock.now
    clock.run(last + 11)
    assert monitored.missed == pytest.approx([last + 10])


def test_the_time_in_which_the_program_blocked_the_loop_does_not_count() -> None:
    monitored = Monitored(10.0, 2)
    clock = monitored.clock
    start = clock.now
    clock.run(start + 60, blocked=60)
    assert not monitored.missed
    clock.run(start + 70)
    assert len(monitored.missed) == 1


@given(st.floats(0.1, 90), st.sampled_from([2, 3]), st.lists(st.floats(0, 0.999), max_size=20))
def test_whenever_the_server_was_last_heard_the_report_comes_on_time(
    allowed: float, checks: int, waits: list[float]
) -> None:
    monitored = Monitored(allowed, checks)
    clock = monitored.clock
    for wait in waits:
        clock.run(clock.now + wait * allowed)
        monitored.monitor.seen()
    assert not monitored.missed
    last = clock.now
    clock.run(last + 1.5 * allowed)
    assert monitored.missed == pytest.approx([last + allowed])
