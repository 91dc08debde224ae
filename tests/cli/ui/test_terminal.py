"""What somebody at a terminal sees and is asked."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.support import Cli, Terminal


def test_stream_add_asks_for_what_is_missing(terminal: Callable[..., Terminal], cli: Cli, name: str) -> None:
    shown = terminal("stream", "add", "--storage", "memory")
    for question, answer in (
        ("Name of the stream", name),
        ("Subjects, separated", f"{name}.>"),
        ("Retention", "work"),
        ("Maximum messages", "1000"),
        ("Maximum size", "10MB"),
        ("Maximum age", ""),
    ):
        shown.expect(question)
        shown.type(answer)
    assert shown.end() == 0
    config = cli.json("stream", "info", name)["config"]
    assert (config["subjects"], config["retention"], config["storage"]) == (
        [f"{name}.>"],
        "workqueue",
        "memory",
    )
    assert (config["max_msgs"], config["max_bytes"], config["max_age"]) == (1000, 10 * 1024 * 1024, 0.0)


def test_consumer_add_asks_for_what_is_missing(
    terminal: Callable[..., Terminal], cli: Cli, stream: str
) -> None:
    shown = terminal("consumer", "add", stream, "--max-deliver", "3")
    for question, answer in (
        ("Name of the consumer", "worker"),
        ("Start at", "new"),
        ("Acknowledgements", ""),
        ("Subject filter", f"{stream.lower()}.a"),
    ):
        shown.expect(question)
        shown.type(answer)
    assert shown.end() == 0
    config = cli.json("consumer", "info", stream, "worker")["config"]
    assert (config["deliver_policy"], config["ack_policy"], config["max_deliver"]) == ("new", "explicit", 3)
    assert config["filter_subject"] == f"{stream.lower()}.a"


def test_what_destroys_asks_first(terminal: Callable[..., Terminal], cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", "x", "--count", 2)
    refused = terminal("stream", "rm", stream)
    refused.expect(f"Delete stream {stream} with 2 messages and 0 consumers? [y/N]")
    refused.type("n")
    assert refused.end() == 1
    assert "nothing was changed" in refused.seen
    changed = terminal("stream", "edit", stream, "--max-msgs", "1")
    changed.expect("max_msgs: -1 -> 1")
    changed.expect(f"Change stream {stream}? [y/N]: ")
    assert changed.interrupt() == 130
    assert cli.json("stream", "info", stream)["state"]["messages"] == 2
    meant = terminal("stream", "rm", stream)
    meant.expect("[y/N]")
    meant.type("y")
    assert meant.end() == 0
    cli.fails("stream", "info", stream, code=4)


def test_tables_are_drawn_and_coloured(terminal: Callable[..., Terminal], cli: Cli, stream: str) -> None:
    shown = terminal("stream", "ls")
    assert shown.end() == 0
    assert "╭─" in shown.seen
    assert "\x1b[1m" in shown.seen
    assert stream in shown.seen
    plain = terminal("stream", "ls", env={"NO_COLOR": "1"})
    assert plain.end() == 0


def test_events_say_what_they_listen_to_and_end_with_ctrl_c(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("events")
    shown.expect("Listening for advisories on $JS.EVENT.ADVISORY.>")
    assert shown.interrupt() == 130
    assert "Traceback" not in shown.seen


def test_long_work_shows_how_far_it_is(terminal: Callable[..., Terminal], stream: str) -> None:
    shown = terminal("pub", f"{stream.lower()}.x", "x", "--count", "100", "--sleep", "10ms")
    shown.expect("Publishing")
    shown.expect("/100")
    assert shown.end() == 0
    assert "Published 100 messages" in shown.seen


def test_raw_data_cannot_command_a_terminal(terminal: Callable[..., Terminal], cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", stdin=b"\x1b]0;owned\x07red\xff")
    for arguments in (
        ("sub", "--stream", stream, "--raw", "--count", "1"),
        ("stream", "get", stream, "1", "--raw"),
    ):
        shown = terminal(*arguments)
        assert shown.end() == 0
        assert "\\x1b]0;owned\\x07red\\xff" in shown.seen
        assert "\x1b]" not in shown.seen
