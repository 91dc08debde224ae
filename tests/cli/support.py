"""Running commands: in this process where that is enough, as a process where it matters, on a terminal."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jetspark.cli.main import main
from jetspark.cli.ui.output import Output

__all__ = ["Cli", "Process", "Result", "Terminal", "signal_when_printing"]

LONG = 60.0  # seconds; only a hang takes so long


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def records(self) -> list[Any]:
        """One JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs commands in this process: `cli("stream", "ls")`. What is not expected to fail must not."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(self, *arguments: object, stdin: bytes = b"") -> Result:
        """What a command left behind, whether it failed or not."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        actual = main([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Result(int(actual), captured.out, captured.err)

    def __call__(self, *arguments: object, stdin: bytes = b"", code: int = 0) -> Result:
        result = self.run(*arguments, stdin=stdin)
        assert result.code == code, f"{arguments}: {result}"
        return result

    def json(self, *arguments: object, stdin: bytes = b"") -> Any:
        """The document that the command prints with --json; nothing else may be said."""
        result = self(*arguments, "--json", stdin=stdin)
        assert result.err == ""
        return result.json

    def fails(self, *arguments: object, code: int, stdin: bytes = b"") -> str:
        """The one line that says what went wrong."""
        result = self(*arguments, stdin=stdin, code=code)
        assert result.out == ""
        assert result.err.startswith("jetspark: ")
        assert result.err.count("\n") == 1, result.err
        assert "Traceback" not in result.err
        assert "bug in jetspark" not in result.err
        return result.err


def signal_when_printing(monkeypatch: pytest.MonkeyPatch, method: str, number: int) -> None:
    """Send this process a signal as soon as a method of `Output` has printed something."""
    printing: Callable[..., None] = getattr(Output, method)

    def print_and_signal(self: Output, *args: object, **fields: object) -> None:
        printing(self, *args, **fields)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(Output, method, print_and_signal)


class Process:
    """`jetspark ...` as a process of its own."""

    def __init__(self, *arguments: object, env: Mapping[str, str] | None = None, **options: Any) -> None:
        self.popen: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-m", "jetspark", *map(str, arguments)],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            **options,
        )

    def line(self) -> str:
        """The next line of its output, waited for."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().decode()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def end(self, timeout: float = LONG) -> Result:
        """Wait until it has ended by itself."""
        try:
            out, err = self.popen.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Result(self.popen.returncode, (out or b"").decode(), err.decode())

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.communicate()


class Terminal:
    """`jetspark ...` on a terminal, where somebody answers its questions."""

    def __init__(self, *arguments: object, env: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", **(env or {})}
        environment.pop("NO_COLOR", None)
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "jetspark", *map(str, arguments)],
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end inside a character

    def expect(self, text: str, timeout: float = LONG) -> None:
        """Wait until it has shown `text`."""
        self._read_until(lambda: text in self.seen, text, timeout)

    def type(self, text: str) -> None:
        """Type a line, and forget what was shown before."""
        self.seen = ""
        os.write(self._master, f"{text}\n".encode())

    def interrupt(self) -> int:
        """Press Ctrl-C, and again as long as nothing happens; the exit code.

        Once is not enough when it comes in the moment before the interpreter waits for an answer.
        """
        deadline = time.monotonic() + LONG
        while self.popen.poll() is None:
            assert time.monotonic() < deadline, f"it cannot be interrupted, saw {self.seen!r}"
            os.killpg(self.popen.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(timeout=5.0)
        return self.end()

    def end(self) -> int:
        """Wait for the end; the exit code."""
        self._read_until(lambda: False, None)
        return self.popen.wait(timeout=LONG)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        os.close(self._master)

    def _read_until(self, done: Callable[[], bool], what: str | None, timeout: float = LONG) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"waited in vain for {what!r}, saw {self.seen!r}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # what Linux says when the other side is gone
                data = b""
            if not data:
                assert what is None, f"it ended before {what!r}, saw {self.seen!r}"
                return
            self.seen += self._decoder.decode(data)
