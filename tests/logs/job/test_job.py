"""Runs of the job: every line is a row or a dead letter, once, whatever happens on the way."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import functions as F

from jetspark.errors import Error, UsageError
from jetspark.logs.job.checkpoint import lock_checkpoint
from jetspark.logs.job.config_file import read_config
from jetspark.logs.job.job import Job
from tests.logs.job.support import Pipes, access_line, assert_each_line_once
from tests.spark.running import ADMISSION_CONTROL

HOSTILE = "../../etc/pass wd" + "x" * 300
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_lines_become_a_table_and_dead_letters_and_a_batch_that_is_replayed_adds_nothing(
    pipes: Pipes,
) -> None:
    pipes.publish([access_line("web1", number) for number in range(90)])
    pipes.publish(["poison", b"\xff\x00", "x" * 1_040_000], jetspark_file="/var/log/a", traceparent=TRACE)
    pipes.publish([access_line("web2", number) for number in range(10)], host="web2", Jetspark_Host=HOSTILE)
    file = pipes.file()
    (told,) = pipes.run(file)
    assert (told.lines, told.rows, told.dead_letters) == (103, 100, 3)
    assert told.lag == (0 if ADMISSION_CONTROL else None)
    assert_each_line_once(pipes, 103)
    # Any tool reads it, not only Spark; and the host's name makes no way out of the table.
    assert pyarrow.dataset.dataset(pipes.place / "table", partitioning="hive").count_rows() == 100
    hosts = sorted(path.name for path in (pipes.place / "table").glob("date=2026-01-31/*"))
    assert hosts[1:] == ["host=web1"]
    assert hosts[0].startswith("host=sha-")
    poison, _, long = pipes.letters()
    assert (poison.data, poison.subject) == (b"poison", f"{pipes.dead}.lines")
    assert {name: poison.headers[name] for name in poison.headers if not name.startswith("Nats-")} == {
        "Jetspark-Host": "web1",
        "Jetspark-File": "/var/log/a",
        "traceparent": TRACE,
        "Dead-Letter-Reason": "not a line of format combined",
        "Dead-Letter-Stream": pipes.logs,
        "Dead-Letter-Sequence": "91",
    }
    assert (long.headers["Dead-Letter-Truncated"], len(long.data) < 1_040_000) == ("true", True)
    # The driver was killed before it noted that the batch was done, long ago for the stream of the letters;
    # its clock was ahead, and it had written rows to a directory that has none the next time.
    pipes.forget_the_last_commit()
    pipes.plan_later(minutes=10)
    day = pipes.place / "table/date=2026-01-31"
    shutil.copytree(day / "host=web1", day / "host=gone")
    (again,) = pipes.run(file)
    assert (again.batch, again.rows, again.dead_letters) == (told.batch, 100, 3)
    assert_each_line_once(pipes, 103)
    # New lines are a new batch.
    pipes.publish([access_line("web1", 90), "poison again"])
    (more,) = pipes.run(file)
    assert (more.lines, more.rows, more.dead_letters) == (2, 1, 1)
    assert_each_line_once(pipes, 105)
    assert pipes.run(file) == []
    # One job at a time, and none with another checkpoint: its batch 0 would replace that of the table.
    with (
        lock_checkpoint(*read_config(file)),
        pytest.raises(UsageError, match="line 2, checkpoint: another job uses it"),
    ):
        pipes.run(file)
    shutil.rmtree(pipes.place / "checkpoint")
    with pytest.raises(UsageError, match=r"sink\.path: .*/table belongs to another checkpoint"):
        pipes.run(file)


def test_counts_per_minute_go_back_to_jetstream_once_their_window_is_over(pipes: Pipes) -> None:
    counts = pipes.bench.stream(duplicate_window=0.1, allow_direct=True)
    for minute, status in ((0, 200), (0, 500), (1, 200)):
        pipes.publish([access_line("web1", number, minute=minute, status=status) for number in range(5)])
    pipes.publish(["poison"])
    file = pipes.file(
        '[counts]\nwindow = "1 minute"\nwatermark = "10 seconds"\nby = ["host", "status"]',
        sink=f'[sink]\nformat = "jetstream"\nsubject = "{counts}.minute"\n',
    )
    told = pipes.run(file)
    assert sum(each.dead_letters for each in told) == 1
    for _ in range(1 if ADMISSION_CONTROL else 2):  # Before 4.2 the next run that finds lines writes windows.
        pipes.publish([access_line("web1", 0, minute=9)])
        pipes.run(file)
    found = [json.loads(message.data) for message in pipes.js.get_stream(counts).get_messages(1)]
    assert sorted((each["window_start"], each["status"], each["count"]) for each in found) == [
        ("2026-01-31T12:00:00.000Z", 200, 5),
        ("2026-01-31T12:00:00.000Z", 500, 5),
        ("2026-01-31T12:01:00.000Z", 200, 5),
    ]
    pipes.forget_the_last_commit()
    pipes.run(file)
    assert pipes.js.get_stream(counts).info().state.messages == 3
    assert len(pipes.letters()) == 1


def test_rows_can_go_to_json_files_and_to_jetstream(pipes: Pipes) -> None:
    pipes.publish([access_line("web1", number) for number in range(5)], traceparent=TRACE, tracestate="a=b")
    pipes.publish([access_line("web1", number) for number in range(5, 10)], traceparent="\x01" + "x" * 3000)
    pipes.publish([access_line("web1", number) for number in range(10, 20)])
    pipes.run(pipes.file(sink='[sink]\nformat = "json"\npath = "lines"\npartition_by = []\n'))
    rows = pipes.session.read.json(str(pipes.place / "lines"))
    assert rows.select(F.sum("bytes")).head(1)[0][0] == sum(range(20))
    shutil.rmtree(pipes.place / "checkpoint")
    # A row of it does not fit there, nor does a dead letter of all of it.
    pipes.publish([access_line("x" * 90_000, 1)])
    out = pipes.bench.stream(allow_direct=True, max_msg_size=100_000)
    dead = pipes.bench.stream(retention="workqueue", max_msg_size=100_000)
    file = pipes.file(
        sink=f'[sink]\nformat = "jetstream"\nsubject = "{out}.rows"\n',
        dead_letters=f'[dead_letters]\nsubject = "{dead}.lines"\n',
    )
    (told,) = pipes.run(file)
    assert (told.rows, told.dead_letters) == (20, 1)
    messages = list(pipes.js.get_stream(out).get_messages(1))
    assert sorted(json.loads(message.data)["sequence"] for message in messages) == list(range(1, 21))
    # A row carries on the trace of its line, and nothing that only looks like one.
    traced = {
        json.loads(message.data)["sequence"]: (message.headers["traceparent"], message.headers["tracestate"])
        for message in messages
        if "traceparent" in message.headers
    }
    assert traced == dict.fromkeys(range(1, 6), (TRACE, "a=b"))
    letter = pipes.js.get_stream(dead).get_message(1)
    assert letter.headers["Dead-Letter-Reason"] == "the row is too large"
    assert letter.headers["Dead-Letter-Truncated"] == "true"
    # A work queue is not read to see what it has.
    pipes.forget_the_last_commit()
    pipes.run(file)
    assert pipes.js.get_stream(out).info().state.messages == 20


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as full, contextlib.suppress(OSError):
        while True:
            full.write(bytes(4096))


def test_a_full_disk_fails_the_batch_and_the_next_run_goes_on_with_it(pipes: Pipes, small_disk: Path) -> None:
    pipes.publish([access_line("web1", number) for number in range(100)])
    pipes.publish(["poison"])
    file = pipes.file(sink=f'[sink]\nformat = "parquet"\npath = "{small_disk}/table"\n')
    filler = small_disk / "filler"
    _fill(filler)
    with pytest.raises(Error, match="the disk is full"):
        pipes.run(file)
    assert not list(small_disk.glob("table/**/*.parquet"))
    filler.unlink()
    (told,) = pipes.run(file)
    assert (told.rows, told.dead_letters) == (100, 1)
    (pipes.place / "table").symlink_to(small_disk / "table")
    assert_each_line_once(pipes, 101)
    assert not list(small_disk.glob("table/.spark-staging*"))


def test_what_spark_refuses_is_an_error_like_others(pipes: Pipes) -> None:
    config, where = read_config(pipes.file('[counts]\nwindow = "1 minute"\nwatermark = "999999999 weeks"'))
    with pytest.raises(Error, match="999999999 weeks"):
        Job(pipes.session, config, where).plan()


def test_what_is_missing_on_the_server_is_told_before_anything_runs(pipes: Pipes) -> None:
    with pytest.raises(UsageError, match=r"dead_letters\.subject: no stream stores 'nobody\.stores'"):
        pipes.run(pipes.file(dead_letters='[dead_letters]\nsubject = "nobody.stores"\n'))
    with pytest.raises(
        UsageError, match=r"dead_letters\.subject: .* which the job reads: it would never end"
    ):
        pipes.run(pipes.file(dead_letters=f'[dead_letters]\nsubject = "{pipes.logs}.dead"\n'))
    small = pipes.bench.stream(max_msg_size=30_000)
    with pytest.raises(UsageError, match=r"dead_letters\.subject: .* messages of at most 30000 bytes"):
        pipes.run(pipes.file(dead_letters=f'[dead_letters]\nsubject = "{small}.dead"\n'))
    source = f'[source]\nservers = "{pipes.bench.url}"\nstream = "NOPE"\n'
    with pytest.raises(Error, match="stream NOPE not found"):
        pipes.run(pipes.file(source=source))


def test_a_batch_in_which_many_lines_do_not_parse_is_read_again(pipes: Pipes) -> None:
    pipes.publish([access_line("web1", 1), "poison 2", "poison 3", access_line("web1", 4), "poison 5"])
    (told,) = pipes.run(pipes.file(), few=2)
    assert (told.lines, told.rows, told.dead_letters) == (5, 2, 3)
    assert [letter.data for letter in pipes.letters()] == [b"poison 2", b"poison 3", b"poison 5"]
