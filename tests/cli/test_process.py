"""What depends on a process: signals, pipes, exit codes, the entry points, completion."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.cli.main import main
from jetspark.server import Server
from tests.cli.support import LONG, Cli, Process
from tests.support.waiting import wait_until

#: Prints whether a child process ignores SIGINT, before and after `accept_interrupts`.
_CHILDREN = """
import subprocess, sys
from tests.support.interrupts import accept_interrupts

def ignored():
    code = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()

print(ignored())
accept_interrupts()
print(ignored())
"""


def test_children_can_be_interrupted_under_a_runner_that_ignores_sigint() -> None:
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", _CHILDREN]
    root = Path(__file__).parents[2]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    assert answer.stdout.split() == ["True", "False"]


@pytest.fixture
def many(cli: Cli, stream: str) -> str:
    """The stream with 20 MB: more than fits into any pipe."""
    cli("pub", f"{stream.lower()}.x", "--size", "10KB", "--count", 2000)
    return stream


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_waits_is_interrupted_without_a_word(
    process: Callable[..., Process], cli: Cli, stream: str, number: int, code: int
) -> None:
    cli("pub", f"{stream.lower()}.x", "first")
    running = process("sub", "--stream", stream, "--raw")
    assert running.line() == "first\n"
    running.signal(number)
    result = running.end()
    assert (result.code, result.out, result.err) == (code, "", "")
    # What it made on the server is gone, too.
    wait_until(lambda: cli.json("consumer", "ls", stream, "--names") == [], "no consumers")


def test_whoever_stops_reading_ends_it_without_a_word(process: Callable[..., Process], many: str) -> None:
    for command in (["export", many], ["sub", "--stream", many], ["sub", "--stream", many, "--json"]):
        running = process(*command)
        assert running.line()
        assert running.popen.stdout is not None
        running.popen.stdout.close()
        running.popen.stdout = None
        result = running.end()
        assert (result.code, result.err) == (141, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("file_name", ["out.parquet", "out.jsonl"])
def test_an_export_that_is_interrupted_leaves_no_file(
    process: Callable[..., Process],
    cli: Cli,
    server: Server,
    *,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    file_name: str,
    number: int,
    code: int,
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    cli("stream", "add", "A", "--subjects", "a")
    cli("pub", "a", "--size", "10KB", "--count", 6000)  # more than it reads ahead
    target = tmp_path / "target"
    target.mkdir()
    for _ in range(5):
        running = process("export", "A", "-o", target / file_name, env={"NATS_URL": server.url})
        wait_until(lambda: bool(list(target.iterdir())), "a file to begin")
        server.pause()
        running.signal(number)
        server.resume()
        result = running.end()
        if result.code != 0:
            break
        (target / file_name).unlink()  # It was done before we were: once more.
    assert (result.code, result.out, result.err) == (code, "", "")
    assert list(target.iterdir()) == []


def test_an_export_whose_stream_is_purged_meanwhile_ends(
    process: Callable[..., Process], cli: Cli, many: str, tmp_path: Path
) -> None:
    running = process("export", many, "--json", "-o", tmp_path / "out.jsonl")
    cli("stream", "purge", many, "--force")
    assert running.end().code == 0


def test_a_bench_that_is_interrupted_removes_its_stream(
    process: Callable[..., Process], cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    running = process("bench", "pub", "--msgs", 100_000_000, env={"NATS_URL": server.url})
    wait_until(lambda: bool(cli.json("stream", "ls", "--names")), "the stream of the bench")
    running.signal(signal.SIGINT)
    assert running.end().code == 130
    assert cli.json("stream", "ls", "--names") == []


def test_an_interrupted_pub_says_how_much_is_stored(
    process: Callable[..., Process], cli: Cli, stream: str
) -> None:
    running = process("pub", f"{stream.lower()}.x", "x", "--count", 1000, "--sleep", "20ms")
    wait_until(lambda: cli.json("stream", "info", stream)["state"]["messages"] > 0, "a message")
    running.signal(signal.SIGINT)
    result = running.end()
    assert result.code == 130
    assert "were acknowledged" in result.err
    assert "Traceback" not in result.err


def test_a_pub_that_waits_for_its_input_can_be_interrupted(
    process: Callable[..., Process], cli: Cli, stream: str
) -> None:
    running = process("pub", f"{stream.lower()}.x", "--lines", stdin=subprocess.PIPE)
    assert running.popen.stdin is not None
    running.popen.stdin.write(b"first\n")
    running.popen.stdin.flush()
    wait_until(lambda: cli.json("stream", "info", stream)["state"]["messages"] > 0, "a message")
    running.signal(signal.SIGINT)
    assert running.popen.wait(LONG) == 130  # While the pipe is still open.
    err = running.end().err
    assert err.startswith("jetspark: interrupted: ")
    assert err.count("\n") == 1


def test_a_pub_that_is_slower_than_its_input_can_be_interrupted(
    process: Callable[..., Process], cli: Cli, stream: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_bytes(b"x\n" * 2_000_000)  # more than it reads ahead
    with (tmp_path / "lines").open("rb") as lines:
        running = process("pub", f"{stream.lower()}.x", "--lines", "--sleep", "1h", stdin=lines)
    wait_until(lambda: cli.json("stream", "info", stream)["state"]["messages"] > 0, "a message")
    running.signal(signal.SIGINT)
    result = running.end()
    assert result.code == 130
    assert result.err.startswith("jetspark: interrupted: ")
    assert result.err.count("\n") == 1


def test_input_that_cannot_be_read_is_not_its_end(process: Callable[..., Process], stream: str) -> None:
    with open(os.devnull, "wb") as only_for_writing:
        result = process("pub", f"{stream.lower()}.x", "--lines", stdin=only_for_writing).end()
    assert (result.code, result.err) == (1, "jetspark: cannot read standard input: Bad file descriptor\n")


def test_a_server_that_comes_back_is_waited_for(
    process: Callable[..., Process], cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    cli("stream", "add", "A", "--subjects", "a")
    cli("pub", "a", "before")
    running = process("sub", "--stream", "A", "--raw", "--count", 2, env={"NATS_URL": server.url})
    assert running.line() == "before\n"
    server.restart()
    cli("pub", "a", "after")
    result = running.end()
    assert (result.code, result.out) == (0, "after\n")
    assert result.err.splitlines()[-1] == "jetspark: reconnected"


def test_output_that_is_piped_has_no_colours_and_no_remarks(
    process: Callable[..., Process], cli: Cli, stream: str
) -> None:
    result = process("stream", "info", stream).end()
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    for command in (["stream", "ls"], ["events", "--wait", "10ms"], ["--help"]):
        piped = cli(*command)
        assert "\x1b" not in piped.out
        assert piped.err == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_cut_short_in_a_pipe_that_is_full(
    process: Callable[..., Process], many: str, unbuffered: str
) -> None:
    result = process("export", many, env={"PYTHONUNBUFFERED": unbuffered}).end()
    assert [len(record["data"]) for record in result.records] == [10 * 1024] * 2000


def test_the_script_is_the_same_program_as_the_module() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert scripts == {"jetspark": f"{main.__module__}:{main.__name__}"}


@pytest.fixture
def completions(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], list[str]]:
    """What bash would offer behind a line."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_JETSPARK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit):
            main([])
        monkeypatch.delenv("_JETSPARK_COMPLETE")
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.split()

    return complete


def test_the_shell_completes_commands_options_and_names(
    completions: Callable[[str], list[str]], cli: Cli, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("consumer", "add", stream, "worker")
    assert completions("jetspark str") == ["stream"]
    assert completions("jetspark stream p") == ["purge"]
    assert "--max-age" in completions("jetspark stream add --max-a")
    # It gives up after a second, in which a busy machine may not answer. Other streams have random names too.
    wait_until(lambda: completions(f"jetspark stream info {stream[:-1]}") == [stream], "the stream")
    wait_until(lambda: completions(f"jetspark consumer info {stream} w") == ["worker"], "the consumer")
    assert completions("jetspark stream add X --storage m") == ["memory"]
    assert completions("jetspark events --kind max") == ["max_deliver"]
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert completions("jetspark stream info ") == []


def test_the_shell_asks_the_program_itself(process: Callable[..., Process]) -> None:
    words = {"_JETSPARK_COMPLETE": "complete_bash", "COMP_WORDS": "jetspark dea", "COMP_CWORD": "1"}
    result = process(env=words).end()
    assert (result.out.split(), result.err) == (["dead-letters"], "")
