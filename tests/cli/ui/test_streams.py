"""Output that cannot be written: a full disk, a closed descriptor, a reader that left, an old encoding."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import LONG, Cli, Process, Result


@pytest.fixture
def with_stdout(process: Callable[..., Process]) -> Callable[..., Result]:
    """Runs a command with this file descriptor as its stdout."""

    def run(stdout: int, *arguments: object, **env: str) -> Result:
        return process(*arguments, stdout=stdout, env=env).end()

    return run


COMMANDS = [("--help",), ("--version",), ("stream", "ls", "--help"), ("doctor",), ("doctor", "--json")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(with_stdout: Callable[..., Result], command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = with_stdout(full.fileno(), *command)
    assert (result.code, result.err) == (1, "jetspark: cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_left_is_silence(with_stdout: Callable[..., Result], command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = with_stdout(writer, *command)
    finally:
        os.close(writer)
    assert (result.code, result.err) == (141, "")


@pytest.mark.parametrize("command", COMMANDS[:4:3], ids=" ".join)
def test_a_closed_stdout_is_one_line(no_settings: Path, command: tuple[str, ...]) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "jetspark", *command],
        stderr=subprocess.PIPE,
        check=False,
        timeout=LONG,
    )
    said = b"jetspark: cannot write to stdout: Bad file descriptor\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_a_closed_stderr_disturbs_nobody(no_settings: Path) -> None:
    command = 'exec "$@" 2>&-', "sh", sys.executable, "-m", "jetspark"
    for arguments, code in ((["--version"], 0), (["nope"], 2)):
        ended = subprocess.run(
            ["sh", "-c", *command, *arguments], capture_output=True, check=False, timeout=LONG
        )
        assert (ended.returncode, ended.stderr) == (code, b"")


def test_a_closed_stdin_is_an_empty_one(cli: Cli, stream: str) -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "jetspark"]
    subject = f"{stream.lower()}.x"
    for arguments in (["stream", "info", stream], ["pub", subject, "--lines"], ["pub", subject]):
        ended = subprocess.run([*command, *arguments], capture_output=True, check=False, timeout=LONG)
        assert (ended.returncode, ended.stderr) == (0, b"")
    assert cli.json("stream", "info", stream)["state"]["messages"] == 1


def test_characters_that_an_encoding_lacks_are_escaped(
    process: Callable[..., Process], cli: Cli, stream: str
) -> None:
    cli("pub", f"{stream.lower()}.x", "ü€")
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    shown = process("stream", "get", stream, 1, env=ascii_only).end()
    assert (shown.code, shown.err) == (0, "")
    assert "\\xfc\\u20ac" in shown.out
    as_json = process("stream", "get", stream, 1, "--json", env=ascii_only).end()
    assert as_json.json["data"] == "ü€"


def test_no_progress_is_drawn_beside_a_pipe(cli: Cli, stream: str) -> None:
    """`jetspark export A | less`, on a terminal: both would draw on it."""
    cli("pub", f"{stream.lower()}.x", "x", "--count", 1000)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "jetspark", "export", stream],
        env={**os.environ, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=slave,
    ) as popen:
        os.close(slave)
        assert len(popen.communicate(timeout=LONG)[0].splitlines()) == 1000
    os.set_blocking(master, False)
    try:
        drawn = os.read(master, 65536)
    except OSError:  # Nothing was written, and nobody is left to write.
        drawn = b""
    os.close(master)
    assert drawn == b""
