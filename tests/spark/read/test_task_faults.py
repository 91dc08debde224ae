"""Tasks that fail, die, are slow, or lose the server while they read: each message once in the output."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession

from jetspark import StreamConfig, blocking
from jetspark.server import Cluster, Server
from tests.spark.support import Bench, assert_exactly, expected, finish, texts, to_parquet
from tests.spark.taps import attempts, hold_first, tap
from tests.support.leaders import leader_of_now
from tests.support.waiting import wait_until

LONG = 120  # seconds; only a hang takes so long
#: More than a task reads ahead, wherever it is held up: 30 to 50 MB.
LARGE, PADDING = 12_000, 8_000


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {"monitor": True}


def publish_large(js: blocking.JetStream, stream: str) -> None:
    """Messages of which a task cannot hold all."""
    with js.publisher() as publisher:
        for text in expected(LARGE):
            publisher.send(f"{stream}.a", text.encode().ljust(PADDING))


def trimmed(frame: Any) -> Any:
    """Without the padding."""
    return frame.selectExpr("cast(rtrim(cast(data as string)) as binary) as data")


def reader_of(server: Server) -> int:
    """The process that reads a stream from a server."""
    with urllib.request.urlopen(f"{server.monitor_url}/connz", timeout=10) as answer:
        connections = json.load(answer)["connections"]
    for each in connections:
        process = re.fullmatch(r"jetspark, Spark process (\d+)", each.get("name", ""))
        if process and each["out_bytes"] > 1_000_000:
            return int(process[1])
    raise AssertionError("nobody reads")


def has_begun(js: blocking.JetStream, stream: str, gate: Path) -> None:
    """Wait until a task is held up at the gate, and see that the server has not sent it everything.

    It is the consumer that tells: one that is replaced on a busy machine sends some messages again.
    """
    wait_until(gate.with_name(f"{gate.name}-reached").exists, "the task to read", LONG)
    consumers = js.get_stream(stream).consumers
    wait_until(lambda: any(0 < info.num_pending < LARGE for info in consumers()), "messages to come", LONG)


def test_tasks_that_fail_are_tried_again_and_give_the_same_rows(
    remote: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    bench.publish(stream, 20_000)

    def fail(partition: int, attempt: int) -> None:
        if attempt <= partition % 2:
            raise RuntimeError("this task fails")

    frame = bench.read_stream(remote, stream, startingPosition="earliest", minPartitions=2)
    finish(to_parquet(tap(frame, tmp_path / "notes", fail), tmp_path))
    assert {"0-0", "0-1", "1-0", "1-1", "1-2"} <= set(attempts(tmp_path / "notes"))
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(20_000))


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])


@pytest.mark.parametrize("victim", ["python worker", "executor"])
def test_a_task_whose_process_is_killed_is_tried_again_and_gives_the_same_rows(
    remote: SparkSession, server: Server, tmp_path: Path, victim: str
) -> None:
    with blocking.connect(server.url) as nc:
        bench = Bench(server.url, nc.jetstream(timeout=30))
        stream = bench.stream()
        publish_large(bench.js, stream)
        gate = tmp_path / "gate"
        frame = bench.read_stream(remote, stream, startingPosition="earliest", minPartitions=1)
        query = to_parquet(trimmed(tap(frame, tmp_path / "notes", hold_first(gate))), tmp_path)
        has_begun(bench.js, stream, gate)
    process = reader_of(server)
    if victim == "executor":
        process = parent_of(parent_of(process))  # Between them is the daemon that forks workers.
    os.kill(process, signal.SIGKILL)
    gate.touch()
    finish(query)
    assert attempts(tmp_path / "notes") == ["0-0", "0-1"]
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(LARGE))


def test_a_slow_task_and_its_speculative_copy_give_each_row_once(
    remote: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    bench.publish(stream, 20_000)
    gate = tmp_path / "gate"
    hold = hold_first(gate)

    def slow(partition: int, attempt: int) -> None:
        if partition == 1:
            hold(partition, attempt)
            if attempt:
                gate.touch()  # From here on both run.

    frame = bench.read_stream(remote, stream, startingPosition="earliest", minPartitions=2)
    finish(to_parquet(tap(frame, tmp_path / "notes", slow), tmp_path))
    assert "1-1" in attempts(tmp_path / "notes"), "no twin"
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(20_000))


def test_a_task_goes_on_when_the_server_is_killed_and_started_again(
    remote: SparkSession, server: Server, tmp_path: Path
) -> None:
    with blocking.connect(server.url) as nc:
        bench = Bench(server.url, nc.jetstream(timeout=30))
        stream = bench.stream()
        publish_large(bench.js, stream)
        gate = tmp_path / "gate"
        frame = bench.read_stream(remote, stream, startingPosition="earliest", minPartitions=1)
        query = to_parquet(trimmed(tap(frame, tmp_path / "notes", hold_first(gate))), tmp_path)
        has_begun(bench.js, stream, gate)
    server.kill()
    gate.touch()
    server.start()
    finish(query)
    assert attempts(tmp_path / "notes") == ["0-0"]
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(LARGE))


def test_a_task_goes_on_when_the_leader_of_the_stream_is_killed(
    remote: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    with blocking.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=30)
        stream = js.create_stream(StreamConfig(name="S", subjects=["S.>"], num_replicas=3))
        publish_large(js, "S")
        gate = tmp_path / "gate"
        bench = Bench(cluster.url, js)
        frame = bench.read_stream(remote, "S", startingPosition="earliest", minPartitions=1)
        query = to_parquet(trimmed(tap(frame, tmp_path / "notes", hold_first(gate))), tmp_path)
        has_begun(js, "S", gate)
        leader = leader_of_now(stream.info, cluster)
        leader.kill()
        gate.touch()
        finish(query)
    assert attempts(tmp_path / "notes") == ["0-0"]
    assert_exactly(texts(remote.read.parquet(str(tmp_path / "out"))), expected(LARGE))
