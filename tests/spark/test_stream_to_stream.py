"""From stream to stream, while the driver is killed again and again: each message once in the other."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from jetspark.blocking import Stream
from tests.spark.driver import Driver
from tests.spark.support import LONG, Bench
from tests.spark.traffic import Traffic
from tests.spark.writing import payloads
from tests.support.ledger import Ledger
from tests.support.waiting import wait_until


class Progress(NamedTuple):
    """The last batches that have their offsets and their commit, -1 for none; what the other stream has."""

    planned: int
    committed: int
    stored: int

    @classmethod
    def of(cls, place: Path, target: Stream) -> Progress:
        # What is stored is asked first: rows of a batch committed meanwhile are not those of a new one.
        stored = target.info().state.messages
        return cls(_last(place / "checkpoint/offsets"), _last(place / "checkpoint/commits"), stored)


def _last(log: Path) -> int:
    names = os.listdir(log) if log.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def planned(before: Progress, now: Progress) -> bool:
    """A new batch has its offsets, and Spark knows nothing else of it."""
    return now.planned > max(before.planned, now.committed)


def written(before: Progress, now: Progress) -> bool:
    """Some or all rows of a batch are in the other stream, and Spark does not know it."""
    return planned(before, now) and now.stored > before.stored


def committed(before: Progress, now: Progress) -> bool:
    """A batch is done, and the next one not begun."""
    return now.committed > before.committed and now.committed == now.planned


Aim = Callable[[Progress, Progress], bool]


def kill_when(driver: Driver, aim: Aim, look: Callable[[], Progress], batches: int) -> None:
    """Kill a driver at that point, after some batches: stopped when seen there, killed if it still is."""
    start = previous = look()
    deadline = time.monotonic() + LONG
    while True:
        now = look()
        assert time.monotonic() < deadline, f"{aim.__name__} not seen in {LONG} s, {now}"
        # What is stored counts from the moment when the batch before was done, if that was seen.
        seen = previous.planned == previous.committed == now.committed
        stored = previous.stored if seen else sys.maxsize
        before = Progress(start.planned + batches, start.committed + batches, stored)
        if aim(before, now):
            driver.freeze()
            if aim(before, look()):
                driver.kill()
                return
            driver.thaw()
        if now.planned == now.committed:
            previous = now._replace(stored=look().stored)
        driver.program.check()
        time.sleep(0.002)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_no_message_is_lost_or_doubled_when_the_driver_is_killed_three_times(
    bench: Bench, tmp_path: Path
) -> None:
    ledger = Ledger()
    # It remembers ids for long enough here, and for less than is asked for by default.
    source, name = bench.stream(), bench.stream(duplicate_window=115)
    target = bench.js.get_stream(name)
    to = {"servers": bench.url, "subject": f"{name}.done"}
    between = [planned, committed, None]
    aims: list[Aim | None] = [written, ledger.random.choice(between), written]
    with Traffic(bench.js, source, ledger, burst=2) as traffic, ExitStack() as drivers:

        def stand_by(number: int) -> Driver:
            most = 300 if number < len(aims) else 1_000_000  # The last one has to catch up.
            options = bench.options(
                source, startingPosition="earliest", maxMessagesPerTrigger=most, minPartitions=2
            )
            driver = Driver(tmp_path, options, name=f"driver{number}", target=to)
            return drivers.enter_context(driver)

        waiting = stand_by(0)
        for number, aim in enumerate(aims):
            driver = waiting
            driver.go()
            waiting = stand_by(number + 1)  # The next one is up when this one falls.
            if aim is None:
                time.sleep(ledger.random.uniform(0, 3))
                driver.kill()
            else:
                batches = ledger.random.randrange(3) if number else 0
                kill_when(driver, aim, lambda: Progress.of(tmp_path, target), batches)
            now = Progress.of(tmp_path, target)
            print(f"killed {aim.__name__ if aim else 'anywhere'} at {now}")
        waiting.go()
        traffic.stop()
        wait_until(lambda: _is_done(tmp_path, target, len(ledger.attempted), waiting), "all to be done", LONG)
        said = waiting.program.said()

    for text in payloads(bench.js, name):
        ledger.read(text.removeprefix("done ").encode())
    ledger.verify(complete=True, ordered=False)

    # The batch that the last one had not finished was tried again, and rows of it were there.
    lines = re.findall(r"INFO jetspark: batch (\d+) wrote (\d+) rows \((\d+) already stored\) in \S+ s", said)
    assert int(lines[0][2]) > 0
    assert all(0 <= int(there) <= int(rows) for _, rows, there in lines)
    assert (
        f"WARNING jetspark: stream {name} forgets message ids after 115 s, minDuplicateWindow is 120" in said
    )


def _is_done(place: Path, target: Stream, count: int, driver: Driver) -> bool:
    """Whether everything is in the other stream, and Spark knows it."""
    driver.program.check()
    now = Progress.of(place, target)
    return now.stored >= count and now.planned == now.committed
