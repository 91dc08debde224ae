"""The demo, and the whole pipeline while its parts are killed: the counts match."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jetspark import blocking
from jetspark.errors import UsageError
from jetspark.logs.agent.options import MAX_LINE
from jetspark.logs.demo.counts import LineCounts, count_lines
from jetspark.logs.demo.hosts import Host, OwnFiles
from jetspark.logs.demo.hosts import access_line as simulated_line
from jetspark.logs.demo.pipeline import DEAD_LETTERS
from tests.cli.conftest import no_settings, process
from tests.cli.support import Process
from tests.docs.console import ROOT, commands
from tests.docs.python import blocks
from tests.logs.job.support import Pipes, Supervised, access_line, parsed
from tests.support.effort import effort
from tests.support.waiting import wait_until

__all__ = ["no_settings", "process"]


def test_hosts_write_lines_that_parse_and_rotate_their_logs(session: SparkSession, tmp_path: Path) -> None:
    host = Host("web1", tmp_path / "web1", rate=2000, rotate_after=300, seed="1")
    host.start()
    wait_until(lambda: len(list(host.directory.iterdir())) > 2, "rotation")
    host.stop()
    lines = [line for file in host.directory.glob("access.log*") for line in file.read_text().splitlines()]
    assert len(lines) == host.written
    ids = [found[1] for line in lines if (found := re.search(r"\bid=([\w-]+)", line))]
    assert len(set(ids)) == host.written
    rows = parsed(session, tmp_path, 'format = "combined"', lines[:1000])
    assert {row._reason for row in rows} <= {None, "not a line of format combined"}
    assert sum(row._reason is not None for row in rows) <= host.poison


def test_lines_are_the_same_with_the_same_seed() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    first, second = (simulated_line(random.Random(1), "web1", 1, now) for _ in range(2))
    assert first == second


def test_counts_say_whether_they_match() -> None:
    def counts(**changed: int) -> LineCounts:
        numbers: dict[str, Any] = {"written": 10, "rows": 9, "dead_letters": 1, "duplicates": 0} | changed
        return LineCounts(**numbers)

    assert counts().match
    assert (counts(rows=8).match, counts(rows=8).lost) == (False, 1)
    assert (counts(rows=10, duplicates=1).match, counts(rows=10, duplicates=1).lost) == (False, 0)


#: Seconds; Spark takes some to start, and on a busy machine many.
SLOW = 300.0


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_agents_server_and_spark_are_killed_again_and_again_and_the_counts_match(
    session: SparkSession, tmp_path: Path
) -> None:
    seed = os.environ.get("JETSPARK_TEST_SEED") or str(random.randrange(1 << 30))
    print(f"JETSPARK_TEST_SEED={seed}")
    chance = random.Random(seed)
    hosts = [
        Host(name, tmp_path / "hosts" / name, rate=300, rotate_after=400, seed=seed + name)
        for name in ("web1", "web2", "web3")
    ]
    victims = ["agent", "agent", "server", "server", "job"] * effort(1, 2)
    chance.shuffle(victims)
    with Supervised(tmp_path / "pipeline", hosts) as pipeline:
        pipeline.start(print, lambda sample: None, timeout=SLOW)
        for victim in victims:
            if victim == "job":  # One that starts has nothing to lose.
                done = pipeline.last.processed
                wait_until(partial(lambda done: pipeline.sample().processed > done, done), "rows", SLOW)
            time.sleep(chance.random() * 1.5)
            if victim == "agent":
                pipeline.kill_agent(chance.randrange(len(hosts)))
            elif victim == "server":
                pipeline.kill_server()
            else:
                pipeline.kill_job()
        pipeline.finish(lambda sample: None, timeout=SLOW)
        table, url = str(pipeline.table), pipeline.server.url
        counts = count_lines(session, pipeline.last.written, table, url, DEAD_LETTERS)
    assert counts.match, f"{counts}, JETSPARK_TEST_SEED={seed}"
    assert counts.dead_letters == sum(host.poison for host in hosts)
    assert dict(counts.hosts) == {host.name: host.written - host.poison for host in hosts}


@pytest.mark.timeout(600)
def test_the_demo_ends_with_a_summary_and_a_plot_and_holds_the_server(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    place = tmp_path / "demo"
    began = time.monotonic()
    running = process(
        *("demo", "--seconds", "2s", "--hosts", 2, "--rate", 200, "--no-kill", "--directory", place, "--hold")
    )
    lines = [running.line()]
    while not lines[-1].endswith("Ctrl-C ends it\n"):
        assert lines[-1], running.end()
        lines.append(running.line())
    took = time.monotonic() - began
    url = re.search(r"nats://127.0.0.1:\d+", lines[-1])
    assert url
    with blocking.connect(url[0]) as nc:  # The server is still there.
        assert sorted(nc.jetstream().stream_names()) == ["DEAD", "JETSPARK_CONTROL", "LOGS"]
    running.signal(signal.SIGINT)
    ended = running.end(SLOW)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    out = "".join(lines)
    # The hosts write many lines when Spark works, not before.
    assert re.search(r"^ *[\d.]+ s  Spark starts, waiting for it to process these lines$", out, re.MULTILINE)
    warm = out.index("Spark is warm, the hosts write")
    assert set(re.findall(r"written ([\d,]+)", out[:warm])) <= {"2", "4"}
    summary = out[out.index("Lines written") :]
    told = re.match(
        r"Lines written ([\d,]+) = rows [\d,]+ \+ dead letters \d+, duplicates 0, kills of Spark 0, "
        r"in (\d+) s",
        summary,
    )
    assert told
    # The time is that of the whole, the start of the last Spark and its count included.
    counting = re.search(r"^ *([\d.]+) s  Spark counts the lines$", out, re.MULTILINE)
    assert counting
    assert float(counting[1]) < int(told[2]) <= took + 1
    for text in ("Top hosts: web", "Status codes: 200 ", f"Table: {place}/table", f"Plot: {place}/"):
        assert text in summary
    (shown,) = [each for each in commands(ROOT / "docs/demo.md") if each.text == "jetspark demo"]
    assert shapes(ended.out) <= shapes("\n".join(shown.shown))
    (in_readme,) = [
        each for each in blocks(ROOT / "README.md", "console") if each.startswith("Lines written")
    ]
    assert shapes(in_readme) <= shapes("\n".join(shown.shown))
    assert (place / "throughput_and_lag.png").read_bytes().startswith(b"\x89PNG")
    # Never over what is there.
    again = process("demo", "--directory", place).end()
    assert (again.code, again.err) == (
        2,
        f"jetspark: {place} is not an empty directory. Use an empty or a new directory\n",
    )


def shapes(text: str) -> set[str]:
    """The lines of a demo without numbers, names of hosts and paths."""
    masked = re.sub(r"[\d,.]*\d", "N", text)
    return {re.sub(r"^( *[A-Z][a-z ]+:) .*", r"\1", line).strip() for line in masked.splitlines()} - {"..."}


def test_files_of_the_users_are_counted_as_an_agent_does(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n\nthree\nfour without an end")
    (tmp_path / "b.log").write_bytes(b"x" * (MAX_LINE + 1) + b"\n")
    (tmp_path / "a.log.1.gz").write_bytes(b"left out")
    assert OwnFiles([str(tmp_path / "a*"), str(tmp_path / "*.log")]).written == 4 + 2
    (tmp_path / "empty").touch()
    for pattern, message in (("*.gz", "no file matches"), ("empty", "no lines in")):
        with pytest.raises(UsageError, match=message):
            OwnFiles([str(tmp_path / pattern)])


def test_lines_without_ids_are_known_by_their_place(pipes: Pipes) -> None:
    pipes.publish([access_line("web1", number) for number in range(5)])
    pipes.publish(["poison"])
    pipes.run(pipes.file())

    def counts(table: str) -> LineCounts:
        return count_lines(pipes.session, 6, table, pipes.bench.url, pipes.dead, simulated=False)

    table = pipes.place / "table"
    found = counts(str(table))
    assert (found.rows, found.dead_letters, found.duplicates, found.match) == (5, 1, 0, True)
    assert (found.hosts, found.statuses) == ((("web1", 5),), ((200, 5),))
    (date,) = table.glob("date=*")
    shutil.copytree(date, table / "date=2000-01-01")
    found = counts(str(table))
    assert (found.rows, found.duplicates, found.lost, found.match) == (10, 5, 0, False)
    # A job that wrote no row has made no table.
    assert (counts(f"{table}-none").rows, counts(f"{table}-none").lost) == (0, 5)
