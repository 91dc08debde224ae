"""`jetspark consumer`, against the real server."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli
from tests.support.waiting import wait_until


@pytest.fixture
def consumer(cli: Cli, stream: str) -> str:
    """A consumer `worker` of `stream`, which holds three messages."""
    cli("pub", f"{stream.lower()}.jobs", "job {{Count}}", "--count", 3)
    cli("consumer", "add", stream, "worker")
    return "worker"


def test_add_takes_every_flag_of_the_blog_series(cli: Cli, stream: str) -> None:
    result = cli(
        *(
            "consumer",
            "add",
            stream,
            "ARCHIVE",
            "--filter",
            f"{stream.lower()}.>",
            "--ack",
            "explicit",
            "--pull",
        ),
        *("--wait=30s", "--max-deliver=10", "--deliver", "all", "--replay", "instant", "--sample", "100"),
        *("--max-pending", "50", "--description", "d", "--backoff", "1s,10s,1m"),
    )
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[0] == f"Consumer {stream} > ARCHIVE was created"
    assert "Maximum deliveries: 10" in lines
    assert "Backoff: 1s, 10s, 1m" in lines
    config = cli.json("consumer", "info", stream, "ARCHIVE")["config"]
    assert config["durable_name"] == "ARCHIVE"
    assert config["max_deliver"] == 10
    assert config["backoff"] == [1.0, 10.0, 60.0]
    assert config["filter_subject"] == f"{stream.lower()}.>"
    assert config["sample_freq"] == "100"
    assert config["max_ack_pending"] == 50


@pytest.mark.parametrize(
    ("start", "field", "value"),
    [
        ("all", "deliver_policy", "all"),
        ("new", "deliver_policy", "new"),
        ("last", "deliver_policy", "last"),
        ("subject", "deliver_policy", "last_per_subject"),
        ("17", "opt_start_seq", 17),
        ("1h", "deliver_policy", "by_start_time"),
        ("2026-01-31T12:00:00Z", "opt_start_time", "2026-01-31T12:00:00Z"),
    ],
)
def test_add_starts_where_deliver_says(cli: Cli, stream: str, start: str, field: str, value: object) -> None:
    arguments = ("consumer", "add", stream, "c", "--deliver", start, "--filter", f"{stream.lower()}.a")
    assert cli.json(*arguments)["config"][field] == value


def test_add_takes_several_filters_and_a_push_target(cli: Cli, stream: str) -> None:
    low = stream.lower()
    config = cli.json(
        *("consumer", "add", stream, "p", "--target", f"to.{low}", "--filter", f"{low}.a,{low}.b"),
        *("--ack", "none", "--heartbeat", "5s", "--flow-control", "--replay", "original"),
    )["config"]
    assert config["deliver_subject"] == f"to.{low}"
    assert config["filter_subjects"] == [f"{low}.a", f"{low}.b"]
    assert (config["idle_heartbeat"], config["flow_control"], config["replay_policy"]) == (
        5.0,
        True,
        "original",
    )


def test_an_ephemeral_consumer_needs_no_name(cli: Cli, stream: str) -> None:
    info = cli.json("consumer", "add", stream, "--ephemeral", "--inactive-threshold", "1m")
    assert info["config"]["durable_name"] is None
    assert info["name"]
    assert info["config"]["inactive_threshold"] == 60.0


def test_ls_and_info_show_how_far_it_is(cli: Cli, stream: str, consumer: str) -> None:
    header, row = cli("consumer", "ls", stream).out.splitlines()
    assert header.startswith("Name    Kind  Ack policy")
    assert row.split() == [consumer, "pull", "explicit", "30s", "0", "0", "3", "0"]
    assert cli("consumer", "ls", stream, "-n").out == f"{consumer}\n"
    assert cli.json("consumer", "ls", stream)[0]["num_pending"] == 3
    assert "Unprocessed: 3" in cli("consumer", "info", stream, consumer).out


def test_next_prints_and_acknowledges(cli: Cli, stream: str, consumer: str) -> None:
    text = cli("consumer", "next", stream, consumer).out
    assert text.startswith(f'[#1] Received on "{stream.lower()}.jobs": {stream}#1, 2 pending\n')
    assert "\njob 1\n" in text
    records = cli("consumer", "next", stream, consumer, "--count", 2, "--json").records
    assert [(record["sequence"], record["data"]) for record in records] == [(2, "job 2"), (3, "job 3")]
    assert records[0]["consumer"] == consumer

    def acknowledged() -> bool:
        info = cli.json("consumer", "info", stream, consumer)
        return (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (0, 3)

    wait_until(acknowledged, "all to be acknowledged")


def test_next_leaves_sends_back_or_terminates_when_told(cli: Cli, stream: str, consumer: str) -> None:
    cli("stream", "rmm", stream, 3, "--force")  # So that nothing comes before what is sent back.
    assert cli("consumer", "next", stream, consumer, "--no-ack", "--raw").out == "job 1"
    assert cli.json("consumer", "info", stream, consumer)["num_ack_pending"] == 1
    cli("consumer", "next", stream, consumer, "--nak")
    again = cli("consumer", "next", stream, consumer, "--json", "--term").records[0]
    assert (again["sequence"], again["num_delivered"]) == (2, 2)
    assert "exclude each other" in cli.fails("consumer", "next", stream, consumer, "--nak", "--term", code=2)


def test_next_without_messages_is_no_error(cli: Cli, stream: str) -> None:
    cli("consumer", "add", stream, "idle")
    result = cli("consumer", "next", stream, "idle", "--wait", "100ms")
    assert (result.out, result.err) == ("", "")


def test_pause_and_resume(cli: Cli, stream: str, consumer: str) -> None:
    assert (
        f"Consumer {stream} > {consumer} is paused until 20"
        in cli("consumer", "pause", stream, consumer, "1h").out
    )
    info = cli.json("consumer", "info", stream, consumer)
    assert info["paused"] is True
    assert "Paused: for " in cli("consumer", "info", stream, consumer).out
    paused = cli.json("consumer", "pause", stream, consumer, "2099-01-01T00:00:00Z")
    assert (paused["paused"], paused["pause_until"]) == (True, "2099-01-01T00:00:00Z")
    assert cli("consumer", "resume", stream, consumer).out == f"Consumer {stream} > {consumer} is resumed\n"
    assert cli.json("consumer", "info", stream, consumer)["paused"] is False
    assert "neither a duration" in cli.fails("consumer", "pause", stream, consumer, "later", code=2)


def test_rm_deletes_it_only_when_it_is_meant(cli: Cli, stream: str, consumer: str) -> None:
    assert "Add --force" in cli.fails("consumer", "rm", stream, consumer, code=2)
    assert cli.json("consumer", "rm", stream, consumer, "--force")["deleted"] is True
    line = cli.fails("consumer", "rm", stream, consumer, "--force", code=4)
    assert f"consumer {consumer} of stream {stream} not found" in line
    assert f"jetspark consumer ls {stream}" in line
