"""The Spark sink: generated rows are written to a stream, with two cores and a warm session.

It is compared with a raw socket that publishes the same messages with a window of the same size, with and
without message ids (the sink has them), and with a raw socket that uses fast ingest, with and without ids.
Each writes to a fresh stream, which must then hold every message once.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import jetspark.blocking
import jetspark.server
from bench import raw
from bench.fast_ingest import publish_fast
from bench.processor import CORES, Meter, session
from jetspark import StreamConfig

SUBJECT = "bench.sink"
#: The default `maxPending` of the sink.
WINDOW = 4096


async def run(arguments: Namespace) -> None:
    """All ways to fill a stream on disk."""
    with jetspark.server.run() as server, jetspark.blocking.connect(server.url) as nc:
        spark = session()
        try:
            suite = SinkSuite(spark, server, nc.jetstream(timeout=30), arguments)
            await suite.compare(arguments)
        finally:
            spark.stop()


class SinkSuite:
    """The ways to write rows, and their stream."""

    def __init__(
        self,
        spark: SparkSession,
        server: jetspark.server.Server,
        js: jetspark.blocking.JetStream,
        arguments: Namespace,
    ) -> None:
        self.spark = spark
        self.server = server
        self.js = js
        self.count = arguments.messages
        self.payload = b"x" * arguments.size

    async def compare(self, arguments: Namespace) -> None:
        headers = f.create_map(f.lit("Source"), f.lit("bench"))
        await Meter(self.spark, self.server, self.count, self.stream).compare(
            f"{self.count} rows of {arguments.size} bytes to a stream",
            {
                "jetspark": lambda: self.write(self.rows()),
                "jetspark, with a header": lambda: self.write(self.rows(headers=headers)),
                "jetspark, atomic": lambda: self.write(self.rows(), publishMode="atomic"),
                "raw, ids": lambda: self.publish_raw(message_ids=True),
                "raw, no ids": lambda: self.publish_raw(message_ids=False),
                "raw, fast ingest, ids": lambda: self.publish_fast(message_ids=True),
                "raw, fast ingest, no ids": lambda: self.publish_fast(message_ids=False),
            },
            arguments,
            peer="raw, no ids",
            ceiling="raw, ids",
        )

    @contextmanager
    def stream(self) -> Iterator[None]:
        """An empty stream, which must hold every message once at the end."""
        config = StreamConfig(name="SINK", subjects=[SUBJECT], allow_atomic=True, allow_batched=True)
        stream = self.js.create_stream(config)
        try:
            yield
            stored = stream.info().state.messages
            if stored != self.count:
                raise RuntimeError(f"{stored} messages are stored, not {self.count}")
        finally:
            self.js.delete_stream("SINK")

    def rows(self, **columns: Column) -> DataFrame:
        # Computed for each row: Spark would replace anything simpler by a literal.
        text = f.rpad(f.substring(f.col("id").cast("string"), 1, 0), len(self.payload), "x")
        more = [column.alias(name) for name, column in columns.items()]
        return self.spark.range(self.count, numPartitions=CORES).select(text.alias("data"), *more)

    def write(self, rows: DataFrame, **options: str) -> None:
        writer = rows.write.format("jetstream").mode("append").options(**options)
        writer.option("servers", self.server.url).option("subject", SUBJECT).save()

    def publish_raw(self, *, message_ids: bool) -> None:
        raw.publish_acknowledged(
            self.server.port, SUBJECT, self.payload, self.count, WINDOW, message_ids=message_ids
        )

    def publish_fast(self, *, message_ids: bool) -> None:
        publish_fast(self.server.port, SUBJECT, self.payload, self.count, message_ids=message_ids)
