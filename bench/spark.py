"""The Spark source: a stream to `noop` and to Parquet, with two cores and a warm session.

It is compared with a raw socket, which reads the same stream and discards it, and with `spark.range`, which
generates rows of the same width inside the JVM and writes them the same way. A Python source that returns the
same Arrow batch repeatedly shows what Spark itself costs for rows from Python.
"""

from __future__ import annotations

import itertools
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import jetspark.blocking
import jetspark.server
from bench import raw
from bench.processor import Meter, session
from jetspark import AckPolicy, ConsumerConfig, StreamConfig
from jetspark.arrow import record_batch
from jetspark.spark.schema import READ_SCHEMA
from jetspark.wire import MsgFrame

BATCH = 5_000
#: The number of tasks that the source makes for a million messages; the others use the same.
PARTITIONS = 4


async def run(arguments: Namespace) -> None:
    """Both sinks, against streams on disk."""
    count = max(arguments.messages // BATCH, 1) * BATCH
    payload = b"x" * arguments.size
    with jetspark.server.run() as server, tempfile.TemporaryDirectory() as directory:
        with jetspark.blocking.connect(server.url) as nc:
            js = nc.jetstream(timeout=30)
            for name in ("BARE", "IDS"):
                # A short window, so that the server does not expire ids during the measurement.
                js.create_stream(StreamConfig(name=name, subjects=[name.lower()], duplicate_window=1.0))
                raw.publish_acknowledged(
                    server.port, name.lower(), payload, count, 4096, message_ids=name == "IDS"
                )
        spark = session()
        spark.dataSource.register(SameBatchSource)
        try:
            suite = SparkSuite(spark, server, count, arguments.size, Path(directory))
            for sink, write in (("noop", suite.to_noop), ("Parquet", suite.to_parquet)):
                await suite.compare(f"{count} messages of {arguments.size} bytes to {sink}", write, arguments)
        finally:
            spark.stop()


class SparkSuite:
    """The ways to read a million rows, and their cost."""

    def __init__(
        self, spark: SparkSession, server: jetspark.server.Server, count: int, size: int, directory: Path
    ) -> None:
        self.spark = spark
        self.server = server
        self.count = count
        self.size = size
        self.directory = directory
        self.meter = Meter(spark, server, count)
        self._numbers = itertools.count(1)

    async def compare(self, title: str, write: Callable[[DataFrame], None], arguments: Namespace) -> None:
        """Print a table of rates and a table of CPU time."""
        ways = {
            "jetspark": lambda: write(self.stream("BARE")),
            "jetspark, without headers column": lambda: write(self.stream("BARE", includeHeaders=False)),
            "jetspark, messages with an id": lambda: write(self.stream("IDS")),
            "Python source, same batch again": lambda: write(self.same_batch()),
            "spark.range": lambda: write(self.range()),
            "raw socket": self.read_raw,
        }
        await self.meter.compare(title, ways, arguments, peer="spark.range", ceiling="raw socket")

    # --- sources

    def stream(self, name: str, **options: object) -> DataFrame:
        reader = self.spark.read.format("jetstream").option("servers", self.server.url)
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return reader.option("stream", name).load()

    def same_batch(self) -> DataFrame:
        reader = self.spark.read.format("same-batch").option("size", self.size)
        return reader.option("batches", self.count // BATCH // PARTITIONS).load()

    def range(self) -> DataFrame:
        rows = self.spark.range(self.count, numPartitions=PARTITIONS)
        return rows.select(
            f.lit("bare").alias("subject"),
            # Equal in all rows, as in the messages, because Parquet compresses repetitions. Computed for each
            # row, because Spark would replace `id * 0` by a literal.
            f.rpad(f.substring(f.col("id").cast("string"), 1, 0), self.size, "x")
            .cast("binary")
            .alias("data"),
            f.create_map().cast("map<string,array<string>>").alias("headers"),
            f.lit("BARE").alias("stream"),
            f.col("id").alias("sequence"),
            f.timestamp_micros(f.col("id") + 1_760_000_000_000_000).alias("timestamp"),
        )

    def read_raw(self) -> None:
        name = f"raw{next(self._numbers)}"
        with jetspark.blocking.connect(self.server.url) as nc:
            consumer = nc.jetstream().create_consumer(
                "BARE", ConsumerConfig(durable_name=name, ack_policy=AckPolicy.NONE, mem_storage=True)
            )
            raw.pull(
                self.server.port, "BARE", name, subject="bare", count=self.count, batch=BATCH, acked=False
            )
            consumer.delete()

    # --- sinks

    def to_noop(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def to_parquet(self, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(self.directory / "out"))


class SameBatchSource(DataSource):
    """Rows like those of a stream, at no cost."""

    @classmethod
    def name(cls) -> str:
        return "same-batch"

    def schema(self) -> StructType:
        return READ_SCHEMA

    def reader(self, schema: StructType) -> SameBatchReader:
        return SameBatchReader(int(self.options["size"]), int(self.options["batches"]))


class SameBatchReader(DataSourceReader):
    def __init__(self, size: int, batches: int) -> None:
        self._size = size
        self._batches = batches

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        frames = [
            MsgFrame(
                b"1", b"bare", b"$JS.ACK.BARE.c.1.%d.1.1760000000000000000.0" % n, b"", b"x" * self._size
            )
            for n in range(BATCH)
        ]
        batch = record_batch(frames, "BARE")
        for _ in range(self._batches):
            yield batch
