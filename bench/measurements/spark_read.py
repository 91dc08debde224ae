"""The Spark source: a stream to `noop` and to Parquet, with two cores and a warm session.

Beside it: a raw socket, which reads the same stream and discards it; `spark.range`, which generates rows of
the same width inside the JVM; and a Python source that returns the same Arrow batch repeatedly, which shows
what Spark itself costs for rows from Python.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import jetspark.blocking
from bench import raw
from bench.harness import Contender, Measurement, Sample
from bench.processor import COLUMNS, metered, server, session
from jetspark import AckPolicy, ConsumerConfig, StreamConfig
from jetspark.arrow import record_batch
from jetspark.spark.schema import READ_SCHEMA
from jetspark.wire import MsgFrame

BATCH: Final = 5_000
#: The number of tasks that the source makes for a million messages; the others use the same.
PARTITIONS: Final = 4
HEADERS: Final = b"Source: bench\r\nTrace-Id: 4bf92f3577b34da6\r\nContent-Type: text/plain\r\n"


class Bed:
    """Two streams with the same payloads: BARE without headers, HEADERS with three in each message."""

    def __init__(self, size: int, directory: Path) -> None:
        self.size = size
        self.directory = directory
        self._numbers = itertools.count(1)

    def stream(self, name: str, **options: object) -> DataFrame:
        reader = session().read.format("jetstream").option("servers", server().url)
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return reader.option("stream", name).load()

    def same_batch(self, count: int) -> DataFrame:
        size = min(BATCH, max(count // PARTITIONS, 1))
        reader = session().read.format("same-batch").option("size", self.size).option("rows", size)
        return reader.option("batches", max(count // size // PARTITIONS, 1)).load()

    def range(self, count: int) -> DataFrame:
        rows = session().range(count, numPartitions=PARTITIONS)
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

    def read_raw(self, stream: str, count: int) -> None:
        name = f"raw{next(self._numbers)}"
        with jetspark.blocking.connect(server().url) as nc:
            consumer = nc.jetstream().create_consumer(
                stream, ConsumerConfig(durable_name=name, ack_policy=AckPolicy.NONE, mem_storage=True)
            )
            raw.pull(
                server().port,
                stream,
                name,
                subject=stream.lower(),
                count=count,
                batch=BATCH,
                acked=False,
            )
            consumer.delete()

    def to_noop(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def to_parquet(self, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(self.directory / "out"))


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    session().dataSource.register(SameBatchSource)
    with tempfile.TemporaryDirectory() as directory, jetspark.blocking.connect(server().url) as nc:
        js = nc.jetstream(timeout=30)
        for name, headers in (("BARE", b""), ("HEADERS", HEADERS)):
            js.create_stream(StreamConfig(name=name, subjects=[name.lower()]))
            raw.publish_acknowledged(server().port, name.lower(), b"x" * size, count, 4096, headers=headers)
        bed = Bed(size, Path(directory))
        for contender in READ.contenders:
            # Warm-up: the JVM loads classes and compiles code. Those with a comma need no other code.
            if contender.client != "raw socket" and "," not in contender.name:
                contender.run(bed, count)
        yield bed
        for name in ("BARE", "HEADERS"):
            js.delete_stream(name)


class SameBatchSource(DataSource):
    """Rows like those of a stream, at no cost."""

    @classmethod
    def name(cls) -> str:
        return "same-batch"

    def schema(self) -> StructType:
        return READ_SCHEMA

    def reader(self, schema: StructType) -> SameBatchReader:
        return SameBatchReader(*(int(self.options[key]) for key in ("size", "rows", "batches")))


class SameBatchReader(DataSourceReader):
    def __init__(self, size: int, rows: int, batches: int) -> None:
        self._size = size
        self._rows = rows
        self._batches = batches

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        frames = [
            MsgFrame(
                b"1", b"bare", b"$JS.ACK.BARE.c.1.%d.1.1760000000000000000.0" % n, b"", b"x" * self._size
            )
            for n in range(self._rows)
        ]
        batch = record_batch(frames, "BARE")
        for _ in range(self._batches):
            yield batch


def reads(work: Callable[[Bed, int], None]) -> Callable[[Bed, int], Sample]:
    return lambda bed, count: metered(count, lambda: work(bed, count))


READ: Final = Measurement(
    name="spark-read",
    title="Spark",
    text="""
    A table scan with `local[2]` and a warm session, to `noop` and to Parquet. It is compared with a raw
    socket, which reads the same stream and discards it; with `spark.range`, which generates rows of the
    same width inside the JVM; and with a Python source that returns the same Arrow batch repeatedly,
    which shows what Spark itself costs for rows from Python. All payloads are equal, which Parquet
    compresses well. CPU time is in seconds per million rows.
    """,
    bed=bed,
    contenders=(
        Contender("jetspark to noop", reads(lambda bed, n: bed.to_noop(bed.stream("BARE"))), "jetspark"),
        Contender(
            "jetspark to noop, no headers column",
            reads(lambda bed, n: bed.to_noop(bed.stream("BARE", includeHeaders=False))),
            "jetspark",
        ),
        Contender(
            "jetspark to noop, three headers",
            reads(lambda bed, n: bed.to_noop(bed.stream("HEADERS"))),
            "jetspark",
        ),
        Contender("same batch to noop", reads(lambda bed, n: bed.to_noop(bed.same_batch(n))), "Spark"),
        Contender("spark.range to noop", reads(lambda bed, n: bed.to_noop(bed.range(n))), "Spark"),
        Contender(
            "jetspark to Parquet", reads(lambda bed, n: bed.to_parquet(bed.stream("BARE"))), "jetspark"
        ),
        Contender("same batch to Parquet", reads(lambda bed, n: bed.to_parquet(bed.same_batch(n))), "Spark"),
        Contender("spark.range to Parquet", reads(lambda bed, n: bed.to_parquet(bed.range(n))), "Spark"),
        Contender("raw socket", reads(lambda bed, n: bed.read_raw("BARE", n)), "raw socket"),
        Contender(
            "raw socket, three headers", reads(lambda bed, n: bed.read_raw("HEADERS", n)), "raw socket"
        ),
    ),
    count=400_000,
    quick=2_000,
    rounds=3,
    columns=COLUMNS,
    ceiling="raw socket",
)
