"""The commands: ship, consume-logs, pause, resume; in words and in JSON."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from jetspark.jetstream.context import JetStream
from jetspark.logs.control import switch as control
from jetspark.reports.jobs import JOBS, JobReport
from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.support.effort import effort
from tests.support.ports import held
from tests.support.waiting import wait_until


def test_lines_go_from_files_to_files(cli: Cli, logs: Path, tmp_path: Path) -> None:
    (logs / "a.log").write_bytes(b"one\ntwo\n\xff\n")
    shipped = cli("ship", logs / "*.log", "--host", "web.1", "--create", "LOGS", "--once")
    assert shipped.err == ""
    assert shipped.out.startswith("stopped: 3 lines, 10 B of 1 file stored, ")
    assert shipped.out.endswith("0 in flight, 0 B behind\n")
    record = cli.json("ship", logs / "*.log", "--host", "web.1", "--once")
    assert (record["lines"], record["duplicates"], record["state"]) == (0, 0, "stopped")
    written = cli("consume-logs", "LOGS", tmp_path / "out", "--once").out
    assert written.startswith("writing: 3 lines, 10 B of 1 host, ")
    assert cli.json("consume-logs", "LOGS", tmp_path / "out", "--once")["lines"] == 0
    (file,) = (tmp_path / "out").iterdir()
    assert file.name.startswith("web_1-")
    assert file.read_bytes() == b"one\ntwo\n\xff\n"


def test_mistakes_are_one_line(cli: Cli, logs: Path, tmp_path: Path) -> None:
    (logs / "a.log").write_text("one\n")
    assert "no stream stores" in cli.fails("ship", logs / "a.log", "--once", code=4)
    assert "prefix 'a b." in cli.fails("ship", logs / "a.log", "--once", "--prefix", "a b", code=2)
    assert "'br' is not one of" in cli.fails("ship", logs / "a.log", "--once", "--compress", "br", code=2)
    cli("stream", "add", "OTHER", "--subjects", "other")
    assert "does not store" in cli.fails("ship", logs / "a.log", "--once", "--create", "OTHER", code=2)
    (tmp_path / "p").write_text("nonsense")
    line = cli.fails("ship", logs / "a.log", "--once", "--positions", tmp_path / "p", code=2)
    assert "is not a valid position file" in line
    cli("consume-logs", "OTHER", tmp_path / "out", "--once")
    line = cli.fails("consume-logs", "OTHER", tmp_path / "out", "--once", "--ack-all", code=2)
    assert "has ack policy explicit, not all" in line
    assert "less than --ack-wait" in cli.fails(
        "consume-logs", "OTHER", tmp_path, "--ack-all", "--consumer", "n", "--ack-interval", "60s", code=2
    )
    cli("consumer", "add", "OTHER", "short", "--ack", "all", "--wait", "1s")
    line = cli.fails(
        "consume-logs", "OTHER", tmp_path, "--ack-all", "--consumer", "short", "--ack-interval", "2s", code=2
    )
    assert "less than the --ack-wait of consumer short, 1 s" in line
    assert "'OTHER' is not STREAM/NAME" in cli.fails("pause", "--consumers", "OTHER", code=2)
    assert "--status excludes the other options" in cli.fails("pause", "--status", "--for", "1m", code=2)
    assert "not found" in cli.fails("pause", "--consumers", "OTHER/nobody", code=4)
    assert cli.json("pause", "--wait", "0s")["consumers"] == []  # and no trace of it is left
    assert "not found" in cli.fails("resume", "--shippers", "--consumers", "NONE/*", code=4)
    assert "stream NOPE not found" in cli.fails("resume", "--consumers", "NOPE/x", code=4)
    assert "consumer nobody" in cli.fails("resume", "--consumers", "OTHER/nobody", code=4)
    assert cli.json("pause", "--status")["shippers"]["paused"] is False  # whatever went wrong then


def test_pause_stops_agents_and_consumers_and_shows_which_follow(
    cli: Cli, process: Callable[..., Process], logs: Path, tmp_path: Path
) -> None:
    assert cli("pause", "--status").out == "Shippers are not paused\nNo agent reported in the last hour\n"
    (logs / "a.log").write_text("one\n")
    agent = process(
        "ship", logs / "*.log", "--host", "web1", "--create", "LOGS", "--json", "--metrics", "200ms"
    )
    writer_command = ("consume-logs", "LOGS", tmp_path / "out", "--json", "--metrics", "0")

    def stored() -> int:
        return int(cli.json("stream", "info", "LOGS")["state"]["messages"])

    def written() -> list[str]:
        path = tmp_path / "out" / "web1.log"
        return path.read_text().splitlines() if path.exists() else []

    assert agent.line()
    writer = process(*writer_command)
    wait_until(lambda: written() == ["one"], "the first line")

    paused = cli("pause", "--shippers", "--consumers", "LOGS/log-files", "--wait", "20s")
    words = paused.out.splitlines()
    assert words[0].startswith("Shippers are paused until `jetspark resume`, by ")
    assert words[1].split() == ["Agent", "Host", "State", "Obeys", "Lines", "Last", "report"]
    assert words[2].split()[1:5] == ["web1", "paused", "yes", "1"]
    assert words[-1].split() == ["LOGS/log-files", "paused", "until", "resumed"]

    with (logs / "a.log").open("a") as file:
        file.write("two\n")
    again = cli.json(
        "pause", "--wait", "20s"
    )  # another word, which is obeyed: time enough to ship, if it did
    assert again["shippers"]["paused"] is True
    assert [(each["host"], each["state"], each["obeys"]) for each in again["agents"]] == [
        ("web1", "paused", True)
    ]
    assert [(each["stream"], each["consumer"], each["paused"]) for each in again["consumers"]] == [
        ("LOGS", "log-files", True)
    ]
    assert stored() == 1

    resumed = cli.json("resume", "--shippers", "--wait", "20s")
    assert resumed["shippers"]["paused"] is False
    assert resumed["agents"][0]["state"] == "shipping"
    wait_until(lambda: stored() == 2, "the second line")
    assert written() == ["one"]  # the consumer is still paused
    assert cli("resume", "--consumers", "LOGS/*").out.startswith("Shippers are not paused\n")
    wait_until(lambda: written() == ["one", "two"], "the second line in the file")

    for each in (agent, writer):
        each.signal(signal.SIGTERM)
        assert each.end().code == 0
    assert [each["state"] for each in cli.json("pause", "--status")["agents"]] == ["stopped"]


def test_status_shows_jobs(cli: Cli) -> None:
    cli("pause", "--wait", "0s")
    report = JobReport(name="job-1", host="h", pid=1, state="running", rows=1234, lag=5)
    for name, state in (("a", "running"), ("b", "failed")):
        data = msgspec.json.encode(msgspec.structs.replace(report, name=name, state=state))
        cli("pub", f"{JOBS}.{name}", data.decode())
    lines = cli("pause", "--status").out.splitlines()
    assert lines[2].split() == ["Job", "Host", "State", "Rows", "Lag", "Last", "report"]
    assert lines[3].split()[:5] == ["a", "h", "running", "1,234", "5"]
    assert lines[4].split()[:3] == ["b", "h", "failed"]
    assert [job["alive"] for job in cli.json("pause", "--status")["jobs"]] == [True, False]


def test_a_job_may_be_silent_for_longer_than_an_agent(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobReport(name="job-1", host="h", pid=1, state="running")
    agent = control.AgentReport(
        name="web1", host="h", pid=1, state="shipping", obeys=0, lines=1, bytes=1, behind=0
    )

    def states(seconds: float) -> list[str]:
        heard = datetime.now(UTC) - timedelta(seconds=seconds)

        async def read_state(js: JetStream) -> control.ControlState:
            agents = [msgspec.structs.replace(agent, heard=heard)]
            jobs = [msgspec.structs.replace(job, heard=heard)]
            return control.ControlState(control.Switch(), agents, [], jobs)

        monkeypatch.setattr(control, "read_state", read_state)
        lines = cli("pause", "--status").out.splitlines()
        return [lines[2].split()[2], lines[4].split()[2]]

    assert states(0) == ["shipping", "running"]
    assert states(20) == ["silent", "running"]
    assert states(40) == ["silent", "silent"]


def test_a_consumer_that_was_deleted_while_it_was_paused_is_forgotten_by_resume(cli: Cli) -> None:
    cli("stream", "add", "LOGS", "--subjects", "logs.>")
    cli("consumer", "add", "LOGS", "c")
    cli("pause", "--consumers", "LOGS/c")
    cli("consumer", "rm", "LOGS", "c", "--force")
    assert cli.json("pause", "--status")["consumers"][0]["missing"] is True
    assert cli.json("resume", "--consumers", "LOGS/c")["consumers"] == []
    assert "not found" in cli.fails("resume", "--consumers", "LOGS/c", code=4)


def test_a_pattern_that_matches_no_file_is_told(
    cli: Cli, process: Callable[..., Process], logs: Path
) -> None:
    (logs / "a.log").write_text("one\n")
    shipped = cli("ship", logs / "a.log", logs / "nope*.log", "--create", "LOGS", "--once")
    assert shipped.err == f"jetspark: no file matches {logs}/nope*.log\n"
    follower = process("ship", logs / "nope.log")
    assert follower.popen.stderr is not None
    assert follower.popen.stderr.readline().decode() == f"jetspark: no file matches {logs}/nope.log yet\n"


def test_an_agent_that_is_done_is_forgotten_after_a_minute(cli: Cli, logs: Path) -> None:
    (logs / "a.log").write_text("one\n")
    cli("ship", logs / "a.log", "--create", "LOGS", "--once")
    (agent,) = cli.json("pause", "--status")["agents"]
    assert (agent["state"], agent["alive"]) == ("stopped", False)
    report = cli.json(
        "stream", "get", "JETSPARK_CONTROL", "--last-for", f"jetspark.control.agent.{agent['name']}"
    )
    assert report["headers"]["Nats-TTL"] in (["60s"], ["1m0s"], ["60"])


def test_a_pause_ends_by_itself(cli: Cli, process: Callable[..., Process], logs: Path) -> None:
    (logs / "a.log").write_text("one\n")
    cli("stream", "add", "LOGS", "--subjects", "logs.>")
    cli("consumer", "add", "LOGS", "c")
    state = cli.json("pause", "--shippers", "--consumers", "LOGS/c", "--for", "1h")
    assert state["shippers"]["until"] is not None
    assert state["consumers"][0]["paused"] is True
    agent = process("ship", logs / "a.log", "--once")
    assert agent.popen.stderr is not None
    assert b"paused" in agent.popen.stderr.readline()
    cli("pause", "--shippers", "--consumers", "LOGS/c", "--for", "1s", "--wait", "0s")
    result = agent.end()  # it waits for the end of the pause
    assert result.out.startswith("stopped: 1 line")
    assert result.err.splitlines()[-1] == "jetspark: resumed"
    assert cli("pause", "--status").out.startswith("Shippers are not paused\n")
    wait_until(lambda: not cli.json("pause", "--status")["consumers"][0]["paused"], "the consumer goes on")
    assert cli.json("resume")["consumers"] == []


def test_a_consumer_of_logs_waits_for_a_server_that_is_not_there_yet(
    cli: Cli, server: Server, process: Callable[..., Process], tmp_path: Path
) -> None:
    cli("stream", "add", "LOGS", "--subjects", "logs.>")
    cli("pub", "logs.0.h", "one")
    server.kill()
    with held(server.port):
        assert "cannot connect" in cli.fails("consume-logs", "LOGS", tmp_path / "out", "--once", code=3)
        running = process("consume-logs", "LOGS", tmp_path / "out", "--json", "--metrics", "100ms")
        assert running.popen.stderr is not None
        assert b"waiting for the server" in running.popen.stderr.readline()
        server.start()
    wait_until((tmp_path / "out" / "h.log").exists, "the line in its file")
    running.signal(signal.SIGTERM)
    assert running.end().code == 0


def test_a_consumer_of_logs_that_is_killed_repeats_lines_and_loses_none(
    cli: Cli, server: Server, process: Callable[..., Process], tmp_path: Path
) -> None:
    cli("stream", "add", "LOGS", "--subjects", "logs.>")
    cli("pub", "logs.0.h", "h-{{Count}}", "--count", 10_000)
    command = (
        "consume-logs",
        "LOGS",
        tmp_path,
        "--batch",
        100,
        "--ack-wait",
        "1s",
        "--metrics",
        "0",  # nobody reads them
    )
    path = tmp_path / "h.log"
    kills = effort(1, 3)
    for number in range(1, kills + 1):
        running = process(*command)
        wait_until(lambda: path.exists() and path.stat().st_size > number * 8000, "more lines")  # noqa: B023
        running.signal(signal.SIGKILL)
        running.end()
    running = process(*command)
    wanted = {f"h-{number}" for number in range(1, 10_001)}
    wait_until(lambda: set(path.read_text().splitlines()) >= wanted, "every line", timeout=60.0)
    running.signal(signal.SIGTERM)
    assert running.end().code == 0
    # Only what was being written when it was killed may be torn: at most one line each time.
    assert len(set(path.read_text().splitlines()) - wanted) <= kills
