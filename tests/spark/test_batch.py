"""`spark.read`: a stream as a table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.support import Bench, assert_exactly, expected, texts


def test_a_stream_reads_as_a_table(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 1000)
    assert_exactly(texts(bench.read(spark, stream)), expected(1000))
