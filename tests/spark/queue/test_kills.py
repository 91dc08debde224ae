"""Two Spark queries and a plain worker on one work queue, while each of them is killed and started again.

`make test THOROUGH=1 ARGS="tests/spark/queue/test_kills.py -s"` sends 200,000 messages and kills each five
times.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from pyspark.sql import SparkSession

from jetspark import ConsumerConfig
from tests.spark.driver import Driver
from tests.spark.queue.plain_worker import PlainWorker, handled
from tests.spark.running import ADMISSION_CONTROL
from tests.spark.support import Bench, expected
from tests.support.effort import effort
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not ADMISSION_CONTROL, reason="Spark passes no start offset before 4.2")

MESSAGES = effort(3_000, 200_000)
KILLS = effort(1, 5)
BATCH = effort(100, 5_000)
#: Messages that are published every tenth of a second.
BURST = effort(40, 130)
#: Seconds; only a hang takes so long.
SLOW = float(effort(300, 1800))
QUERIES = ("first", "second")


class Site:
    """The queue, its three workers, and what they have done."""

    def __init__(self, bench: Bench, place: Path, stack: ExitStack) -> None:
        self._bench, self._place, self._stack = bench, place, stack
        self._starts = 0
        self.stream = bench.stream(retention="workqueue", allow_direct=True)
        config = ConsumerConfig(durable_name="worker", ack_wait=5.0, max_ack_pending=10 * BATCH)
        bench.js.create_consumer(self.stream, config)
        for name in (*QUERIES, "plain"):
            (place / name).mkdir()
        self.drivers = {name: self.start_driver(name) for name in QUERIES}
        self.plain = self.start_plain()

    def start_driver(self, name: str) -> Driver:
        self._starts += 1
        options = self._bench.options(self.stream, consumer="worker", maxMessagesPerTrigger=BATCH)
        driver = Driver(self._place / name, options, name=f"driver{self._starts}")
        self._stack.enter_context(driver)
        driver.go()
        return driver

    def start_plain(self) -> PlainWorker:
        worker = PlainWorker(self._place / "plain", self._bench.url, self.stream, "worker")
        self._stack.callback(worker.close)
        return worker

    def done(self, name: str) -> int:
        """How far a worker has come: batches, or bytes of its file."""
        if name == "plain":
            file = self._place / "plain/handled"
            return file.stat().st_size if file.exists() else 0
        log = self._place / name / "checkpoint/commits"
        numbers = [int(each) for each in os.listdir(log) if each.isdigit()] if log.exists() else []
        return max(numbers, default=-1)

    def kill(self, name: str) -> None:
        """Kill a worker, and start it again."""
        if name == "plain":
            self.plain.kill()
            self.plain = self.start_plain()
        else:
            self.drivers[name].kill()
            self.drivers[name] = self.start_driver(name)

    def takes_part(self, name: str, before: int) -> bool:
        """Whether a worker has come further: a query by two batches, so that it has acknowledged one."""
        self.check()
        return self.done(name) > before + (name != "plain")

    def check(self) -> None:
        self.plain.check()
        for driver in self.drivers.values():
            driver.program.check()

    def left(self) -> int:
        self.check()
        return self._bench.js.get_stream(self.stream).cached_info.state.messages

    def rows(self, spark: SparkSession, name: str) -> list[tuple[str, int]]:
        """What a query wrote."""
        table = spark.read.parquet(str(self._place / name / "out"))
        rows = table.selectExpr("string(data) AS text", "num_delivered").collect()
        return [(row.text, row.num_delivered) for row in rows]


class Feeder(threading.Thread):
    """Publishes a little more than the plain worker can handle, until `finish`."""

    def __init__(self, bench: Bench, stream: str) -> None:
        super().__init__(name="feeder")
        self._bench, self._stream = bench, stream
        self._stopping = threading.Event()
        self._sent = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        while not self._stopping.wait(0.1):
            if self._bench.js.get_stream(self._stream).cached_info.state.messages < 20 * BATCH:
                self._publish(BURST)

    def finish(self) -> int:
        """Publish what is missing, and return how many messages there were."""
        self._stopping.set()
        self.join()
        self._publish(max(MESSAGES - self._sent, 0))
        return self._sent

    def _publish(self, count: int) -> None:
        self._bench.publish(self._stream, count, first=self._sent + 1)
        self._sent += count


@pytest.mark.faults
@pytest.mark.timeout(6 * SLOW)
def test_every_message_is_handled_whichever_worker_is_killed(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    seed = os.environ.get("JETSPARK_TEST_SEED") or str(random.randrange(1 << 30))
    print(f"JETSPARK_TEST_SEED={seed}")
    chance = random.Random(seed)
    victims = [*QUERIES, "plain"] * KILLS
    chance.shuffle(victims)
    began = time.monotonic()
    with ExitStack() as stack:
        site = Site(bench, tmp_path, stack)
        feeder = stack.enter_context(Feeder(bench, site.stream))
        for victim in victims:
            before = site.done(victim)
            wait_until(lambda: site.takes_part(victim, before), f"{victim} to take part", SLOW)  # noqa: B023
            time.sleep(chance.random() * 2)
            site.kill(victim)
        sent = feeder.finish()
        wait_until(lambda: site.left() == 0, "an empty queue", SLOW)
    by_query = [site.rows(spark, name) for name in QUERIES]
    everything = [*by_query[0], *by_query[1], *handled(tmp_path / "plain")]
    times = Counter(text for text, _ in everything)
    first_deliveries = Counter(text for text, delivered in everything if delivered == 1)
    figures = {
        "seconds": round(time.monotonic() - began),
        "messages": sent,
        "kills": dict(Counter(victims)),
        "by": [len(rows) for rows in by_query] + [len(everything) - sum(map(len, by_query))],
        "delivered again": sum(delivered > 1 for _, delivered in everything),
        "handled twice": sum(count > 1 for count in times.values()),
        "lost": len(set(expected(sent)) - set(times)),
        "unexpected": len(set(times) - set(expected(sent))),
        # What must not be: twice in the output of one query, or twice although it was delivered once.
        "doubled by a query": sum(len(rows) - len({text for text, _ in rows}) for rows in by_query),
        "doubled by the first delivery": sum(count > 1 for count in first_deliveries.values()),
    }
    print(json.dumps(figures))
    bad = ("lost", "unexpected", "doubled by a query", "doubled by the first delivery")
    assert [figures[each] for each in bad] == [0] * 4, figures
    info = bench.js.consumer_info(site.stream, "worker")
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
