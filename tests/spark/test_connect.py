"""Spark Connect: the client has no Spark, and no jetspark has to know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.spark.support import Bench, assert_exactly, expected, finish, texts, to_parquet


def test_a_stream_reads_as_a_table(remote: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    bench.publish(stream, 1000)
    frame = bench.read(remote, stream, startingPosition=f'{{"{stream}": 101}}', minPartitions=3)
    assert_exactly(texts(frame), expected(900, first=101))


def test_a_query_to_parquet_goes_on_where_it_stopped(
    remote: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    for first in (1, 501):
        bench.publish(stream, 500, first=first)
        frame = bench.read_stream(remote, stream, startingPosition="earliest", minPartitions=2)
        finish(to_parquet(frame, tmp_path))
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(1000))


@pytest.mark.parametrize("kind", ["read", "readStream"])
def test_a_bad_option_is_refused_by_name(remote: SparkSession, bench: Bench, kind: str) -> None:
    options = bench.options("S", startingPosition="yesterday")
    reader = getattr(remote, kind).format("jetstream").options(**options)
    with pytest.raises(PySparkException, match=r"startingPosition must be .*'yesterday'"):
        reader.load().schema  # noqa: B018 - a Connect client asks for nothing before
