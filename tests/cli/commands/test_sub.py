"""`jetspark sub`, against the real server. What a plain subject brings is in `test_pub.py`."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli
from tests.support.waiting import wait_until


@pytest.fixture
def filled(cli: Cli, stream: str) -> str:
    """The stream with `a 1` to `a 5`, then `b 1` to `b 5`."""
    for letter in "ab":
        cli("pub", f"{stream.lower()}.{letter}", f"{letter} {{{{Count}}}}", "--count", 5)
    return stream


def data(cli: Cli, *arguments: object) -> list[str]:
    return [record["data"] for record in cli("sub", *arguments, "--json").records]


def test_a_stream_is_read_from_its_beginning(cli: Cli, filled: str) -> None:
    text = cli("sub", "--stream", filled, "--count", 2).out
    first, *_ = text.splitlines()
    assert first == f'[#1] Received on "{filled.lower()}.a": {filled}#1, 9 pending'
    assert "[#2]" in text
    assert "[#3]" not in text
    assert len(data(cli, "--stream", filled, "--wait", "5s", "--count", 10)) == 10
    assert cli.json("consumer", "ls", filled, "--names") == []


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (["--deliver", "9"], ["b 4", "b 5"]),
        (["--start-sequence", "9"], ["b 4", "b 5"]),
        (["--deliver", "last"], ["b 5"]),
        (["--deliver", "subject"], ["a 5", "b 5"]),
        (["--deliver", "new"], []),
        (["--since", "1h"], [f"{letter} {number}" for letter in "ab" for number in range(1, 6)]),
        (["--deliver", "2099-01-01T00:00:00Z"], []),
    ],
)
def test_a_stream_is_read_from_where_it_is_said(
    cli: Cli, filled: str, start: list[str], expected: list[str]
) -> None:
    assert data(cli, "--stream", filled, *start, "--wait", "3s") == expected


def test_a_subject_filters_a_stream(cli: Cli, filled: str) -> None:
    assert data(cli, f"{filled.lower()}.b", "--stream", filled, "--count", 2) == ["b 1", "b 2"]


def test_a_consumer_goes_on_where_it_was_and_takes_no_more_than_wanted(cli: Cli, filled: str) -> None:
    cli("consumer", "add", filled, "c")
    assert data(cli, "--stream", filled, "--consumer", "c", "--count", 3) == ["a 1", "a 2", "a 3"]

    def acknowledged() -> bool:
        info = cli.json("consumer", "info", filled, "c")
        return (info["num_ack_pending"], info["num_pending"], info["delivered"]["stream_seq"]) == (0, 7, 3)

    wait_until(acknowledged, "three to be acknowledged")
    assert data(cli, "--stream", filled, "--consumer", "c", "--no-ack", "--count", 1) == ["a 4"]
    assert cli.json("consumer", "info", filled, "c")["num_ack_pending"] == 1
    assert len(data(cli, "--stream", filled, "--consumer", "c", "--wait", "3s")) == 6


def test_with_ack_a_work_queue_is_emptied(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", name, "--retention", "work")
    cli("pub", name, "job {{Count}}", "--count", 3)
    assert cli("sub", "--stream", name, "--ack", "--count", 2, "--raw").out == "job 1\njob 2\n"
    wait_until(lambda: cli.json("stream", "info", name)["state"]["messages"] == 1, "one to be left")
    assert cli.json("consumer", "ls", name, "--names") == []


def test_a_work_queue_without_ack_is_refused_with_the_reason(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", name, "--retention", "work")
    assert "work" in cli.fails("sub", "--stream", name, "--wait", "1s", code=1)
