"""Streams lose messages, or are replaced, while a query reads them and is stopped and started again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jetspark import StreamConfig
from tests.spark.support import Bench, texts, to_parquet
from tests.spark.traffic import read_rest
from tests.support.ledger import Ledger
from tests.support.waiting import wait_until


class Story:
    """A query, its stream, and what may happen to them. What a ledger has acknowledged must be read."""

    def __init__(
        self, spark: SparkSession, bench: Bench, place: Path, ledger: Ledger, **options: Any
    ) -> None:
        self._spark = spark
        self._bench = bench
        self._place = place
        self._ledger = ledger
        self._options = {"startingPosition": "earliest", "maxMessagesPerTrigger": 150, "minPartitions": 2}
        self._options |= options
        self._name = bench.stream()
        self._present: dict[int, bytes] = {}
        """What the stream holds, by sequence."""
        self.query: StreamingQuery | None = None

    def frame(self, **options: Any) -> Any:
        return self._bench.read_stream(self._spark, self._name, **(self._options | options))

    def start(self) -> None:
        self.query = to_parquet(self.frame(), self._place, processingTime="0 seconds")

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
            self.query = None

    def restart(self) -> None:
        """Wherever it is just now."""
        time.sleep(self._ledger.random.uniform(0, 1))
        self.stop()
        self.start()

    def publish(self) -> None:
        with self._bench.js.publisher() as publisher:
            payloads = [self._ledger.attempt() for _ in range(self._ledger.random.randrange(100, 400))]
            acks = [publisher.publish(f"{self._name}.a", payload) for payload in payloads]
            for payload, ack in zip(payloads, acks, strict=True):
                self._present[ack.result(60).sequence] = payload

    def settle(self) -> None:
        """The query reads all there is. What happens to it later is nothing to those messages."""
        if self.query is not None:
            self.query.processAllAvailable()
            self.keep()

    def keep(self) -> None:
        """What is there now must be read, or was."""
        for payload in self._present.values():
            self._ledger.acknowledge(payload)

    # --- what may happen to a stream

    def delete_some(self) -> None:
        """Not the first nor the last one: interior."""
        stream = self._bench.js.get_stream(self._name)
        inside = sorted(self._present)[1:-1]
        for sequence in self._ledger.random.sample(inside, min(len(inside), 20)):
            stream.delete_message(sequence)
            del self._present[sequence]

    def purge_half(self) -> None:
        if not self._present:
            return
        middle = sorted(self._present)[len(self._present) // 2]
        self._bench.js.get_stream(self._name).purge(sequence=middle)
        self._present = {each: payload for each, payload in self._present.items() if each >= middle}

    def purge(self) -> None:
        self._bench.js.get_stream(self._name).purge()
        self._present.clear()

    def age_out(self) -> None:
        stream = self._bench.js.get_stream(self._name)
        stream.update(stream.config.replace(max_age=0.1, duplicate_window=0.1))
        wait_until(lambda: stream.info().state.messages == 0, "the messages to age out", 60)
        stream.update(stream.config.replace(max_age=None))
        self._present.clear()

    def recreate(self) -> None:
        self._bench.js.delete_stream(self._name)
        self._bench.js.create_stream(StreamConfig(name=self._name, subjects=[f"{self._name}.>"]))
        self._present.clear()

    # --- the end

    def verify(self) -> None:
        """Read to the end and compare: all that had to be read is there, nothing twice."""
        self.stop()
        read_rest(self.frame(failOnDataLoss=False), self._place)
        self.keep()
        for text in texts(self._spark.read.parquet(str(self._place / "out"))):
            self._ledger.read(text.encode())
        self._ledger.verify(ordered=False)


@pytest.mark.faults
def test_no_row_comes_twice_and_none_that_is_there_is_lost_whatever_happens_to_the_stream(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    ledger = Ledger()
    story = Story(spark, bench, tmp_path, ledger, failOnDataLoss=False)
    events: list[Callable[[], None]] = [
        story.delete_some,
        story.purge_half,
        story.purge,
        story.age_out,
        story.recreate,
    ]
    ledger.random.shuffle(events)
    try:
        # Spark refuses a checkpoint that was interrupted in the middle of its very first write.
        story.publish()
        story.start()
        story.settle()
        for event in events:
            story.publish()
            before: Callable[[], None] = ledger.random.choice(
                [story.settle, story.restart, story.stop, lambda: None]
            )
            after: Callable[[], None] = ledger.random.choice([story.settle, story.restart, lambda: None])
            print(before.__name__, event.__name__, after.__name__)
            before()
            event()
            story.publish()
            if story.query is None:
                story.start()
            after()
        story.verify()
    finally:
        story.stop()


def test_interior_deletes_are_no_loss_and_a_purge_is(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    ledger = Ledger(seed=1)
    story = Story(spark, bench, tmp_path, ledger)
    try:
        story.publish()
        story.start()
        story.settle()
        for _ in range(3):
            story.publish()
            story.delete_some()
            story.restart()
        story.settle()
        story.stop()
        story.publish()
        story.purge()
        story.start()
        assert story.query is not None
        with pytest.raises(
            StreamingQueryException, match=r"stream S\w+ lost the sequences \[\d+, \d+\): .* purged"
        ):
            story.query.processAllAvailable()
        story.verify()
    finally:
        story.stop()
