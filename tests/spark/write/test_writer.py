"""Written rows are read back unchanged, in bulk and in atomic batches, once per id, in bounded memory."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from jetspark import StreamConfig, blocking
from jetspark.blocking import JetStreamMsg
from jetspark.server import Server
from jetspark.spark.options import parse_options
from jetspark.spark.write.task import TaskResult
from jetspark.spark.write.writer import JetStreamStreamWriter, JetStreamWriter
from tests.spark.running import error_of
from tests.spark.support import LONG, Bench, assert_exactly, expected, finish
from tests.spark.taps import wait_for
from tests.spark.writing import counted, messages, payloads, start_writing, write
from tests.support.effort import effort
from tests.support.raw import RawClient
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa

MANY = effort(200_000, 1_000_000)
#: An id that was made for a row of a job.
OF_A_JOB = r"^[\\w-]{11}/\\d+/[A-Za-z0-9+/]{22}(/\\d+)?$"


# --- round trips


def rows(spark: SparkSession, stream: str, first: int, count: int, *, multi: bool) -> DataFrame:
    """Rows with some of everything: text or bytes, headers of either kind, ids or none, nulls, subjects."""
    if multi:
        data, headers = (
            "unhex(sha1(string(id)))",
            "map('n', array(string(id)), 'Multi', array('a', '', 'ü: b'))",
        )
    else:
        data, headers = "concat('größe ', id)", "map('n', string(id), 'Empty', '')"
    return spark.range(first, first + count, 1, 4).selectExpr(
        f"if(id % 1000 = 7, null, {data}) as data",
        f"concat('{stream}.', id % 5) as subject",
        f"if(id % 3 = 0, {headers}, null) as headers",
        "if(id % 4 = 1, concat('id-', id), null) as msg_id",
    )


def checksum(frame: DataFrame) -> list[int]:
    """What two frames have in common that have the same `subject`, `data`, `headers` and `msg_id`."""
    text = "to_json(array_sort(map_entries(headers)))"
    sums = frame.selectExpr(f"xxhash64(subject, data, {text}, msg_id) as hash").selectExpr(
        "count(1)", "bit_xor(hash)", "sum(hash & 65535)", "sum((hash >> 16) & 65535)"
    )
    return list(sums.head() or [])


def as_written(frame: DataFrame) -> DataFrame:
    """What was written as it comes out of a stream: bytes, several values for a header, nothing null."""
    single = dict(frame.dtypes)["headers"] == "map<string,string>"
    headers = "transform_values(headers, (k, v) -> array(v))" if single else "headers"
    return frame.selectExpr(
        "subject",
        "coalesce(cast(data as binary), cast('' as binary)) as data",
        f"coalesce({headers}, map()) as headers",
        "msg_id",
    )


def as_read(frame: DataFrame) -> DataFrame:
    """What was read, with the id among the headers as a column, null where it was made for the row."""
    return frame.selectExpr(
        "subject",
        "data",
        "map_filter(headers, (k, v) -> k != 'Nats-Msg-Id') as headers",
        f"nullif(regexp_replace(headers['Nats-Msg-Id'][0], '{OF_A_JOB}', ''), '') as msg_id",
    )


def test_very_many_rows_come_back_as_they_were_written(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    half = MANY // 2
    single = rows(spark, stream, 0, half, multi=False)
    multi = rows(spark, stream, half, half, multi=True)
    for frame in (single, multi):
        write(frame, bench.url, stream=stream)
    read = bench.read(spark, stream)
    # The schema says that an id is an array of one; what it expected of the stream is a header too.
    read = read.selectExpr(
        "subject", "data", "map_filter(headers, (k, v) -> k != 'Nats-Expected-Stream') as headers"
    )
    assert checksum(as_read(read)) == checksum(as_written(single).union(as_written(multi)))
    assert bench.js.get_stream(stream).info().state.messages == MANY
    bench.js.delete_stream(stream)


def test_a_query_writes_text_bytes_headers_and_ids(spark: SparkSession, bench: Bench, tmp_path: Path) -> None:
    source = bench.stream()
    bench.publish(source, 6)
    read = bench.read_stream(spark, source, startingPosition="earliest", minPartitions=2)
    for kind, data, headers in (
        ("text", "concat('ü', sequence)", "map('k', 'v', 'l', '')"),
        ("bytes", "unhex(sha1(string(sequence)))", "map('k', array('v', 'w'), 'l', array(''))"),
    ):
        stream = bench.stream()
        columns = [
            f"if(sequence = 2, null, {data}) as data",
            f"concat('{stream}.', sequence) as subject",
            f"if(sequence = 3, null, {headers}) as headers",
            "if(sequence = 4, 'mine', null) as msg_id",
        ]
        finish(start_writing(read.selectExpr(*columns), bench.url, tmp_path / kind))
        found = {message.subject: message for message in messages(bench.js, stream)}
        written = bench.read(spark, source).selectExpr(*columns).collect()
        assert len(found) == len(written) == 6
        for row in written:
            message = found[row.subject]
            assert message.data == (row.data.encode() if isinstance(row.data, str) else row.data or b"")
            fields = dict(message.headers.multi_items())
            msg_id = fields.pop("Nats-Msg-Id")
            wanted = (row.headers or {}).items()
            assert fields == {name: [v] if isinstance(v, str) else v for name, v in wanted}
            made = re.fullmatch(r"[A-Za-z0-9+/]{15}/0/\d/[A-Za-z0-9+/]{22}", msg_id[0])
            assert msg_id == ["mine"] if row.msg_id else made


def test_the_column_subject_wins_over_the_option(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    frame = counted(spark, 3).selectExpr("data", f"concat('{stream}.', data) as subject")
    write(frame, bench.url, subject=f"{stream}.option")
    assert {message.subject for message in messages(bench.js, stream)} == {
        f"{stream}.{text}" for text in expected(3)
    }
    write(frame.select("data"), bench.url, subject=f"{stream}.option", stream=stream)
    last = messages(bench.js, stream)[3:]
    assert {message.subject for message in last} == {f"{stream}.option"}
    assert {message.headers["Nats-Expected-Stream"] for message in last} == {stream}


def test_rows_go_to_the_streams_of_their_subjects(spark: SparkSession, bench: Bench) -> None:
    streams = [bench.stream(allow_atomic=True) for _ in range(3)]
    names = ", ".join(f"'{stream}'" for stream in streams)
    frame = counted(spark, 300).selectExpr(
        "data", f"concat(array({names})[int(substr(data, 3)) % 3], '.', data) as subject"
    )
    for mode, times in (("async", 1), ("atomic", 2)):
        write(frame, bench.url, publishMode=mode)
        for remainder, stream in enumerate(streams):
            found = payloads(bench.js, stream)[-100:]
            assert_exactly(found, [f"w-{number}" for number in range(1, 301) if number % 3 == remainder])
            assert bench.js.get_stream(stream).info().state.messages == 100 * times


def test_an_empty_frame_writes_nothing(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    write(counted(spark, 0), bench.url, subject=f"{stream}.a")
    assert payloads(bench.js, stream) == []


# --- ids


def test_a_job_that_runs_again_adds_nothing_if_its_rows_have_ids(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream()
    with_ids = counted(spark, 100).selectExpr("data", "data as msg_id")
    for _ in range(2):
        write(with_ids, bench.url, subject=f"{stream}.a")
    assert_exactly(payloads(bench.js, stream), expected(100))
    # Otherwise each job has ids of its own: the same rows may be meant to be written again.
    for _ in range(2):
        write(counted(spark, 100), bench.url, subject=f"{stream}.b", msgIdPrefix="etl-")
    made = [message.headers["Nats-Msg-Id"] for message in messages(bench.js, stream)[100:]]
    assert len(set(made)) == len(made) == 200
    assert all(re.fullmatch(r"etl-[\w-]{11}/[01]/[A-Za-z0-9+/]{22}", each) for each in made)


def test_what_was_read_is_written_as_it_is_and_not_under_its_old_id(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    source = bench.stream(allow_atomic=True)
    with_header = {"k": "v"}
    bench.js.publish(f"{source}.a", b"w-1", msg_id="theirs", headers=with_header, expected_stream=source)
    bench.js.publish(f"{source}.a", b"w-2", expected_last_sequence=1, headers=with_header)
    batch = bench.js.atomic_batch()
    for text in (b"w-3", b"w-4"):
        batch.add(f"{source}.a", text, msg_id=text.decode(), headers=with_header)
    batch.commit()
    # Into the same stream, which would take a message with an old id for the old one.
    write(bench.read(spark, source), bench.url, stream=source)
    query = bench.read_stream(spark, source, startingPosition=json.dumps({source: 5}))
    finish(start_writing(query, bench.url, tmp_path, subject=f"{source}.b"))
    found = messages(bench.js, source)
    assert sorted(message.data.decode() for message in found) == sorted(expected(4) * 3)
    for message in found[4:]:
        names = {name for name in message.headers if name.startswith("Nats-")}
        assert names <= {"Nats-Msg-Id", "Nats-Expected-Stream"}
        assert message.headers["k"] == "v"
        assert message.subject == f"{source}.a"
    assert len({message.headers["Nats-Msg-Id"] for message in found[4:]}) == 8


def test_a_copy_of_a_stream_commands_nothing(spark: SparkSession, bench: Bench) -> None:
    """Each message of the sources was stored by a command; the target would refuse all of them."""
    source = bench.stream(allow_rollup_hdrs=True, allow_msg_ttl=True, allow_msg_schedules=True)
    counters, target = bench.stream(allow_msg_counter=True), bench.stream()
    schedule = {"Nats-Schedule": "@at 2099-01-01T00:00:00Z", "Nats-Schedule-Target": f"{source}.later"}
    for token, headers in (("a", {"Nats-Rollup": "sub"}), ("b", {"Nats-TTL": "1h"}), ("c", schedule)):
        bench.js.publish(f"{source}.{token}", b"x", headers={**headers, "k": "v"})
    bench.js.publish(f"{counters}.a", headers={"Nats-Incr": "+5", "k": "v"})
    frame = bench.read(spark, f"{source},{counters}").select("data", "subject", "headers")
    write(frame.selectExpr("data", "headers"), bench.url, subject=f"{target}.a")
    found = messages(bench.js, target)
    assert sorted(message.data for message in found) == [b"x", b"x", b"x", b'{"val":"5"}']
    assert {frozenset(message.headers) for message in found} == {frozenset({"Nats-Msg-Id", "k"})}


@pytest.mark.parametrize(("keep", "left"), [("strip", 11), ("keep", 1)])
def test_a_command_is_sent_if_the_user_wants_it(
    spark: SparkSession, bench: Bench, keep: str, left: int
) -> None:
    target = bench.stream(allow_rollup_hdrs=True)
    bench.publish(target, 10)
    frame = spark.sql("SELECT 'x' AS data, map('Nats-Rollup', 'all', 'nats-msg-id', 'mine') AS headers")
    write(frame, bench.url, subject=f"{target}.a", controlHeaders=keep)
    found = messages(bench.js, target)
    assert len(found) == left
    assert found[-1].headers.get_all("Nats-Msg-Id") != ["mine"]


@pytest.mark.parametrize(("retention", "mode"), [("limits", "async"), ("workqueue", "atomic")])
def test_a_message_with_malformed_headers_is_named_or_becomes_a_dead_letter(
    spark: SparkSession, bench: Bench, retention: str, mode: str
) -> None:
    source = bench.stream(retention=retention, allow_direct=True)
    target, dead = bench.stream(allow_atomic=True), bench.stream()
    bench.publish(source, 3)
    with RawClient(int(bench.url.rpartition(":")[2])) as client:
        client.store(f"{source}.a", b"NATS/1.0\r\nk: v\r\nno colon\r\n\r\n", b"poison")
    bench.publish(source, 2, first=4)
    frame = bench.read(spark, source, minPartitions=1).select("data", "headers")
    options = {"subject": f"{target}.a", "stream": target, "publishMode": mode}
    said = error_of(lambda: write(frame, bench.url, **options))
    assert "column headers, row 4 of partition 0: headers: the name '' is not valid" in said
    assert "malformed" in said
    write(frame, bench.url, **options, deadLetterSubject=f"{dead}.rows")
    assert set(payloads(bench.js, target)) == set(expected(5))
    (letter,) = messages(bench.js, dead)
    assert letter.data == b"poison"
    assert "row 4 of partition 0: " in letter.headers["Dead-Letter-Reason"]
    assert letter.headers["Dead-Letter-Subject"] == f"{target}.a"
    assert json.loads(letter.headers["Dead-Letter-Headers"]) == {
        "k": ["v"],
        "": ["NATS/1.0\r\nk: v\r\nno colon\r\n\r\n"],
    }


def test_a_query_sends_what_it_cannot_write_to_the_dead_letters(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    source, target, dead = bench.stream(), bench.stream(), bench.stream()
    bench.publish(source, 5)
    frame = bench.read_stream(spark, source, startingPosition="earliest", minPartitions=1)
    rows = frame.selectExpr("data", f"if(sequence = 2, 'a b', '{target}.a') AS subject")
    finish(start_writing(rows, bench.url, tmp_path, deadLetterSubject=f"{dead}.rows"))
    assert payloads(bench.js, target) == ["w-1", "w-3", "w-4", "w-5"]
    assert payloads(bench.js, dead) == ["w-2"]


def test_a_dead_letter_subject_without_a_stream_is_named_before_tasks_run(
    spark: SparkSession, bench: Bench
) -> None:
    stream = bench.stream()
    options = {"subject": f"{stream}.a", "deadLetterSubject": "nowhere.a"}
    said = error_of(lambda: write(counted(spark, 5), bench.url, **options))
    assert "option deadLetterSubject: no stream stores 'nowhere.a'" in said
    assert payloads(bench.js, stream) == []


# --- the window


@pytest.mark.parametrize(("window", "count"), [(1, 200), (10, 5000)])
def test_a_partition_may_be_larger_than_the_window(
    spark: SparkSession, bench: Bench, window: int, count: int
) -> None:
    stream = bench.stream()
    write(counted(spark, count, 1), bench.url, subject=f"{stream}.a", maxPending=window)
    assert payloads(bench.js, stream) == expected(count)


def _megabytes(process: int, which: str) -> int:
    """What it has (`VmRSS`), or the most it had (`VmHWM`)."""
    try:
        (found,) = re.findall(rf"{which}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except FileNotFoundError:  # It has ended.
        return 0
    return int(found) // 1024


def _writers(server: Server) -> list[int]:
    """The processes that are connected to write."""
    with urllib.request.urlopen(f"{server.monitor_url}/connz", timeout=10) as answer:
        names = [each.get("name", "") for each in json.load(answer)["connections"]]
    found = [re.fullmatch(r"jetspark, Spark process (\d+)", name) for name in names]
    return [int(each[1]) for each in found if each and int(each[1]) != os.getpid()]


def test_memory_is_bounded_when_the_server_is_slower_than_the_rows_come(spark: SparkSession) -> None:
    """A partition of 1 GB is written, and the server stands still in the middle until the task waits."""
    frame = spark.range(0, 10_000, 1, 1).selectExpr("concat(repeat('.', 99990), id) as data")
    most: list[int] = []

    def stand_still() -> None:
        wait_until(lambda: stream.info().state.last_seq > 100, "the first rows", LONG)
        writers = _writers(server)
        server.pause()
        try:
            _settle(writers)
            most.extend(_megabytes(writer, "VmRSS") for writer in writers)
        finally:
            server.resume()
        assert stream.info().state.last_seq < 10_000

    with (
        Server(monitor=True) as server,
        blocking.connect(server.url) as nc,
        ThreadPoolExecutor(1) as pool,
        ExitStack() as settings,
    ):
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
        settings.callback(spark.conf.unset, "spark.sql.execution.arrow.maxRecordsPerBatch")
        stream = nc.jetstream(timeout=30).create_stream(
            StreamConfig(name="S", subjects=["S.>"], max_msgs=1000)
        )
        standing = pool.submit(stand_still)
        write(frame, server.url, subject="S.a", maxPending=100_000)
        standing.result()
        most += [_megabytes(writer, "VmHWM") for writer in _writers(server)]
        assert stream.info().state.last_seq == 10_000
        assert stream.get_message(10_000).data.strip(b".") == b"9999"
    print(f"megabytes of the writers: {most}")
    assert max(most) < 350


def _settle(processes: list[int]) -> None:
    """Wait until processes do nothing any more: the time they have used does not change for a while."""

    def used() -> list[str]:
        stats = [
            path.read_text() for process in processes if (path := Path(f"/proc/{process}/stat")).exists()
        ]
        return [field for stat in stats for field in stat.rpartition(")")[2].split()[11:13]]

    seen: list[list[str]] = []

    def still() -> bool:
        seen.append(used())
        return len(seen) > 100 and seen[-1] == seen[-100]

    wait_until(still, "the writers to wait", LONG)


# --- atomic batches


def batches_of(found: list[JetStreamMsg]) -> dict[str, list[JetStreamMsg]]:
    """The batches by id. Each is whole and in one piece."""
    pieces = [(key, list(group)) for key, group in groupby(found, lambda each: each.headers["Nats-Batch-Id"])]
    batches = dict(pieces)
    assert len(batches) == len(pieces), "a batch has messages of others between its own"
    for batch in batches.values():
        numbers = [int(message.headers["Nats-Batch-Sequence"]) for message in batch]
        assert numbers == list(range(1, len(batch) + 1))
        assert "Nats-Batch-Commit" in batch[-1].headers, "a batch without its end"
    return batches


def test_a_reader_sees_atomic_batches_one_after_the_other_and_each_whole(
    spark: SparkSession, bench: Bench
) -> None:
    stream = bench.stream(allow_atomic=True)
    seen: list[JetStreamMsg] = []

    def watch() -> None:
        with blocking.connect(bench.url) as nc:
            consumer = nc.jetstream().ordered_consumer(stream)
            while len(seen) < 20_500:
                seen.extend(consumer.fetch(1000, expires=1))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    write(counted(spark, 20_500), bench.url, subject=f"{stream}.a", publishMode="atomic")
    watching.join(LONG)
    assert_exactly([message.data.decode() for message in seen], expected(20_500))
    sizes = [len(batch) for batch in batches_of(seen).values()]
    assert max(sizes) == 1000
    # Two tasks write at the same time, 10,250 rows each: Spark hands over 10,000 of them and the rest.
    assert sorted(sizes) == [250] * 2 + [1000] * 20
    sequences = [message.metadata.sequence.stream for message in seen]
    assert all(after == before + 1 for before, after in pairwise(sequences))


def test_a_job_that_fails_leaves_whole_batches(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream(allow_atomic=True)
    # The row that cannot be written is among the last of the batch.
    columns = ["data", f"if(data = 'w-3999', 'nowhere.a', '{stream}.a') as subject"]
    frame = counted(spark, 5000, 1).selectExpr(*columns)
    said = error_of(lambda: write(frame, bench.url, publishMode="atomic"))
    assert "column subject, row 3999 of partition 0: no stream stores 'nowhere.a'" in said
    assert [len(batch) for batch in batches_of(messages(bench.js, stream)).values()] == [1000] * 3
    assert payloads(bench.js, stream) == expected(3000)


def test_an_atomic_batch_that_comes_again_adds_nothing(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream(allow_atomic=True)
    frame = counted(spark, 2500).selectExpr("data", "data as msg_id")
    for _ in range(2):
        write(frame, bench.url, subject=f"{stream}.a", publishMode="atomic")
    assert_exactly(payloads(bench.js, stream), expected(2500))
    batches_of(messages(bench.js, stream))


def test_rows_of_an_atomic_batch_with_the_same_id_are_one_message(spark: SparkSession, bench: Bench) -> None:
    stream = bench.stream(allow_atomic=True)
    frame = counted(spark, 10, 1).selectExpr("data", "string(int(substr(data, 3)) % 5) as msg_id")
    write(frame, bench.url, subject=f"{stream}.a", publishMode="atomic")
    assert payloads(bench.js, stream) == expected(5)


# --- rows that come in another order


def backwards_the_second_time(frame: DataFrame, gate: Path) -> DataFrame:
    """The rows of `frame`, which has one partition; after the first attempt they come backwards.

    The first attempt fails before its end, when the gate is open.
    """
    notes = gate.with_name("attempts")
    notes.mkdir()

    def turn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        first = not any(notes.iterdir())
        (notes / "first").touch()
        table = pa.Table.from_batches(list(batches))
        if first:
            yield from table.slice(0, 4000).to_batches(max_chunksize=500)
            wait_for(gate.exists, "rows in the stream")
            raise RuntimeError("this task fails")
        yield from table.take(list(range(table.num_rows))[::-1]).to_batches(max_chunksize=500)

    return frame.mapInArrow(turn, frame.schema)


@pytest.mark.parametrize("mode", ["async", "atomic"])
def test_a_batch_whose_rows_come_again_in_another_order_adds_each_row_once(
    spark: SparkSession, bench: Bench, tmp_path: Path, mode: str
) -> None:
    source, stream = bench.stream(), bench.stream(allow_atomic=True)
    bench.publish(source, 6000)
    # Some rows are equal but for the order of their headers. They are large: Spark holds small ones back.
    frame = bench.read_stream(spark, source, startingPosition="earliest", minPartitions=1).selectExpr(
        "rpad(concat('w-', sequence % 4000), 400, ' ') as data",
        "if(sequence > 4000, map('a', '1', 'b', '2'), map('b', '2', 'a', '1')) as headers",
    )
    gate = tmp_path / "gate"
    frame = backwards_the_second_time(frame, gate)
    info = bench.js.get_stream(stream).info
    options = {"subject": f"{stream}.a", "publishMode": mode}
    with ExitStack() as settings:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 500)
        settings.callback(spark.conf.unset, "spark.sql.execution.arrow.maxRecordsPerBatch")
        query = start_writing(frame, bench.url, tmp_path / "checkpoint", **options)
        wait_until(lambda: info().state.messages >= 500, "rows in the stream", LONG)
        gate.touch()
        with pytest.raises(StreamingQueryException, match="this task fails"):
            query.awaitTermination(LONG)
        finish(start_writing(frame, bench.url, tmp_path / "checkpoint", **options))
    assert Counter(payloads(bench.js, stream)) == Counter(f"w-{number % 4000}" for number in range(1, 6001))


# --- the log


def test_the_driver_logs_rows_duplicates_and_seconds(
    spark: SparkSession, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    stream = bench.stream()
    options = parse_options({"servers": bench.url, "subject": f"{stream}.a"})
    results = [TaskResult(1000, 3, 0.5, 4), TaskResult(20, 0, 2.25)]
    schema = counted(spark, 1).schema
    with caplog.at_level(logging.INFO, "jetspark"):
        writer = JetStreamWriter(options, schema, overwrite=False)
        writer.commit(results)
        writer.abort([results[0], None])
        JetStreamStreamWriter(options, schema).commit(results, 7)
        JetStreamStreamWriter(options, schema).abort([None], 8)
    job, failed, batch, failed_batch = (
        each.getMessage() for each in caplog.records if "wrote" in each.message
    )
    assert re.fullmatch(r"job [\w-]{11} wrote 1020 rows \(3 already stored\) in \d+\.\d s", job)
    assert re.fullmatch(r"failed job [\w-]{11} wrote 1000 rows \(3 already stored\) in \S+ s", failed)
    assert batch in ("batch 7 wrote 1020 rows (3 already stored) in 2.2 s",)
    (dead, *_) = (each.getMessage() for each in caplog.records if "dead letters" in each.message)
    assert re.fullmatch(r"job [\w-]{11} sent 4 of them as dead letters, because they are invalid", dead)
    assert failed_batch == "failed batch 8 wrote 0 rows (0 already stored) in 0.0 s"
