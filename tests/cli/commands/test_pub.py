"""`jetspark pub`, against the real server."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.cli.support import Cli, Process


def bodies(cli: Cli, stream: str) -> list[str]:
    records = cli("export", stream).records
    return [record["data"] for record in records]


def test_a_message_is_published_and_its_place_is_told(cli: Cli, stream: str) -> None:
    assert cli("pub", f"{stream.lower()}.a", "hello").out == f"Published 5 B, stored as {stream}#1\n"
    result = cli.json("pub", f"{stream.lower()}.a", "hello")
    assert result.pop("seconds") > 0
    assert result == {
        "published": 1,
        "bytes": 5,
        "duplicates": 0,
        "streams": {stream: {"first": 2, "last": 2}},
    }


def test_many_are_published_with_templates_filled_in(cli: Cli, stream: str) -> None:
    low = stream.lower()
    result = cli(
        *("pub", f"{low}.{{{{Count}}}}", "n {{Count}} {{.Unix}} {{Random 4 4}} {{ID}}", "--count", 300),
        *("-H", "Number:{{Count}}", "-H", "Number:twice", "--msg-id", "id-{{Count}}", "--window", 7),
    )
    assert re.fullmatch(
        rf"Published 300 messages, \S+ KiB, stored as {stream}#1-300, in \S+ s: \S+ messages/s\n", result.out
    )
    record = cli.json("stream", "get", stream, 300)
    assert record["subject"] == f"{low}.300"
    assert re.fullmatch(r"n 300 \d{10} \w{4} [0-9a-f]{22}", record["data"])
    assert record["headers"] == {"Number": ["300", "twice"], "Nats-Msg-Id": ["id-300"]}


def test_duplicates_are_told(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", "x", "--msg-id", "same")
    assert cli("pub", f"{stream.lower()}.a", "x", "--msg-id", "same").out.endswith(", a duplicate\n")
    assert cli.json("pub", f"{stream.lower()}.a", "x", "--msg-id", "same", "--count", 3)["duplicates"] == 3


def test_stdin_is_a_message_as_it_is(cli: Cli, stream: str) -> None:
    data = b"{{Count}} \x00\xff\nsecond line\n"
    cli("pub", f"{stream.lower()}.a", stdin=data)
    cli("pub", f"{stream.lower()}.a", "-", stdin=b"dash")
    assert cli("stream", "get", stream, 2, "--raw").out == "dash"
    assert cli.json("stream", "info", stream)["state"]["messages"] == 2
    record = cli.json("stream", "get", stream, 1)
    assert record["data_base64"] == "e3tDb3VudH19IAD/CnNlY29uZCBsaW5lCg=="


def test_each_line_of_stdin_is_a_message(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", "--lines", stdin=b"one\ntwo {{Count}}\r\n\nlast without end")
    assert bodies(cli, stream) == ["one", "two {{Count}}", "", "last without end"]


def test_lines_are_published_as_they_come(process: Callable[..., Process], cli: Cli, stream: str) -> None:
    import subprocess

    running = process("pub", f"{stream.lower()}.a", "--lines", stdin=subprocess.PIPE)
    heard = process("sub", "--stream", stream, "--count", 1, "--raw")
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"early\n")
    running.popen.stdin.flush()
    assert heard.end().out == "early\n"
    running.popen.stdin.write(b"late")
    assert running.end().code == 0
    assert bodies(cli, stream) == ["early", "late"]


def test_a_size_makes_up_data(cli: Cli, stream: str) -> None:
    assert cli.json("pub", f"{stream.lower()}.a", "--size", "1KB", "--count", 2)["bytes"] == 2048
    assert len(cli("stream", "get", stream, 2, "--raw").out) == 1024


def test_templates_can_be_switched_off(cli: Cli, stream: str) -> None:
    cli("pub", f"{stream.lower()}.a", "{{Nonsense}}", "--no-templates")
    assert bodies(cli, stream) == ["{{Nonsense}}"]
    line = cli.fails("pub", f"{stream.lower()}.a", "{{Nonsense}}", code=2)
    assert "unknown template '{{Nonsense}}'; known are Count, ID" in line


def test_without_jetstream_nobody_acknowledges(process: Callable[..., Process], cli: Cli, name: str) -> None:
    heard = process("sub", f"{name}.>", "--count", 2, "--json", "--trace")
    assert heard.popen.stderr is not None
    while b"<<< PONG" not in (line := heard.popen.stderr.readline()):
        assert line, "it never subscribed"
    while b"<<< PONG" not in (line := heard.popen.stderr.readline()):  # the first was that of the connect
        assert line, "it never subscribed"
    result = cli("pub", f"{name}.a", "x{{Count}}", "--core", "--count", 2, "--reply", "to.me", "-H", "A:b")
    assert result.out.startswith("Published 2 messages, 4 B, in ")
    records = heard.end().records
    assert [record["data"] for record in records] == ["x1", "x2"]
    assert (records[0]["reply"], records[0]["headers"]) == ("to.me", {"A": ["b"]})


def test_a_subject_without_a_stream_is_an_error_with_two_ways_out(cli: Cli, name: str) -> None:
    for number in (1, 2):
        line = cli.fails("pub", f"nobody.{name}", "x", "--count", number, code=4)
        assert "jetspark stream add" in line
        assert "--core" in line


def test_what_is_too_large_is_refused_before_it_is_sent(cli: Cli, stream: str) -> None:
    assert "2097152" in cli.fails("pub", f"{stream.lower()}.a", "--size", "2MB", code=2)


def test_a_stream_that_refuses_says_why(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", name, "--max-msgs", "2", "--discard", "new")
    line = cli.fails("pub", name, "x", "--count", 5, code=1)
    assert re.match(r"jetspark: \d messages were not stored: .*maximum messages exceeded", line)
    assert "maximum messages exceeded" in cli.fails("pub", name, "x", code=1)
