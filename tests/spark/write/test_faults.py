"""Tasks that fail or are slow while they write, servers that die: each row once in the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.sql.connect.session import SparkSession

from jetspark import MessageNotFound, StreamConfig, blocking
from jetspark.blocking import JetStreamMsg
from jetspark.server import Cluster, Server
from tests.spark.support import LONG, Bench, assert_exactly, expected, finish
from tests.spark.taps import hold_first, wait_for
from tests.spark.writing import counted, messages, payloads, start_writing, tagged, write
from tests.support.leaders import leader_of_now
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows, in two partitions. A batch has 500 of them on that cluster, and more bytes than Spark holds back.
COUNT, SIZE = 10_000, 400


def attempts(found: list[JetStreamMsg]) -> set[str]:
    """The attempts whose rows the stream stored."""
    return {message.headers["attempt"] for message in found}


def assert_tried_again(found: list[JetStreamMsg]) -> None:
    """Rows of a first attempt are stored, and rows of a later one: which one depends on Spark's twins."""
    assert "0" in attempts(found)
    assert attempts(found) - {"0"}


def last_attempt(bench: Bench, stream: str) -> str | None:
    """Which attempt wrote the last row that the stream has."""
    try:
        return bench.js.get_stream(stream).get_last_message(f"{stream}.a").headers["attempt"]
    except MessageNotFound:
        return None


def stored_by_first_attempts(bench: Bench, stream: str, gate: Path) -> None:
    """Open the gate when the rows before it are in the stream."""
    wait_until(gate.with_name(f"{gate.name}-reached").exists, "a task to come to the gate", LONG)
    info = bench.js.get_stream(stream).info
    wait_until(lambda: info().state.messages > 500, "rows in the stream", LONG)
    gate.touch()


def streamed(remote: SparkSession, bench: Bench, partitions: int = 2) -> Any:
    """The rows of `counted` as a stream."""
    source = bench.stream()
    bench.publish(source, COUNT)
    frame = bench.read_stream(remote, source, startingPosition="earliest", minPartitions=partitions)
    return frame.selectExpr("cast(data as string) as data")


def failing(gate: Path) -> Callable[[int, int, int], None]:
    """First attempts fail when the gate is open, and second attempts of partition 1."""
    hold = hold_first(gate)

    def fail(partition: int, attempt: int, batches: int) -> None:
        if batches == 5:
            hold(partition, attempt)
            if attempt <= partition % 2:
                raise RuntimeError("this task fails")

    return fail


@pytest.mark.parametrize("mode", ["async", "atomic"])
def test_tasks_of_a_query_that_fail_and_are_tried_again_write_each_row_once(
    remote: SparkSession, bench: Bench, tmp_path: Path, mode: str
) -> None:
    stream = bench.stream(allow_atomic=True)
    gate = tmp_path / "gate"
    frame = tagged(streamed(remote, bench), failing(gate), size=SIZE)
    query = start_writing(frame, bench.url, tmp_path / "cp", subject=f"{stream}.a", publishMode=mode)
    stored_by_first_attempts(bench, stream, gate)
    finish(query)
    found = messages(bench.js, stream)
    assert_exactly([message.data.decode().rstrip() for message in found], expected(COUNT))
    # The rows of the first attempt stay, and their duplicates are dropped.
    assert_tried_again(found)


def test_tasks_of_a_job_that_fail_and_are_tried_again_write_each_row_once(
    remote: SparkSession, bench: Bench
) -> None:
    stream = bench.stream()

    def fail(partition: int, attempt: int, batches: int) -> None:
        if batches == 9 and attempt <= partition % 2:
            raise RuntimeError("this task fails")

    frame = tagged(counted(remote, COUNT), fail, size=SIZE)
    write(frame, bench.url, subject=f"{stream}.a")
    found = messages(bench.js, stream)
    assert_exactly([message.data.decode().rstrip() for message in found], expected(COUNT))
    assert_tried_again(found)


def test_tasks_that_get_their_rows_in_another_order_when_they_are_tried_again_write_each_row_once(
    remote: SparkSession, bench: Bench
) -> None:
    """A shuffle may do that. The rows have no ids of their own."""
    stream = bench.stream()

    def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        context = TaskContext.get()
        assert context is not None
        table = pa.Table.from_batches(list(batches))
        if context.attemptNumber():
            table = table.take(list(range(table.num_rows))[::-1])
        yield from table.slice(0, 4000).to_batches(max_chunksize=500)
        if not context.attemptNumber():
            raise RuntimeError("this task fails")
        yield from table.slice(4000).to_batches(max_chunksize=500)

    write(counted(remote, COUNT).mapInArrow(shuffled, "data string"), bench.url, subject=f"{stream}.a")
    assert_exactly(payloads(bench.js, stream), expected(COUNT))


def test_a_slow_task_and_its_speculative_copy_write_each_row_once(
    remote: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    stream = bench.stream()
    gate = tmp_path / "gate"
    hold = hold_first(gate)

    def slow(partition: int, attempt: int, batches: int) -> None:
        if partition == 1 and batches == 3:
            hold(partition, attempt)

    def open_the_gate() -> None:
        # From here on both write.
        wait_until(lambda: last_attempt(bench, stream) == "1", "a row of the twin in the stream", LONG)
        gate.touch()

    with ThreadPoolExecutor() as pool:
        opening = pool.submit(open_the_gate)
        write(tagged(counted(remote, COUNT), slow, size=SIZE), bench.url, subject=f"{stream}.a")
        opening.result()
    found = messages(bench.js, stream)
    assert_exactly([message.data.decode().rstrip() for message in found], expected(COUNT))


# --- servers


def in_the_middle(gate: Path, after: int = 8) -> Callable[[int, int, int], None]:
    """Tasks do not come to their end before the gate is open, however fast they are."""

    def hold(partition: int, attempt: int, batches: int) -> None:
        if batches == after:
            wait_for(gate.exists, "the gate to be opened")

    return hold


@pytest.mark.parametrize("mode", ["async", "atomic"])
def test_each_row_is_written_once_though_the_server_is_killed_and_started_again(
    remote: SparkSession, bench: Bench, server: Server, tmp_path: Path, mode: str
) -> None:
    with blocking.connect(server.url) as nc:
        js = nc.jetstream(timeout=30)
        stream = js.create_stream(StreamConfig(name="S", subjects=["S.>"], allow_atomic=True))
        gate = tmp_path / "gate"
        # One task: of two, the one that takes longer gets a twin.
        frame = tagged(streamed(remote, bench, partitions=1), in_the_middle(gate, after=16), size=SIZE)
        query = start_writing(frame, server.url, tmp_path / "cp", subject="S.a", publishMode=mode)
        for count in (1000, 4000):
            wait_until(partial(lambda count: stream.info().state.messages > count, count), "rows", LONG)
            server.kill()
            server.start()
        gate.touch()
        finish(query)
        found = messages(js, "S")
    assert_exactly([message.data.decode().rstrip() for message in found], expected(COUNT))
    assert attempts(found) == {"0"}, "the task goes on, it is not tried again"


def test_each_row_is_written_once_though_the_leader_of_the_stream_is_killed(
    remote: SparkSession, bench: Bench, cluster: Cluster, tmp_path: Path
) -> None:
    with blocking.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=30)
        stream = js.create_stream(StreamConfig(name="S", subjects=["S.>"], num_replicas=3))
        gate = tmp_path / "gate"
        frame = tagged(streamed(remote, bench), in_the_middle(gate), size=SIZE)
        query = start_writing(frame, cluster.url, tmp_path / "cp", subject="S.a")
        wait_until(lambda: stream.info().state.messages > 1000, "rows", LONG)
        leader = leader_of_now(stream.info, cluster)
        leader.kill()
        gate.touch()
        finish(query)
        found = payloads(js, "S")
        assert_exactly(found, expected(COUNT))
        assert len(found) == stream.info().state.last_seq
