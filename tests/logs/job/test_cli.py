"""`jetspark pipeline`: text and JSON, exit codes, Ctrl-C; the examples of the guide."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.cli.conftest import cli, no_settings, process, terminal
from tests.cli.support import Cli, Process, Terminal
from tests.logs.job.support import access_line
from tests.spark.running import ADMISSION_CONTROL
from tests.support.cases import for_each
from tests.support.metrics_page import served_by
from tests.support.scrape import scrape

__all__ = ["cli", "no_settings", "process", "terminal"]

#: Seconds; Spark takes some to start, and on a busy machine many.
SLOW = 300.0
# Several starts of Spark in one test.
pytestmark = pytest.mark.timeout(900)

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipeline"


@pytest.fixture
def example(server: Server, tmp_path: Path) -> Callable[[str], Path]:
    """An example in its own directory; the server has 100 lines of two hosts, and one that does not parse."""
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        for name, subject in (("LOGS", "logs.>"), ("DEAD", "dead.>"), ("COUNTS", "counts.>")):
            js.create_stream(StreamConfig(name=name, subjects=[subject], allow_direct=True))
        with js.publisher() as publisher:
            for number in range(100):
                host = f"web{number % 2}"
                publisher.send(f"logs.0.{host}", access_line(host, number, minute=number // 10).encode())
            publisher.send("logs.0.web0", b"poison")

    def copied(name: str) -> Path:
        return Path(shutil.copy(EXAMPLES / f"{name}.toml", tmp_path))

    return copied


@for_each(
    "file", sorted(set(EXAMPLES.glob("*.toml")) - {EXAMPLES / "shipper.toml"}), ids=lambda file: file.stem
)
def test_every_example_is_right(cli: Cli, file: Path) -> None:
    assert cli("pipeline", "check", file).out.startswith(f"{file} is valid: ")
    assert cli.json("pipeline", "check", file)["ok"] is True
    shown = cli.json("pipeline", "explain", file)
    assert (shown["streams"], shown["start"]) == (["LOGS"], "earliest")
    assert f"Format: {shown['format']}\n" in cli("pipeline", "explain", file).out


def test_a_mistake_is_one_line_with_line_and_key(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    text = (EXAMPLES / "access_to_parquet.toml").read_text()
    file.write_text(text.replace('"combined"', '"combind"'))
    for verb in ("check", "explain", "run"):
        line = cli.fails("pipeline", verb, file, code=2)
        assert line.startswith("jetspark: pipeline.toml, line 17, parse.format: unknown format 'combind'")
    file.write_text(text.replace("regexp_extract(", "regexp_extrct("))
    cli("pipeline", "check", file)
    assert "cannot read" in cli.fails("pipeline", "check", tmp_path / "nothing", code=2)


def test_flags_of_the_connection_that_a_job_has_in_its_file_are_rejected(cli: Cli) -> None:
    file = EXAMPLES / "access_to_parquet.toml"
    given = {"--creds": "a.creds", "--context": "prod", "--js-domain": "hub", "--tlsfirst": None}
    for flag, value in given.items():
        arguments = [flag] if value is None else [flag, value]
        line = cli.fails("pipeline", "run", file, *arguments, code=2)
        assert line == (
            f"jetspark: {flag} has no effect on a job, which runs on several machines. Set the connection in "
            "section [source] of access_to_parquet.toml\n"
        )


def test_a_server_or_stream_that_is_missing_is_told_before_spark_starts(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = EXAMPLES / "access_to_parquet.toml"
    monkeypatch.setenv("NATS_URL", server.url)
    assert "stream LOGS not found" in cli.fails("pipeline", "run", file, code=4)
    assert "cannot connect" in cli.fails("pipeline", "run", file, "-s", "nats://127.0.0.1:1", code=3)


def test_a_job_tells_its_progress_as_json_and_reports_it(
    cli: Cli, process: Callable[..., Process], example: Callable[[str], Path], server: Server
) -> None:
    file = example("counts_per_minute")

    def run() -> Any:
        options = ("--once", "--json", "--metrics-port", "0", "--log-format", "json")
        job = process("pipeline", "run", file, *options, env={"NATS_URL": server.url})
        assert job.popen.stderr is not None
        serving = json.loads(job.popen.stderr.readline())
        assert serving["logger"] == "jetspark.pipeline.run"
        metrics = scrape(int(serving["url"].split(":")[2].partition("/")[0]))
        assert set(metrics) <= served_by("pipeline run")
        assert list(metrics["jetspark_job_up"].values()) == [1]
        assert json.loads(job.popen.stderr.readline())["message"].startswith("Starting Spark")
        ended = job.end(SLOW)
        assert (ended.code, ended.err) == (0, "")
        return ended.records[-1]

    record = run()
    assert {key: record[key] for key in ("query", "lag", "total_lines", "total_rows")} == {
        "query": "counts",
        "lag": 0 if ADMISSION_CONTROL else None,
        "total_lines": 101,
        "total_rows": 18 if ADMISSION_CONTROL else 0,
    }
    (job,) = cli.json("pause", "--status", "-s", server.url)["jobs"]
    assert (job["state"], job["error"], job["source"]) == ("stopped", "", "LOGS")
    assert (job["rows"], job["bad_lines"]) == (record["total_rows"], record["total_dead_letters"])
    assert [each["rows"] for each in job["batches"] if each["rows"]] == [18] * ADMISSION_CONTROL
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        if not ADMISSION_CONTROL:  # The next run that finds lines writes the windows.
            js.publish("logs.0.web0", access_line("web0", 100, minute=9).encode())
            assert run()["total_rows"] == 18
        counts = list(js.get_stream("COUNTS").get_messages(1))
    # Ten minutes of two hosts; the last minute may still get lines.
    assert sorted(json.loads(each.data)["count"] for each in counts) == [5] * 18


def test_a_job_on_a_terminal_shows_its_progress_and_stops_after_its_batch_at_ctrl_c(
    terminal: Callable[..., Terminal], example: Callable[[str], Path], server: Server
) -> None:
    file = example("access_to_parquet")
    shown = terminal("pipeline", "run", file, env={"NATS_URL": server.url})
    shown.expect(f"total 100 rows, 1 dead letter; lag {0 if ADMISSION_CONTROL else '?'}", timeout=SLOW)
    os.killpg(shown.popen.pid, signal.SIGINT)  # as a terminal does: what Spark started gets it, too
    assert shown.end() == 130
    assert "101 lines: 100 rows written, 1 dead letter" in shown.seen
    assert "Traceback" not in shown.seen
    commits = file.parent / "state/access/rows/commits"
    assert len([each for each in commits.iterdir() if each.name.isdigit()]) == 1
    assert list(file.parent.rglob("*.crc")) == []  # Each takes Hadoop a process.
    # The table and Spark's log contain log lines.
    made = [file.parent / "state/access/spark.log", *(file.parent / "tables").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o640, 0o750}
