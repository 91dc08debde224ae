"""The Spark sink: generated rows are written to a stream, with two cores and a warm session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

import jetspark.blocking
from bench import raw
from bench.fast_ingest import publish_fast
from bench.harness import Contender, Measurement, Sample
from bench.processor import COLUMNS, CORES, metered, server, session
from jetspark import StreamConfig

SUBJECT: Final = "bench.sink"
#: The default `maxPending` of the sink.
WINDOW: Final = 4096


class Bed:
    def __init__(self, js: jetspark.blocking.JetStream, size: int) -> None:
        self.payload = b"x" * size
        self._js = js

    @contextmanager
    def stream(self, count: int) -> Iterator[None]:
        """An empty stream, which must hold every message once at the end."""
        config = StreamConfig(name="SINK", subjects=[SUBJECT], allow_atomic=True, allow_batched=True)
        stream = self._js.create_stream(config)
        try:
            yield
            stored = stream.info().state.messages
            if stored != count:
                raise RuntimeError(f"{stored} messages are stored, not {count}")
        finally:
            self._js.delete_stream("SINK")

    def write(self, count: int, *columns: Column, **options: str) -> None:
        writer = self._rows(count, *columns).write.format("jetstream").mode("append").options(**options)
        writer.option("servers", server().url).option("subject", SUBJECT).save()

    def _rows(self, count: int, *columns: Column) -> DataFrame:
        # Computed for each row: Spark would replace anything simpler by a literal.
        text = f.rpad(f.substring(f.col("id").cast("string"), 1, 0), len(self.payload), "x")
        return session().range(count, numPartitions=CORES).select(text.alias("data"), *columns)

    def publish_raw(self, count: int, *, message_ids: bool) -> None:
        raw.publish_acknowledged(server().port, SUBJECT, self.payload, count, WINDOW, message_ids=message_ids)

    def publish_fast(self, count: int, *, message_ids: bool) -> None:
        publish_fast(server().port, SUBJECT, self.payload, count, message_ids=message_ids)


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    session()
    with jetspark.blocking.connect(server().url) as nc:
        bed = Bed(nc.jetstream(timeout=30), size)
        for contender in WRITE.contenders[:3]:  # Warm-up: the JVM loads classes and compiles code.
            contender.run(bed, max(count // 4, 2))
        yield bed


def _header() -> Column:
    return f.create_map(f.lit("Source"), f.lit("bench")).alias("headers")


def writes(work: Callable[[Bed, int], None]) -> Callable[[Bed, int], Sample]:
    """A run with its own stream."""

    def run(bed: Bed, count: int) -> Sample:
        with bed.stream(count):
            return metered(count, lambda: work(bed, count))

    return run


WRITE: Final = Measurement(
    name="spark-write",
    title="Writing from Spark",
    text=f"""
    Spark generates rows and writes them to one subject of a stream on disk, with `local[2]` and a warm
    session. The sink is compared with a raw socket with {WINDOW:,} messages in flight, with message ids
    (the sink has them, to drop duplicates) and without, and with a raw socket that uses fast ingest.
    Atomic batches of 1,000 rows are sent one after the other in each task. CPU time is in seconds per
    million rows.
    """,
    bed=bed,
    contenders=(
        Contender("jetspark", writes(lambda bed, n: bed.write(n)), "jetspark"),
        Contender("jetspark, with a header", writes(lambda bed, n: bed.write(n, _header())), "jetspark"),
        Contender(
            "jetspark, atomic", writes(lambda bed, n: bed.write(n, publishMode="atomic")), "jetspark", fewer=2
        ),
        Contender(
            "raw socket, ids", writes(lambda bed, n: bed.publish_raw(n, message_ids=True)), "raw socket"
        ),
        Contender(
            "raw socket, no ids", writes(lambda bed, n: bed.publish_raw(n, message_ids=False)), "raw socket"
        ),
        Contender(
            "raw socket, fast ingest, ids",
            writes(lambda bed, n: bed.publish_fast(n, message_ids=True)),
            "raw socket",
        ),
        Contender(
            "raw socket, fast ingest, no ids",
            writes(lambda bed, n: bed.publish_fast(n, message_ids=False)),
            "raw socket",
        ),
    ),
    count=200_000,
    quick=1_000,
    rounds=3,
    columns=COLUMNS,
    ceiling="raw socket, ids",
)
