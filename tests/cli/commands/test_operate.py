"""`jetspark server`, `bench` and `doctor`, against the real server."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.server import Server
from tests.cli.support import Cli, Process, signal_when_printing


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_runs_until_it_is_told_to_end(
    process: Callable[..., Process], cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    running = process("server", "run", "--port", 0, "--json", "--monitor", "--name", "mine")
    told = json.loads(running.line())
    assert told["name"] == "mine"
    assert told["temporary"] is True
    assert told["monitor_url"].startswith("http://127.0.0.1:")
    assert Path(told["store_dir"]).is_dir()
    monkeypatch.setenv("NATS_URL", told["url"])
    cli("stream", "add", "A", "--subjects", "a")
    running.signal(number)
    result = running.end()
    assert (result.code, result.err) == (0, "")
    assert not Path(told["store_dir"]).exists()
    cli.fails("stream", "ls", code=3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_is_stopped_by_a_signal_right_after_its_first_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    signal_when_printing(monkeypatch, "record", number)
    assert cli.json("server", "run", "--port", 0)["url"].startswith("nats://127.0.0.1:")


def test_a_server_keeps_the_store_that_it_was_given(
    process: Callable[..., Process], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for turn in range(2):
        running = process("server", "run", "--port", 0, "--store-dir", tmp_path / "store", "--log")
        url = running.line().split()[-1]
        assert url.startswith("nats://127.0.0.1:")
        assert running.line().startswith("   Name: jetspark-")
        assert running.line() == f"  Store: {tmp_path / 'store'}\n"
        monkeypatch.setenv("NATS_URL", url)
        if turn == 0:
            cli("stream", "add", "KEPT", "--subjects", "kept")
        assert cli.json("stream", "ls", "--names") == ["KEPT"]
        running.signal(signal.SIGINT)
        result = running.end()
        assert result.code == 0
        assert "Server is ready" in result.err


def test_a_server_that_cannot_start_says_why(
    cli: Cli, shared_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = cli.fails("server", "run", "--port", shared_server.port, code=1)
    assert line.startswith(f"jetspark: port {shared_server.port} is in use. Use another --port")
    assert "name must match" in cli.fails("server", "run", "--port", 0, "--name", "a b", code=2)
    monkeypatch.setenv("JETSPARK_NATS_SERVER", "/no/such/nats-server")
    assert "not an executable" in cli.fails("server", "run", "--port", 0, code=1)


def test_a_server_that_dies_ends_the_command(process: Callable[..., Process]) -> None:
    import os

    running = process("server", "run", "--port", 0, "--json")
    os.kill(json.loads(running.line())["pid"], signal.SIGKILL)
    result = running.end()
    assert result.code == 1
    assert result.err.startswith("jetspark: the server ended")


def test_bench_measures_and_leaves_nothing_behind(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    small = ("--msgs", 2000, "--size", "64", "--storage", "memory")
    text = cli("bench", "pub", *small, "--window", 100).out
    assert text.startswith("pub: 2,000 messages of 64 B, window 100, in ")
    for arguments in (("pub",), ("fetch", "--batch", 500), ("fetch", "--ack", "explicit")):
        figures = cli.json("bench", *arguments, *small)
        assert (figures["messages"], figures["size"]) == (2000, 64)
        assert figures["messages_per_second"] > 0
    assert cli("bench", "fetch", *small).out.startswith(
        "fetch: 2,000 messages of 64 B, batch 5000, ack none, in "
    )
    header, acked, delivered = cli("bench", "latency", "--msgs", 20).out.splitlines()
    assert header.split() == ["min", "p50", "p90", "p99", "max"]
    assert (acked.split()[0], delivered.split()[0]) == ("acknowledged", "delivered")
    figures = cli.json("bench", "latency", "--msgs", 20)
    assert set(figures) == {"bench", "messages", "size", "ack", "delivery"}
    assert figures["ack"]["min"] <= figures["ack"]["p99"] <= figures["ack"]["max"]
    assert cli.json("stream", "ls", "--names") == []
    assert "'lots' is not a whole number" in cli.fails("bench", "pub", "--msgs", "lots", code=2)
    for verb in ("pub", "fetch", "latency"):
        assert "'0' is less than 1" in cli.fails("bench", verb, "--msgs", "0", code=2)
    assert cli.json("bench", "pub", "--msgs", "10", "--size", "0")["size"] == 0


def test_doctor_finds_a_healthy_server(cli: Cli) -> None:
    checks = {check["name"]: check for check in cli.json("doctor")}
    for name in ("Server", "Server version", "JetStream limits", "Permission to list streams", "Wire layer"):
        assert checks[name]["status"] == "ok", checks[name]
    assert all(set(check) == {"name", "status", "detail", "advice"} for check in checks.values())
    assert all(check["advice"] for check in checks.values() if check["status"] != "ok")
    text = cli("doctor").out
    assert "ok    Server: nats://127.0.0.1:" in text
    assert "Package msgspec" in text
    assert "Java" in text
    assert "Spark" in text


def test_doctor_tells_what_is_wrong_and_what_to_do(guest: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = guest("doctor", "--json", code=1)
    failed = {check["name"]: check for check in result.json if check["status"] == "fail"}
    assert "Permissions Violation" in failed["JetStream"]["detail"]
    assert "permissions" in failed["JetStream"]["advice"]
    monkeypatch.setenv("NATS_PASSWORD", "wrong")
    text = guest("doctor", code=1).out
    assert text.startswith("FAIL  Server: the server refused the credentials")
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert "FAIL  Server: cannot connect to 127.0.0.1:1" in guest("doctor", code=1).out


def test_doctor_warns_of_a_java_that_spark_does_not_run_on_and_of_a_missing_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for version in ("11.0.2", "24"):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        found = next(check for check in cli.json("doctor") if check["name"] == "Java")
        assert (found["status"], found["detail"]) == ("warn", f"{version} ({java})")
        assert "Java 17 to 23" in found["advice"]
    java.unlink()
    found = next(check for check in cli.json("doctor") if check["name"] == "Java")
    assert found["status"] == "warn"
