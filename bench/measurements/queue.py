"""Spark as a worker of a consumer, beside Spark that reads the same messages by their sequences."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import jetspark.blocking
from bench import raw
from bench.harness import Contender, Measurement, Sample
from bench.processor import COLUMNS, metered, server, session
from jetspark import StreamConfig

#: Messages of a batch, in both modes.
BATCH: Final = 100_000


class Bed:
    """A stream LOG that stays as it is, and a work queue JOBS that is filled before each run."""

    def __init__(self, size: int, directory: Path, js: jetspark.blocking.JetStream) -> None:
        self._payload = b"x" * size
        self._directory = directory
        self._js = js
        self._numbers = itertools.count(1)

    def fill(self, stream: str, count: int) -> None:
        raw.publish_acknowledged(server().port, stream.lower(), self._payload, count, 4096)

    def run(self, stream: str, count: int, **options: str) -> Sample:
        """A query that reads everything to `noop`, in batches."""
        jobs = self._js.get_stream("JOBS")
        if stream == "JOBS":
            jobs.purge()
            self.fill(stream, count)
        reader = session().readStream.format("jetstream").option("servers", server().url)
        frame = reader.options(stream=stream, maxMessagesPerTrigger=str(BATCH), **options).load()
        place = str(self._directory / str(next(self._numbers)))
        rows = 0

        def work() -> None:
            nonlocal rows
            writer = frame.writeStream.format("noop").option("checkpointLocation", place)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            rows = sum(progress.numInputRows for progress in query.recentProgress)

        sample = metered(count, work)
        left = jobs.info().state.messages if "consumer" in options else 0
        if rows != count or left:
            raise RuntimeError(f"{rows} rows, not {count}; {left} messages are left in the queue")
        return sample


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    session()
    with tempfile.TemporaryDirectory() as directory, jetspark.blocking.connect(server().url) as nc:
        js = nc.jetstream(timeout=30)
        js.create_stream(StreamConfig(name="LOG", subjects=["log"]))
        js.create_stream(
            StreamConfig(name="JOBS", subjects=["jobs"], retention="workqueue", allow_direct=True)
        )
        bed = Bed(size, Path(directory), js)
        bed.fill("LOG", count)
        for contender in QUEUE.contenders:
            contender.run(bed, count)  # Warm-up: the JVM loads classes and compiles code.
        yield bed
        for name in ("LOG", "JOBS"):
            js.delete_stream(name)


def by_offsets(stream: str) -> Contender:
    name = {"LOG": "offsets, stream", "JOBS": "offsets, work queue"}[stream]
    return Contender(name, lambda bed, n: bed.run(stream, n, startingPosition="earliest"), "jetspark")


QUEUE: Final = Measurement(
    name="queue",
    title="Spark as a worker",
    text=f"""
    A streaming query to `noop` with `local[2]` and a warm session, in batches of {BATCH:,} messages: by
    offsets from a plain stream and from a work queue, which both stay as they are; and with the option
    `consumer`, which pulls every message from a durable consumer, reads it from the stream, and
    acknowledges it, so that the work queue is empty in the end. CPU time is in seconds per million rows.
    """,
    bed=bed,
    contenders=(
        by_offsets("LOG"),
        by_offsets("JOBS"),
        Contender("consumer, work queue", lambda bed, n: bed.run("JOBS", n, consumer="worker"), "jetspark"),
    ),
    count=400_000,
    quick=2_000,
    rounds=3,
    columns=COLUMNS,
    peer="offsets, work queue",
)
