"""A cluster of two workers, each with processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from jetspark import blocking
from jetspark.server import TLS, Server
from tests.spark.cluster import SparkCluster
from tests.spark.support import Bench, assert_exactly, expected, finish, texts, to_parquet
from tests.spark.taps import attempts, tap, wait_for
from tests.support.certs import Certs


def test_both_workers_read_at_the_same_time(remote: SparkSession, bench: Bench, tmp_path: Path) -> None:
    stream = bench.stream()
    bench.publish(stream, 4000)
    workers = tmp_path / "workers"
    workers.mkdir()

    def meet(partition: int, attempt: int) -> None:
        # A task runs somewhere in the directory of its worker.
        (workers / next(part for part in Path.cwd().parts if part in ("work0", "work1"))).touch()
        wait_for(lambda: len(list(workers.iterdir())) == 2, "the other worker")

    frame = tap(bench.read(remote, stream, minPartitions=2), tmp_path / "notes", meet)
    assert_exactly(texts(frame), expected(4000))
    # A task that takes longer than the other one gets a twin.
    assert {"0-0", "1-0"} <= set(attempts(tmp_path / "notes"))


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_files_of_secrets_are_found_where_the_tasks_run(
    spark_cluster: SparkCluster, remote: SparkSession, certs: Certs, tmp_path: Path, kind: str
) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file)
    with Server(tls=tls, nkeys=[spark_cluster.identity.public_key]) as server:
        seed, ca = spark_cluster.identity.seed, str(certs.ca)
        with blocking.connect(server.url, nkey_seed=seed, tls_ca_file=ca) as nc:
            bench = Bench(server.url, nc.jetstream(timeout=30))
            stream = bench.stream()
            bench.publish(stream, 1000)
            # One is a path of the executors' machine, the other a file that `spark.files` brought there.
            files = {"tlsCaFile": certs.ca, "nkeySecretFile": "user.nk"}
            if kind == "batch":
                frame = bench.read(remote, stream, minPartitions=2, **files)
            else:
                source = bench.read_stream(
                    remote, stream, startingPosition="earliest", minPartitions=2, **files
                )
                finish(to_parquet(source, tmp_path))
                frame = remote.read.parquet(str(tmp_path / "out"))
            assert_exactly(texts(frame), expected(1000))
