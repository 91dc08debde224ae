"""`req`, `reply`, `trace` and `server check`; `consumer edit`, `reset` and `report`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from jetspark import blocking
from jetspark.errors import NoResponders
from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.support.jwt import Operator
from tests.support.waiting import wait_until


def test_req_prints_the_answers_of_one_or_of_all(cli: Cli, shared_server: Server, name: str) -> None:
    with blocking.connect(shared_server.url) as nc:
        for answer in (b"one", b"two"):
            nc.subscribe(
                name, callback=partial(lambda answer, msg: msg.respond(answer + b" " + msg.data), answer)
            )
        nc.flush()
        assert cli("req", name, "you", "--raw").out.strip() in ("one you", "two you")
        records = cli("req", name, "-", "--replies", "0", "--wait", "5s", "--json", stdin=b"all").records
        assert sorted(record["data"] for record in records) == ["one all", "two all"]
    assert "no responders" in cli.fails("req", name, "x", code=1)


def test_reply_answers(cli: Cli, process: Callable[..., Process], shared_server: Server, name: str) -> None:
    running = process("reply", name, "number {{Count}}", "--count", "1", "--header", "a:b", "--json")
    with blocking.connect(shared_server.url) as nc:
        answers = []

        def answered() -> bool:
            with suppress(NoResponders):
                answers.append(nc.request(name, b"?", timeout=60))
            return bool(answers)

        wait_until(answered, "the answer")
    (answer,) = answers
    assert (answer.data, answer.headers["a"]) == (b"number 1", "b")
    assert running.end().code == 0
    assert "either an answer or --echo" in cli.fails("reply", name, code=2)


def test_trace_shows_the_way_of_a_message_and_stores_nothing(cli: Cli, stream: str) -> None:
    subject = cli.json("stream", "info", stream)["config"]["subjects"][0].replace(">", "x")
    shown = cli("trace", subject, "body").out
    assert "received: client" in shown
    assert stream in shown
    assert cli.json("stream", "info", stream)["state"]["messages"] == 0
    (event, *_) = cli.json("trace", subject)
    assert event["events"][0]["type"] == "in"


def test_check_tells_a_monitoring_system_how_it_is(
    cli: Cli, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ("--rtt-warn", "1h", "--rtt-critical", "2h")
    assert cli("server", "check", *slow).out.startswith("OK: rtt ")
    assert cli.run("server", "check", "--rtt-warn", "1us", "--rtt-critical", "1h").code == 1
    assert cli.run("server", "check", "--rtt-warn", "1us", "--rtt-critical", "1us").code == 2
    result = cli.run("server", "check", *slow, "--stream", stream, "--min-messages", "1", "--json")
    assert (result.code, result.json["status"]) == (2, "CRITICAL")
    assert ": no message yet |" in cli.run("server", "check", *slow, "--stream", stream, "--stale", "1h").out
    subject = cli.json("stream", "info", stream)["config"]["subjects"][0].replace(">", "x")
    cli("pub", subject, "x", "--count", 3)
    cli("consumer", "add", stream, "lazy")  # One from before would count them a moment after they are stored.
    about = ("--stream", stream, "--min-messages", "1", "--stale", "1h", "--consumer", "lazy")
    assert cli.run("server", "check", *slow, *about).code == 0
    line = cli.run("server", "check", *slow, *about, "--pending-warn", "3").out
    assert line.startswith("WARNING: unprocessed 3 | rtt=")
    assert cli.run("server", "check", "--stream", "NOPE").code == 2
    assert "--consumer needs --stream" in cli.fails("server", "check", "--consumer", "c", code=2)
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    gone = cli.run("server", "check")
    assert (gone.code, gone.out.startswith("CRITICAL: cannot connect")) == (2, True)


def test_check_and_doctor_read_the_limits_of_tiers(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits = {"mem_storage": -1, "disk_storage": 1 << 20, "streams": 1, "consumer": 10}
    operator = Operator(tiers={"R1": limits})
    monkeypatch.setenv("NATS_CREDS", str(operator.user().write(tmp_path / "user.creds")))
    with Server(config=operator.config) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        cli("stream", "add", "A", "--subjects", "a")
        line = cli("server", "check", "--rtt-warn", "1h", "--rtt-critical", "2h", code=2).out
        assert line.startswith("CRITICAL: streams R1 used 100 % | rtt=")
        assert line.endswith("storage_R1_used=0 streams_R1_used=100 consumers_R1_used=0\n")
        (found,) = (check for check in cli.json("doctor") if check["name"].startswith("JetStream limits"))
        assert (found["name"], found["status"]) == ("JetStream limits R1", "warn")
        assert found["detail"].endswith("memory 0 B of unlimited, streams 1 of 1, consumers 0 of 10")


def test_a_consumer_is_changed_reset_and_compared(cli: Cli, stream: str) -> None:
    cli("consumer", "add", stream, "worker", "--wait", "30s")
    subject = cli.json("stream", "info", stream)["config"]["subjects"][0].replace(">", "x")
    cli("pub", subject, "x", "--count", 4)
    assert "no setting given" in cli.fails("consumer", "edit", stream, "worker", "--force", code=2)
    cli("consumer", "edit", stream, "worker", "--wait", "1m", "--filter", subject, "--force")
    config = cli.json("consumer", "info", stream, "worker")["config"]
    assert (config["ack_wait"], config["filter_subject"]) == (60.0, subject)
    cli("consumer", "next", stream, "worker", "--count", 4)

    def acknowledged() -> bool:
        return bool(cli.json("consumer", "info", stream, "worker")["ack_floor"]["stream_seq"] == 4)

    wait_until(acknowledged, "all to be acknowledged")
    (report,) = cli.json("consumer", "report", stream)
    assert (report["consumer"], report["unprocessed"], report["ack_floor"]) == ("worker", 0, 4)
    cli("consumer", "reset", stream, "worker", "2", "--force")
    (report,) = cli.json("consumer", "report", stream)
    assert report["unprocessed"] == 3
    assert "worker" in cli("consumer", "report", stream).out
