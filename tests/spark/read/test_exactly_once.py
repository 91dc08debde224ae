"""Drivers and servers are killed while messages come in: each row once in the output."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from jetspark import blocking
from jetspark.server import Server
from tests.spark.driver import Driver
from tests.spark.support import Bench, assert_exactly, expected, finish, texts, to_parquet
from tests.spark.traffic import Traffic, read_rest
from tests.support.effort import effort
from tests.support.ledger import Ledger
from tests.support.waiting import wait_until

LONG = 120  # seconds; only a hang takes so long


class Progress(NamedTuple):
    """The last batches whose files are written; -1 for none. Spark writes them in this order."""

    planned: int
    written: int
    committed: int

    @classmethod
    def of(cls, place: Path) -> Progress:
        return cls(
            _last(place / "checkpoint/offsets"),
            _last(place / "out/_spark_metadata"),
            _last(place / "checkpoint/commits"),
        )


def _last(log: Path) -> int:
    if not log.exists():
        return -1
    names = [name.removesuffix(".compact") for name in os.listdir(log)]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def planned(before: Progress, now: Progress) -> bool:
    """A new batch has its offsets, and nothing else yet."""
    return now.planned > max(before.planned, now.written)


def written(before: Progress, now: Progress) -> bool:
    """A batch is in the output, and Spark does not know it."""
    return now.written > max(before.written, now.committed)


def committed(before: Progress, now: Progress) -> bool:
    """A batch is done, and the next one not begun."""
    return now.committed > before.committed and now.committed == now.planned


Aim = Callable[[Progress, Progress], bool]


def kill_when(driver: Driver, place: Path, aim: Aim, batches: int) -> None:
    """Kill a driver at that point, after some batches: stopped when seen there, killed if it still is."""
    before = Progress(*(number + batches for number in Progress.of(place)))
    deadline = time.monotonic() + LONG
    while True:
        assert time.monotonic() < deadline, f"{aim.__name__} not seen in {LONG} s, {Progress.of(place)}"
        if aim(before, Progress.of(place)):
            driver.freeze()
            if aim(before, Progress.of(place)):
                driver.kill()
                return
            driver.thaw()
        driver.program.check()
        time.sleep(0.002)


def test_a_query_whose_driver_is_killed_goes_on_in_another_session(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    bench.publish(stream, 1000)
    options = bench.options(stream, startingPosition="earliest", maxMessagesPerTrigger=50)
    with Driver(tmp_path, options, name="driver") as driver:
        driver.go()
        wait_until(lambda: Progress.of(tmp_path).committed >= 0, "a batch", LONG)
        driver.kill()
    finish(to_parquet(bench.read_stream(spark, stream), tmp_path))
    assert_exactly(texts(spark.read.parquet(str(tmp_path / "out"))), expected(1000))


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_no_row_is_lost_or_doubled_when_the_driver_is_killed_again_and_again(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    ledger = Ledger()
    stream = bench.stream()
    # It begins with "latest", which must stay what it was when the first batch is tried again.
    options = bench.options(stream, maxMessagesPerTrigger=300, minPartitions=2)
    aims: list[Aim | None] = [written, planned, committed, None]
    aims = aims * effort(1, 3)
    ledger.random.shuffle(aims)
    aims.insert(0, planned)
    with Traffic(bench.js, stream, ledger) as traffic, ExitStack() as drivers:
        wait_until(lambda: bool(traffic.sequences), "messages before the query")
        waiting = drivers.enter_context(Driver(tmp_path, options, name="driver0"))
        for number, aim in enumerate(aims, 1):
            driver = waiting
            driver.go()
            if number < len(aims):  # The next one is up when this one falls.
                waiting = drivers.enter_context(Driver(tmp_path, options, name=f"driver{number}"))
            if aim is None:
                time.sleep(ledger.random.uniform(0, 3))
                driver.kill()
            else:
                kill_when(driver, tmp_path, aim, batches=ledger.random.randrange(4) if number > 1 else 0)
            print(f"killed {aim.__name__ if aim else 'anywhere'} at {Progress.of(tmp_path)}")
        traffic.stop()
    read_rest(bench.read_stream(spark, stream, minPartitions=2), tmp_path)

    first = began(tmp_path, stream)
    earlier = [payload for payload, sequence in traffic.sequences.items() if sequence < first]
    found = [text.encode() for text in texts(spark.read.parquet(str(tmp_path / "out")))]
    for payload in earlier + found:
        ledger.read(payload)
    ledger.verify(complete=True, ordered=False)


def began(place: Path, stream: str) -> int:
    """Where the first batch began, as the checkpoint has it."""
    offset = json.loads((place / "checkpoint/offsets/0").read_text().splitlines()[2])
    return int(offset["streams"][stream]["began"])


@pytest.mark.faults
def test_no_row_is_lost_or_doubled_when_the_server_is_killed_four_times(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    ledger = Ledger()
    with ExitStack() as stack:
        connection = stack.enter_context(blocking.connect(server.url))
        bench = Bench(server.url, connection.jetstream(timeout=30))
        stream = bench.stream()
        frame = bench.read_stream(
            spark, stream, startingPosition="earliest", maxMessagesPerTrigger=1000, minPartitions=2
        )
        query = to_parquet(frame, tmp_path, processingTime="0 seconds")
        stack.callback(query.stop)
        traffic = stack.enter_context(Traffic(bench.js, stream, ledger))
        for _ in range(4):
            done = Progress.of(tmp_path).committed
            wait_until(partial(lambda done: Progress.of(tmp_path).committed > done, done), "a batch", LONG)
            time.sleep(ledger.random.uniform(0, 1))
            server.kill()
            time.sleep(ledger.random.uniform(0, 1))
            server.start()
        traffic.stop()
        query.processAllAvailable()
    for text in texts(spark.read.parquet(str(tmp_path / "out"))):
        ledger.read(text.encode())
    ledger.verify(complete=True, ordered=False)
