"""`jetspark events` and `jetspark dead-letters`, against the real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from jetspark.cli.commands.events import _show
from jetspark.cli.ui.output import Output
from jetspark.jetstream.model.advisories import parse_advisory
from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.support.cases import for_each
from tests.support.raw import RawClient
from tests.support.waiting import wait_until


def listening(process: Callable[..., Process], *arguments: object) -> Process:
    """`jetspark events`, when it hears everything."""
    running = process("events", *arguments, "--trace")
    assert running.popen.stderr is not None
    for _ in range(2):  # the answers to the connect, and to the flush after the subscription
        while b"<<< PONG" not in (line := running.popen.stderr.readline()):
            assert line, "it never subscribed"
    return running


@pytest.fixture
def letters(server: Server, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of its own where consumer WORK of stream WQ gave up messages 1 and 3, and ADVISORIES knows."""
    monkeypatch.setenv("NATS_URL", server.url)
    cli("stream", "add", "ADVISORIES", "--subjects", "$JS.EVENT.ADVISORY.>", "--max-age", "1d")
    cli("stream", "add", "WQ", "--subjects", "workq.>", "--retention", "work")
    cli("consumer", "add", "WQ", "WORK", "--wait", "1m", "--max-deliver", "1")
    cli("pub", "workq.jobs", '{"job":"{{Count}}"}', "-H", "Team:a", "--count", 3, "--msg-id", "j{{Count}}")
    cli("consumer", "next", "WQ", "WORK", "--nak")
    cli("consumer", "next", "WQ", "WORK")
    cli("consumer", "next", "WQ", "WORK", "--term")
    about = {f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.WQ.WORK" for kind in ("MAX_DELIVERIES", "MSG_TERMINATED")}

    def told() -> bool:
        # The server says that a message was delivered too often when it would deliver it again.
        cli("consumer", "next", "WQ", "WORK", "--wait", "100ms")
        state = cli.json("stream", "info", "ADVISORIES", "--subjects", ">")["state"]
        return about <= set(state["subjects"])

    wait_until(told, "the advisories in their stream")


def test_events_are_shown_as_in_the_blog(process: Callable[..., Process], cli: Cli, stream: str) -> None:
    cli("consumer", "add", stream, "WORK", "--wait", "1s", "--max-deliver", "1")
    cli("pub", f"{stream.lower()}.jobs", "x")
    running = listening(process, "--kind", "max_deliver", "--stream", stream, "--count", 1)
    cli("consumer", "next", stream, "WORK", "--nak")
    cli("consumer", "next", stream, "WORK", "--wait", "1s")
    result = running.end()
    assert result.code == 0
    title, *rest = result.out.splitlines()
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\] \[\w{22}\] Delivery Attempts Exceeded", title)
    assert rest == [f"         Consumer: {stream} > WORK", "  Stream Sequence: 1", "       Deliveries: 1", ""]


def test_events_come_as_json_and_only_those_that_were_asked_for(
    process: Callable[..., Process], cli: Cli, name: str
) -> None:
    running = listening(
        process, "--kind", "stream_action,consumer_action", "--stream", name, "--json", "--count", 3
    )
    cli("stream", "add", f"{name}2", "--subjects", f"{name}2")
    cli("stream", "add", name, "--subjects", name)
    cli("consumer", "add", name, "c")
    cli("stream", "rm", name, "--force")
    first, second, third = running.end().records
    assert (first["kind"], first["stream"], first["action"]) == ("stream_action", name, "create")
    assert (second["kind"], second["consumer"]) == ("consumer_action", "c")
    assert third["action"] == "delete"
    assert set(first) >= {"type", "id", "timestamp"}


def test_events_end_when_none_come(cli: Cli, name: str) -> None:
    assert cli("events", "--stream", name, "--wait", "100ms").out == ""


@for_each(
    "fields",
    [
        {"replicas": 5},
        {"replicas": [5]},
        {"ack_time": "long"},
        {"client": ["x"]},
        {"client": {"user": [1]}},
        {"type": "io.nats.jetstream.metric.v1.consumer_ack", "ack_time": 2**63 - 1},
        {"timestamp": "9998-12-31T23:59:59Z"},
        {"deep": {"a": [[[[{}]]]]}},
    ],
    ids=str,
)
def test_any_event_can_be_shown(fields: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Any client may publish one, with any fields."""
    _show(Output(json=False), parse_advisory(json.dumps({"id": "x"} | fields).encode()))
    assert "[x]" in capsys.readouterr().out


def test_an_unknown_kind_is_refused_with_those_there_are(cli: Cli) -> None:
    line = cli.fails("events", "--kind", "surprise", code=2)
    assert "unknown kind 'surprise'. Known kinds: max_deliver, nak, terminated" in line
    assert "is not about a stream" in cli.fails("events", "--kind", "api_audit", "--stream", "X", code=2)


@pytest.mark.usefixtures("letters")
class TestDeadLetters:
    """With two dead letters of three messages."""

    def test_ls_lists_them(self, cli: Cli) -> None:
        header, *rows = cli("dead-letters", "ls", "WQ", "WORK").out.splitlines()
        assert header.split() == [
            "Sequence",
            "Given",
            "up",
            "Kind",
            "Deliveries",
            "Reason",
            "Subject",
            "Size",
        ]
        # The stream, a work queue, has let go of what was terminated.
        found = {int(row.split()[0]): row for row in rows}
        assert "max_deliveries" in found[1]
        assert "workq.jobs" in found[1]
        assert "deleted from the stream" in found[3]
        records = cli.json("dead-letters", "ls", "WQ", "WORK", "--since", "1h")
        assert {record["sequence"]: record["kind"] for record in records} == {
            1: "max_deliveries",
            3: "terminated",
        }
        assert (
            next(record["message"]["data"] for record in records if record["sequence"] == 1) == '{"job":"1"}'
        )

    def test_looking_leaves_no_consumer_behind(self, cli: Cli) -> None:
        for command in (["ls"], ["show", 1], ["replay", 1]):
            verb, *rest = command
            cli("dead-letters", verb, "WQ", "WORK", *rest)
        assert cli.json("consumer", "ls", "ADVISORIES", "--names") == []

    def test_ls_since_the_future_is_empty(self, cli: Cli) -> None:
        assert cli.json("dead-letters", "ls", "WQ", "WORK", "--since", "2099-01-01T00:00:00Z") == []

    def test_show_shows_one(self, cli: Cli) -> None:
        text = cli("dead-letters", "show", "WQ", "WORK", 1).out
        assert "Kind: max_deliveries" in text
        assert "Item: WQ#1 received" in text
        assert '{"job":"1"}' in text
        assert "was deleted from the stream" in cli("dead-letters", "show", "WQ", "WORK", 3).out
        assert cli.json("dead-letters", "show", "WQ", "WORK", 1)["deliveries"] == 1
        line = cli.fails("dead-letters", "show", "WQ", "WORK", 2, code=4)
        assert "has no dead letter 2" in line

    def test_replay_publishes_it_again_once(self, cli: Cli) -> None:
        assert cli("dead-letters", "replay", "WQ", "WORK", 1).out == "WQ#1 -> WQ#4\n"
        assert cli("dead-letters", "replay", "WQ", "WORK", 1).out == "WQ#1 -> WQ#4 (already stored)\n"
        record = cli.json("stream", "get", "WQ", 4)
        assert (record["subject"], record["data"]) == ("workq.jobs", '{"job":"1"}')
        assert record["headers"]["Team"] == ["a"]
        assert record["headers"]["Jetspark-Replayed-From"] == ["WQ#1"]
        assert record["headers"]["Nats-Msg-Id"] == ["replay/WQ/WORK/1"]

    def test_replay_commands_the_server_nothing_and_leaves_out_what_cannot_be_sent(
        self, cli: Cli, server: Server
    ) -> None:
        block = b"NATS/1.0\r\nTeam: b\r\nNats-Marker-Reason: MaxAge\r\nnats-ttl: 1\r\nno colon\r\n\r\n"
        with RawClient(server.port) as client:
            assert client.store("workq.jobs", block, b"poison")["seq"] == 4
        cli("consumer", "next", "WQ", "WORK", "--nak")

        def told() -> bool:
            cli("consumer", "next", "WQ", "WORK", "--wait", "100ms")
            return len(cli.json("dead-letters", "ls", "WQ", "WORK")) == 3

        wait_until(told, "the third dead letter")
        result = cli("dead-letters", "replay", "WQ", "WORK", 4)
        assert result.out == "WQ#4 -> WQ#5\n"
        assert result.err == "jetspark: WQ#4 has headers that cannot be sent: nats-ttl, a malformed block\n"
        assert set(cli.json("stream", "get", "WQ", 5)["headers"]) == {
            "Team",
            "Jetspark-Replayed-From",
            "Nats-Msg-Id",
        }

    def test_replay_of_all_asks_and_can_delete_the_old_ones(self, cli: Cli) -> None:
        assert "Add --force" in cli.fails("dead-letters", "replay", "WQ", "WORK", "--all", code=2)
        result = cli(
            "dead-letters",
            "replay",
            "WQ",
            "WORK",
            "--all",
            "--delete",
            "--force",
            "--to",
            "workq.again",
            "--json",
        )
        assert result.json["gone"] == 1
        (replayed,) = result.json["replayed"]
        assert (replayed["from"], replayed["sequence"], replayed["subject"]) == (1, 4, "workq.again")
        assert "no message found" in cli.fails("stream", "get", "WQ", 1, code=4)

    def test_a_replay_that_failed_again_is_left_out_unless_asked_for(self, cli: Cli) -> None:
        cli("dead-letters", "replay", "WQ", "WORK", 1)
        cli("consumer", "next", "WQ", "WORK", "--nak")

        def told() -> bool:
            cli("consumer", "next", "WQ", "WORK", "--wait", "100ms")
            return len(cli.json("dead-letters", "ls", "WQ", "WORK")) == 3

        wait_until(told, "the third dead letter")
        command = ("dead-letters", "replay", "WQ", "WORK", "--all", "--force", "--json")
        result = cli(*command).json
        assert [record["from"] for record in result["replayed"]] == [1]
        assert (result["gone"], result["failed_again"]) == (1, 1)
        assert "replayed before: 1 message; --again replays them" in cli(*command[:-1]).err
        result = cli(*command, "--again").json
        assert [record["from"] for record in result["replayed"]] == [1, 4]

    def test_purge_forgets_them(self, cli: Cli) -> None:
        assert "Add --force" in cli.fails("dead-letters", "purge", "WQ", "WORK", code=2)
        result = cli("dead-letters", "purge", "WQ", "WORK", "--messages", "--force")
        assert result.out == "2 dead letters of WQ > WORK are forgotten\n"
        assert cli.json("dead-letters", "ls", "WQ", "WORK") == []
        assert "no message found" in cli.fails("stream", "get", "WQ", 1, code=4)
        assert cli.json("dead-letters", "purge", "WQ", "WORK", "--force") == {"purged": 0}

    def test_replay_wants_to_know_which(self, cli: Cli) -> None:
        assert "give either sequences or --all" in cli.fails("dead-letters", "replay", "WQ", "WORK", code=2)
        assert "has no dead letter 2, 9" in cli.fails("dead-letters", "replay", "WQ", "WORK", 9, 2, 1, code=4)

    def test_follow_goes_on_with_those_to_come_and_from_a_durable_position_where_it_ended(
        self, cli: Cli, process: Callable[..., Process], server: Server
    ) -> None:
        command = ("dead-letters", "ls", "WQ", "WORK", "--follow", "--durable", "watcher", "--json")
        running = process(*command, env={"NATS_URL": server.url})
        assert {running.line().split('"sequence": ')[1][0] for _ in range(2)} == {"1", "3"}
        cli("pub", "workq.jobs", "more")
        cli("consumer", "next", "WQ", "WORK", "--term")
        assert '"sequence": 4' in running.line()
        wait_until(
            lambda: cli.json("consumer", "info", "ADVISORIES", "watcher")["num_ack_pending"] == 0,
            "the acknowledgement",
        )
        running.kill()
        cli("pub", "workq.jobs", "more")
        cli("consumer", "next", "WQ", "WORK", "--term")
        running = process(*command, env={"NATS_URL": server.url})
        assert '"sequence": 5' in running.line()
        assert "--durable needs --follow" in cli.fails(*command[:4], "--durable", "watcher", code=2)


def test_without_a_stream_of_advisories_the_way_out_is_a_command(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    cli("stream", "add", "WQ", "--subjects", "workq.>")
    cli("consumer", "add", "WQ", "WORK")
    line = cli.fails("dead-letters", "ls", "WQ", "WORK", code=2)
    assert "`jetspark stream add ADVISORIES --subjects '$JS.EVENT.ADVISORY.>' --max-age 7d`" in line
    assert cli("dead-letters", "capture").out == "Stream ADVISORIES stores advisories for 7d\n"
    assert cli.json("dead-letters", "ls", "WQ", "WORK") == []
    assert cli.json("dead-letters", "capture", "--max-age", "7d")["config"]["subjects"] == [
        "$JS.EVENT.ADVISORY.>"
    ]
