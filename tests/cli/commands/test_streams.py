"""`jetspark stream`, against the real server."""

from __future__ import annotations

import pytest

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.cli.support import Cli


def test_add_creates_a_stream_and_shows_it(cli: Cli, name: str) -> None:
    result = cli(
        *("stream", "add", name, "--subjects", f"{name}.a,{name}.b", "--subjects", f"{name}.c.>"),
        *("--max-age", "1y", "--max-bytes", "10MB", "--max-msgs", "1_000", "--max-msg-size", "64k"),
        *("--storage", "memory", "--retention", "work", "--discard", "new", "--dupe-window", "30s"),
        *(
            "--replicas",
            "1",
            "--no-ack",
            "--no-direct",
            "--description",
            "For tests",
            "--metadata",
            "team=a=b",
        ),
    )
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[0] == f"Stream {name} was created"
    for line in (
        f"Subjects: {name}.a, {name}.b, {name}.c.>",
        "Retention: workqueue",
        "Maximum age: 1y",
        "Maximum bytes: 10.0 MiB",
        "Maximum messages: 1,000",
        "Acknowledgements: no",
        "Direct get: no",
    ):
        assert line in lines
    config = cli.json("stream", "info", name)["config"]
    assert config["max_age"] == 31536000.0
    assert config["max_bytes"] == 10 * 1024 * 1024
    assert config["max_msg_size"] == 64 * 1024
    assert config["duplicate_window"] == 30.0
    assert config["storage"] == "memory"
    assert config["discard"] == "new"
    assert config["no_ack"] is True
    assert config["metadata"]["team"] == "a=b"


def test_add_takes_minus_one_for_no_limit_as_the_nats_cli_does(cli: Cli, name: str) -> None:
    cli(
        *("stream", "add", name, "--subjects", name, "--ack", "--max-msgs=-1", "--max-bytes=-1"),
        *("--max-msg-size=-1", "--max-age=0", "--retention", "limits", "--discard=old"),
    )
    config = cli.json("stream", "info", name)["config"]
    assert (config["max_msgs"], config["max_bytes"], config["max_msg_size"]) == (-1, -1, -1)
    assert config["no_ack"] is False


def test_add_twice_with_another_configuration_is_refused_with_a_way_out(cli: Cli, stream: str) -> None:
    line = cli.fails("stream", "add", stream, "--subjects", "other", code=1)
    assert f"jetspark stream edit {stream}" in line


def test_add_without_a_name_and_without_a_terminal_is_an_error(cli: Cli) -> None:
    assert "missing STREAM" in cli.fails("stream", "add", "--subjects", "x", code=2)


def test_ls_lists_streams_as_table_names_and_json(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.x", "hello")
    header, *rows = cli("stream", "ls").out.splitlines()
    assert header.split() == [
        "Name",
        "Subjects",
        "Storage",
        "Messages",
        "Size",
        "Consumers",
        "Last",
        "message",
    ]
    row = next(row for row in rows if row.startswith(stream))
    assert row.split()[:4] == [stream, f"{stream.lower()}.>", "file", "1"]
    assert stream in cli("stream", "ls", "--names").out.splitlines()
    found = next(each for each in cli.json("stream", "ls") if each["config"]["name"] == stream)
    assert found["state"]["messages"] == 1
    assert stream in cli.json("stream", "ls", "--names")


def test_ls_finds_the_stream_of_a_subject(cli: Cli, stream: str) -> None:
    assert cli.json("stream", "ls", "--names", "--subject", f"{stream.lower()}.any") == [stream]
    nothing = cli("stream", "ls", "--subject", "nobody.stores.this")
    assert (nothing.out, nothing.err) == ("", "")


def test_info_counts_the_messages_of_subjects(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.{{{{Count}}}}", "x", "--count", 3)
    text = cli("stream", "info", stream, "--subjects", ">").out
    assert "Messages: 3" in text
    assert "Last sequence: 3 @ " in text
    assert f"{stream.lower()}.2" in text
    assert cli.json("stream", "info", stream, "--subjects", ">")["state"]["subjects"] == {
        f"{stream.lower()}.{number}": 1 for number in (1, 2, 3)
    }


def test_get_shows_a_message_as_the_nats_cli_does(cli: Cli, stream: str) -> None:
    subject = f"{stream.lower()}.jobs"
    cli("pub", subject, '{"job":"hello world"}', "-H", "Source:test")
    item, _, header, _, body, *_ = cli("stream", "get", stream, "1").out.splitlines()
    assert item.startswith(f"Item: {stream}#1 received 20")
    assert item.endswith(f"on Subject {subject}")
    assert header == "  Source: test"
    assert body == '{"job":"hello world"}'
    record = cli.json("stream", "get", stream, "--last-for", subject)
    assert record["sequence"] == 1
    assert record["headers"] == {"Source": ["test"]}
    assert (record["data"], record["data_base64"]) == ('{"job":"hello world"}', None)
    assert cli("stream", "get", stream, "1", "--raw").out == '{"job":"hello world"}'


def test_get_gives_data_that_is_no_text_as_base64(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.bin", stdin=b"\xff\x00")
    record = cli.json("stream", "get", stream, "1")
    assert (record["data"], record["data_base64"]) == (None, "/wA=")


def test_get_without_such_a_message_fails(cli: Cli, stream: str) -> None:
    assert "no message found" in cli.fails("stream", "get", stream, "99", code=4)
    assert "give either a sequence or --last-for" in cli.fails("stream", "get", stream, code=2)


def test_purge_deletes_messages(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", "x", "--count", 5)
    cli("pub", f"{stream.lower()}.b", "x", "--count", 5)
    assert cli.json(
        "stream", "purge", stream, "--subject", f"{stream.lower()}.a", "--keep", 1, "--force"
    ) == {
        "stream": stream,
        "purged": 4,
    }
    assert cli("stream", "purge", stream, "-f").out == f"Deleted 6 messages of stream {stream}\n"


def test_edit_changes_only_what_is_said(cli: Cli, stream: str) -> None:
    cli("stream", "edit", stream, "--max-age", "7d", "--force")
    text = cli("stream", "edit", stream, "--description", "new", "--force").out
    assert text.startswith(f"Stream {stream} was changed")
    config = cli.json("stream", "info", stream)["config"]
    assert (config["max_age"], config["description"]) == (604800.0, "new")
    assert config["subjects"] == [f"{stream.lower()}.>"]
    again = cli("stream", "edit", stream, "--description", "new").out
    assert again.startswith(f"Stream {stream} is unchanged")
    assert "no setting given" in cli.fails("stream", "edit", stream, code=2)


def test_rm_deletes_the_stream(cli: Cli, stream: str) -> None:
    assert cli("stream", "rm", stream, "--force").out == f"Deleted stream {stream}\n"
    line = cli.fails("stream", "info", stream, code=4)
    assert line == (
        f"jetspark: stream {stream} not found (10059). "
        "`jetspark stream ls` lists the streams; check --js-domain, too\n"
    )


@pytest.mark.parametrize("command", [["rm"], ["purge"], ["edit", "--max-msgs", "1"]])
def test_what_destroys_is_refused_without_force_when_nobody_can_be_asked(
    cli: Cli, stream: str, command: list[str]
) -> None:
    cli("pub", f"{stream.lower()}.a", "x", "--count", 2)
    verb, *rest = command
    assert "Add --force, or run the command in a terminal" in cli.fails("stream", verb, stream, *rest, code=2)
    assert cli.json("stream", "info", stream)["state"]["messages"] == 2


def test_names_and_data_cannot_command_the_terminal(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.x", stdin=b"red \x1b[31m\x9b bell \x07 turned \xe2\x80\xae end\r\n\tkept")
    text = cli("stream", "get", stream, "1").out
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert r"red \x1b[31m\x9b bell \x07 turned \u202e end" in text
    assert "\n\tkept" in text
    assert "\x1b" not in cli("stream", "get", stream, "1", "--json").out


def test_the_stream_of_advisories_is_the_same_in_python_and_on_the_command_line(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    recipe = ("stream", "add", "ADVISORIES", "--subjects", "$JS.EVENT.ADVISORY.>", "--max-age", "7d")
    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        cli(*recipe)
        js.create_advisory_stream()
        js.delete_stream("ADVISORIES")
        js.create_advisory_stream()
        cli(*recipe)


def test_a_stream_has_the_same_defaults_in_python_and_on_the_command_line(cli: Cli, server: Server) -> None:
    with blocking.connect(server.url) as connection:
        cli("stream", "add", "A", "--subjects", "a", "-s", server.url)
        connection.jetstream().create_stream(StreamConfig(name="A", subjects=["a"]))


def test_rmm_deletes_one_message_and_never_the_stream(cli: Cli, stream: str) -> None:
    for text in ("a", "b", "c"):
        cli("pub", f"{stream.lower()}.x", text)
    assert "confirmation needed: Delete message 2" in cli.fails("stream", "rmm", stream, 2, code=2)
    assert cli("stream", "rmm", stream, 2, "--force").out == f"Deleted message 2 of stream {stream}\n"
    assert cli.json("stream", "rmm", stream, 3, "-f") == {"stream": stream, "sequence": 3, "deleted": True}
    state = cli.json("stream", "info", stream)["state"]
    assert (state["messages"], state["last_seq"]) == (1, 3)
    assert "sequence 2 not found" in cli.fails("stream", "rmm", stream, 2, "-f", code=4)
