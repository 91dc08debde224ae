"""Metrics over HTTP and logs as JSON, of the real commands."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetspark.server import Server
from tests.cli.support import Cli, Process, signal_when_printing
from tests.support.extras import without
from tests.support.metrics_page import served_by
from tests.support.scrape import Scrape, scrape
from tests.support.waiting import wait_until
from tests.test_extras import run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "logs" / "app.log"
    file.parent.mkdir()
    file.write_text("one\ntwo\n")
    return file


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def stderr_line(process: Process) -> str:
    assert process.popen.stderr is not None
    return process.popen.stderr.readline().decode()


def records(text: str) -> list[dict[str, Any]]:
    """Lines that must all be JSON."""
    found = [json.loads(line) for line in text.splitlines()]
    for record in found:
        assert list(record)[:4] == ["time", "level", "logger", "message"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    return found


def scraped(port: int, names: set[str]) -> Scrape:
    """Wait until all of these metrics are there, and nothing else of jetspark is."""
    wait_until(lambda: set(scrape(port)) == names, f"{len(names)} metrics")
    return scrape(port)


def port_of(record: dict[str, Any]) -> int:
    assert (record["level"], record["message"]) == ("info", "serving metrics")
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/metrics", record["url"])
    assert found is not None
    return int(found[1])


def test_ship_and_consume_logs_serve_the_metrics_of_the_table_and_log_json_alone(
    process: Callable[..., Process], log: Path, tmp_path: Path, server: Server
) -> None:
    common = ("--metrics-port", "0", "--log-format", "json", "--metrics", "0")
    agent = process("ship", log, tmp_path / "missing", "--host", "web1", "--create", "LOGS", *common)
    (first,) = records(stderr_line(agent))
    assert first["logger"] == "jetspark.ship"
    port = port_of(first)
    (second,) = records(stderr_line(agent))
    assert (second["level"], second["message"][:15]) == ("warning", "no file matches")
    wait_until(
        lambda: sum(scrape(port).get("jetspark_agent_lines_total", {}).values()) == 2, "two lines are stored"
    )
    found = scraped(port, served_by("ship"))
    ((name, host),) = found["jetspark_agent_up"]
    assert (name[:5], host) == ("web1-", "web1")
    assert found["jetspark_agent_behind_bytes"][name, host] == 0
    assert found["jetspark_publisher_acks_total"]["jetspark-cli",] >= 2

    writer = process("consume-logs", "LOGS", tmp_path / "out", *common)
    (first,) = records(stderr_line(writer))
    assert first["logger"] == "jetspark.consume-logs"
    port = port_of(first)
    wait_until(
        lambda: scrape(port)["jetspark_log_writer_lines_total"]["LOGS", "log-files"] == 2, "they are written"
    )
    found = scraped(port, served_by("consume-logs"))
    labels = ("jetspark-cli", "LOGS", "log-files")
    assert found["jetspark_consumer_deliveries_total"][labels] == 2
    assert found["jetspark_consumer_acks_total"]["jetspark-cli",] == 2

    for each in (writer, agent):
        each.signal(signal.SIGTERM)
        ended = each.end()
        assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_first_line_stops_them_with_0(
    cli: Cli, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cli("ship", log, "--once", "--create", "LOGS")
    signal_when_printing(monkeypatch, "inform", number)
    for command in (("ship", log), ("consume-logs", "LOGS", tmp_path / "out")):
        assert cli(*command, "--metrics-port", "0").err.startswith("jetspark: serving metrics http://")


def test_errors_are_json_too(cli: Cli, log: Path) -> None:
    for arguments, code, words in (
        (("--once",), 4, "no stream stores"),
        (("--once", "--prefix", "a b"), 2, "prefix"),
        (("--once", "-s", "nats://127.0.0.1:1"), 3, "cannot connect"),
        (("--nonsense",), 2, "No such option"),
    ):
        ended = cli.run("ship", log, "--log-format", "json", *arguments)
        (record,) = records(ended.err)
        assert (ended.code, record["level"], record["code"]) == (code, "error", code)
        assert words in record["message"]
    # The next command is text again.
    assert cli.fails("stream", "info", "NONE", code=4).startswith("jetspark: stream NONE not found")


def test_the_protocol_is_json_too(cli: Cli, log: Path) -> None:
    ended = cli("ship", log, "--once", "--create", "LOGS", "--log-format", "json", "--trace")
    shown = records(ended.err)
    assert {record["level"] for record in shown} == {"debug"}
    assert any("CONNECT" in record["message"] for record in shown)


def test_text_says_where_the_metrics_are(cli: Cli, log: Path) -> None:
    ended = cli("ship", log, "--once", "--create", "LOGS", "--metrics-port", "0")
    assert re.fullmatch(r"jetspark: serving metrics http://127\.0\.0\.1:\d+/metrics\n", ended.err)


def test_a_port_in_use_and_an_address_without_a_port_are_one_line(cli: Cli, log: Path, taken: int) -> None:
    line = cli.fails("ship", log, "--once", "--metrics-port", str(taken), code=2)
    assert line.startswith(f"jetspark: cannot serve metrics on 127.0.0.1:{taken}: Address already in use. ")
    line = cli.fails("ship", log, "--once", "--metrics-address", "127.0.0.1", code=2)
    assert line == "jetspark: --metrics-address needs --metrics-port\n"


def test_without_the_extra_it_is_named(tmp_path: Path, log: Path, server: Server) -> None:
    env = {**without(tmp_path / "site", "prometheus_client"), "NATS_URL": server.url}
    ended = run(env, "-m", "jetspark", "ship", log, "--once", "--metrics-port", "0")
    assert (ended.returncode, ended.stderr) == (
        1,
        "jetspark: metrics need prometheus-client. Install it with `pip install 'jetspark[metrics]'`\n",
    )
